package p2p

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// A capability that is not read holds a bounded number of bytes and messages, then stops the
// reader, and in the end the session.
func TestCase_M14_SlowCapability(t *testing.T) {
	for _, tt := range []struct {
		name         string
		cfg          SessionConfig
		size, queued int
	}{
		{name: "messages", cfg: SessionConfig{QueueMessages: 5}, size: 10, queued: 5},
		{name: "bytes", cfg: SessionConfig{QueueBytes: 1000}, size: 300, queued: 3},
		{name: "exactly", cfg: SessionConfig{QueueBytes: 900}, size: 300, queued: 3},
		{name: "larger than the queue", cfg: SessionConfig{QueueBytes: 100}, size: 300, queued: 0},
		{name: "empty messages", cfg: SessionConfig{QueueBytes: 100}, size: 0, queued: DefaultQueueMessages},
		{name: "default bytes", size: DefaultQueueBytes / 4, queued: 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := tt.cfg
				cfg.Capabilities = testCaps
				s, p := pipe.session(t, &cfg)
				var got []uint64
				rest := make(chan struct{})
				go func() {
					defer close(rest)
					got, _ = p.rest()
				}()
				start := time.Now()
				sent := 0
				for p.send(0x10, make([]byte, tt.size)) == nil {
					if time.Since(start) < DefaultStallTimeout { // after that, what comes is dropped
						sent++
					}
				}
				// Beyond the queue there is the message that stalls, and a buffer of the
				// connection. A frame takes 64 bytes or more.
				if sent < tt.queued+1 || sent > tt.queued+1+(64<<10)/64 {
					t.Errorf("sent %d messages", sent)
				}
				wantDone(t, s, ErrStalled)
				wantErr(t, s.Err(), &DisconnectError{Reason: DiscSubprotocolError})
				if took := time.Since(start); took < DefaultStallTimeout || took > DefaultStallTimeout+disconnectTimeout {
					t.Errorf("took %v", took)
				}
				<-rest
				if n := len(got); n == 0 || got[n-1] != DisconnectCode {
					t.Errorf("peer got codes %#x", got)
				}
				// What was queued is there still.
				for range tt.queued {
					if _, data, err := s.Capability("aaa").Read(t.Context()); err != nil || len(data) != tt.size {
						t.Fatal(len(data), err)
					}
				}
				_, _, err := s.Capability("aaa").Read(t.Context())
				wantErr(t, err, ErrStalled)
			})
		})
	}
}

// Backpressure ends when messages are read, nothing is lost, and another capability is not starved
// for good.
func TestCase_M14_Backpressure(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		cfg := testConfig()
		cfg.QueueBytes, cfg.QueueMessages = 10_000, 10
		a, b := n.sessions(t, testConfig(), cfg)
		const messages = 2000
		for _, name := range []string{"aaa", "bbb"} {
			go func() {
				r := rand.New(rand.NewPCG(1, 2))
				for i := range messages {
					if err := a.Capability(name).Write(uint64(i)%4, pattern(r.IntN(3000), i)); err != nil {
						t.Error(err)
						return
					}
				}
			}()
		}
		results := make(chan error, 2)
		for _, name := range []string{"aaa", "bbb"} {
			go func() {
				r := rand.New(rand.NewPCG(1, 2))
				for i := range messages {
					if i%500 == 0 {
						time.Sleep(10 * time.Millisecond) // for the queue to fill
					}
					id, data, err := b.Capability(name).Read(t.Context())
					if err != nil || id != uint64(i)%4 || !bytes.Equal(data, pattern(r.IntN(3000), i)) {
						results <- fmt.Errorf("%s: message %d: id %d, %d bytes, %w", name, i, id, len(data), err)
						return
					}
				}
				results <- nil
			}()
		}
		for range 2 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
	})
}

func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(seed) ^ byte(i) ^ byte(i>>8)
	}
	return b
}

// While the reader is stopped by a full queue, control messages of ours still go out, and the end
// of the session is not held up.
func TestCase_M14_StalledSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pipe.session(t, &SessionConfig{Capabilities: testCaps, QueueMessages: 1, StallTimeout: time.Hour})
		p.send(0x10, nil)
		p.send(0x10, nil)
		p.want(PingCode, []byte{0xc0})
		start := time.Now()
		go s.Disconnect(DiscTooManyPeers)
		p.wantFarewell(DiscTooManyPeers)
		wantDone(t, s, DiscTooManyPeers)
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v", took)
		}
		_, _, err := s.Capability("aaa").Read(t.Context())
		wantErr(t, err, DiscTooManyPeers) // our own end drops the queue
	})
}

// Data belongs to whoever read it, with and without compression.
func TestCase_L17_DataIsOwned(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		for _, version := range []uint64{4, 5} {
			t.Run(fmt.Sprint(version), func(t *testing.T) {
				conn, p := n.peer(t, nil)
				s := p.session(conn, nil, p.hello(version, testCaps.Caps()...))
				go func() {
					for i := range 6 {
						p.send(PingCode, bytes.Repeat([]byte{byte(i)}, 500))
						p.send(0x10, bytes.Repeat([]byte{byte(i)}, 500))
					}
				}()
				var kept [][]byte
				for range 6 {
					_, data, err := s.Capability("aaa").Read(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					kept = append(kept, data)
				}
				for i, data := range kept {
					if !bytes.Equal(data, bytes.Repeat([]byte{byte(i)}, 500)) {
						t.Errorf("message %d was overwritten", i)
					}
					clear(data)
				}
			})
		}

	})
}

func TestChannelRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pipe.session(t, nil)
		ch := s.Capability("bbb")
		if ch.Session() != s || ch.Shared().Name != "bbb" || s.Capability("ccc") != nil {
			t.Error("accessors")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := ch.Read(ctx); err != context.DeadlineExceeded {
			t.Error(err)
		}
		// Of several readers each gets some of what comes at once.
		got := make(chan uint64)
		for range 4 {
			go func() {
				id, data, err := ch.Read(t.Context())
				if err != nil || data == nil {
					t.Error(data, err)
				}
				got <- id
			}()
		}
		synctest.Wait()
		for id := range uint64(4) {
			p.send(0x14+id, nil)
		}
		var sum uint64
		for range 4 {
			sum += 1 << (8 * <-got)
		}
		if sum != 0x01010101 {
			t.Errorf("got %#x", sum)
		}
		// What came before the end can be read after it.
		p.send(0x14, []byte("first"))
		p.send(DisconnectCode, []byte{0xc1, 0x05})
		wantDone(t, s, DiscAlreadyConnected)
		if _, data, err := ch.Read(t.Context()); err != nil || string(data) != "first" {
			t.Errorf("got %q, %v", data, err)
		}
		_, _, err := ch.Read(t.Context())
		wantErr(t, err, &DisconnectError{DiscAlreadyConnected, true})
	})
}

func TestQueue(t *testing.T) {
	var q queue
	var model []message
	r := rand.New(rand.NewPCG(3, 4))
	next, size := uint64(0), 0
	for range 20_000 {
		if grow := r.IntN(100) < 50+10*(int(next/500)%3-1); grow || len(model) == 0 {
			m := message{next, make([]byte, r.IntN(5))}
			next++
			size += len(m.data)
			q.push(m)
			model = append(model, m)
		} else {
			if got := q.pop(); got.id != model[0].id || len(got.data) != len(model[0].data) {
				t.Fatalf("got %d, want %d", got.id, model[0].id)
			}
			size -= len(model[0].data)
			model = model[1:]
		}
		if q.len() != len(model) || q.bytes != size {
			t.Fatalf("%d messages of %d bytes, want %d of %d", q.len(), q.bytes, len(model), size)
		}
	}
	for q.len() > 0 {
		q.pop()
	}
	if len(q.ring) > minRing {
		t.Errorf("an empty queue keeps room for %d messages", len(q.ring))
	}
}

// The heap of a session does not grow with what passes it.
func TestSessionHoldsNothing(t *testing.T) {
	a, b := tcp.sessions(t, testConfig(), testConfig())
	pass := func(n, size int) {
		data := make([]byte, size)
		for range n {
			if err := a.Capability("aaa").Write(0, data); err != nil {
				t.Fatal(err)
			}
			if _, _, err := b.Capability("aaa").Read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	pass(10, 100)
	before := rlpxtest.HeapInUse()
	pass(3, 4<<20)
	pass(1000, 100)
	if after := rlpxtest.HeapInUse(); after > before+256<<10 {
		t.Errorf("heap grew from %d to %d", before, after)
	}
}
