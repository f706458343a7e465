package p2p

import (
	"context"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/rlpx"
)

// What a peer makes a session hold is bounded whatever the sizes of its messages: what fits the
// queues, and one message. Zeros are cheap to send: 16 MiB of them are 0.8 MiB on the wire.
func TestCase_N14_HeldBytesAreBounded(t *testing.T) {
	const size = 16<<20 - 1
	block := snappy.Encode(nil, make([]byte, size))
	for _, tc := range []struct {
		name  string
		codes []uint64
	}{
		{"one capability", []uint64{0x10, 0x10, 0x10}},
		{"two capabilities", []uint64{0x10, 0x14, 0x10, 0x14}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, p := pipe.session(t, &SessionConfig{Capabilities: testCaps, StallTimeout: time.Hour, ReadTimeout: -1, PingInterval: -1})
				before := heap()
				go func() {
					for _, code := range tc.codes {
						if p.SendMessage(code, block) != nil {
							return
						}
					}
				}()
				synctest.Wait()       // until the session reads no more
				const pools = 8 << 20 // the frame on its way, and what is larger than asked for
				if held := heap() - before; held > size+DefaultQueueBytes+pools {
					t.Errorf("holds %d KiB with nobody reading", held>>10)
				}
				for _, code := range tc.codes {
					ch := s.Capability("aaa")
					if code == 0x14 {
						ch = s.Capability("bbb")
					}
					if _, data, err := ch.Read(t.Context()); err != nil || len(data) != size {
						t.Fatalf("%d bytes, %v", len(data), err)
					}
				}
				p.Conn.Close()
				<-s.Done()
			})
		})
	}
}

// heap is what is reachable.
func heap() int {
	var m runtime.MemStats
	for range 3 { // pools take two to be empty
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A message that is larger than the queue goes to a Read that waits, none is lost to one that gives
// up, and the order stays.
func TestCase_N14_LargeMessagesAreHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pipe.session(t, &SessionConfig{Capabilities: testCaps, QueueBytes: 1000, StallTimeout: time.Hour})
		sizes := []int{10, 5000, 20, 1001, 1000, 999, 2000, 3000, 0}
		go func() {
			for i, n := range sizes {
				p.send(0x10+uint64(i%4), make([]byte, n))
			}
		}()
		go discard(p.Conn)
		for i, n := range sizes {
			for {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%3)*time.Microsecond)
				id, data, err := s.Capability("aaa").Read(ctx)
				cancel()
				if err == context.DeadlineExceeded {
					continue
				}
				if err != nil || len(data) != n || id != uint64(i%4) {
					t.Fatalf("message %d: id %d, %d bytes, %v", i, id, len(data), err)
				}
				break
			}
		}
	})
}

// A message that nobody takes stalls the session, as a full queue does.
func TestCase_N14_LargeMessageStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pipe.session(t, &SessionConfig{Capabilities: testCaps, QueueBytes: 1000, StallTimeout: 5 * time.Second})
		start := time.Now()
		p.send(0x10, make([]byte, 2000))
		p.wantFarewell(DiscSubprotocolError)
		wantDone(t, s, ErrStalled)
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// A function of limits that the program made for its own messages is not asked about those of the
// base protocol, in whatever phase: a map with a default of 0 refuses none of them.
func TestCase_N9_BaseMessagesHaveTheirOwnLimits(t *testing.T) {
	asked := make(chan uint64, 100)
	cfg := func() *rlpx.Config {
		return &rlpx.Config{MessageLimit: func(code uint64) int {
			asked <- code
			return map[uint64]int{0x10: 100}[code]
		}}
	}
	for _, version := range []uint64{4, 5} {
		ours, theirs := net.Pipe()
		conn, p := peerOver(t, ours, theirs, cfg())
		s := p.session(conn, nil, p.hello(version, testCaps.Caps()...))
		p.send(PingCode, []byte{0xc0})
		p.want(PongCode, []byte{0xc0})
		p.send(PongCode, make([]byte, 1000))
		p.send(0x04, make([]byte, 1000)) // reserved
		p.send(0x10, make([]byte, 100))
		if _, _, err := s.Capability("aaa").Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.send(DisconnectCode, []byte{0xc1, 0x04})
		wantDone(t, s, DiscTooManyPeers)
		if len(asked) != 1 || <-asked != 0x10 {
			t.Errorf("version %d: the function was asked about other codes", version)
		}
	}
	// Hello alone, and what follows it.
	ours, theirs := net.Pipe()
	conn, p := peerOver(t, ours, theirs, cfg())
	go func() {
		p.SendMessage(HelloCode, p.hello(4))
		p.SendMessage(PingCode, make([]byte, 1000))
	}()
	go p.rest()
	if _, err := Handshake(t.Context(), conn, &Hello{Version: 4}); err != nil {
		t.Fatal(err)
	}
	if code, _, _, err := conn.Read(); code != PingCode || err != nil {
		t.Fatal(code, err)
	}
	// But bounds they have.
	s, p := pipe.session(t, nil)
	go p.rest()
	p.send(PingCode, make([]byte, 1<<20))
	wantDone(t, s, rlpx.ErrMessageTooBig)
}
