package p2p

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// A peer may be slow, but not stuck.
func TestCase_L5_SlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pipe.session(t, nil)
		p.snappy = false
		slow := &rlpxtest.Filter{Conn: p.Conn, OnRead: func(inner net.Conn, b []byte) (int, error) {
			n, err := inner.Read(b[:min(len(b), 20_000)])
			time.Sleep(time.Duration(n) * time.Second / 200_000)
			return n, err
		}}
		p.Conn = slow
		data := make([]byte, 2_000_000)
		rand.NewChaCha8([32]byte{}).Read(data) // which does not compress
		start := time.Now()
		written := make(chan error, 1)
		go func() { written <- s.Capability("aaa").Write(0, data) }()
		frame, err := p.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if frame.Header.Size() < len(data) {
			t.Errorf("got %d bytes", frame.Header.Size())
		}
		if err := <-written; err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took < 10*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestCase_L5_StuckReader(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			s, p := pipe.session(t, &SessionConfig{Capabilities: testCaps, WriteTimeout: timeout})
			stop := make(chan struct{})
			talked := make(chan struct{})
			go func() { // the peer is alive
				defer close(talked)
				for p.send(0x05, nil) == nil {
					time.Sleep(time.Second)
				}
			}()
			start := time.Now()
			err := s.Capability("aaa").Write(0, make([]byte, 100))
			if !isTimeout(err) {
				t.Errorf("got %v", err)
			}
			want := timeout
			if want == 0 {
				want = DefaultWriteTimeout
			}
			if took := time.Since(start); took < want || took > want+disconnectTimeout {
				t.Errorf("took %v", took)
			}
			<-s.Done()
			if err != s.Err() {
				t.Errorf("ended by %v", s.Err())
			}
			close(stop)
			<-talked
		})
	}
}

// A peer that keeps talking does not hold up the end.
func TestCase_L6_TalkativePeer(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		checkLeaks(t)
		s, p := n.session(t, nil)
		talked := make(chan struct{})
		go func() {
			defer close(talked)
			for p.send(0x10, []byte("and another thing")) == nil {
			}
		}()
		time.Sleep(10 * time.Millisecond)
		if !rlpxtest.Within(func() { s.Close() }) { // the peer does not read
			t.Fatal("Close waits for the peer to be silent")
		}
		<-talked
	})
}

// A peer that never reads holds up neither the end nor, even less, those who write.
func TestCase_L9_PeerNeverReads(t *testing.T) {
	onClocks(t, func(t *testing.T, n network, within func(string, time.Duration, time.Duration)) {
		s, _ := n.session(t, nil)
		data := make([]byte, 1<<20)
		rand.NewChaCha8([32]byte{}).Read(data)
		type end struct {
			err error
			at  time.Time
		}
		ends := make(chan end, 10)
		for i := range 10 {
			go func() {
				size := []int{64 << 10, 1 << 20, 1000}[i%3]
				for {
					if err := s.Capability("aaa").Write(0, data[:size]); err != nil {
						ends <- end{err, time.Now()}
						return
					}
				}
			}()
		}
		// Wait for the window to be full.
		for before := uint64(1 << 63); ; time.Sleep(50 * time.Millisecond) {
			now := s.ConnectionState().Stats.MessagesWritten
			if now == before {
				break
			}
			before = now
		}
		start := time.Now()
		if err := s.Disconnect(DiscTooManyPeers); err != nil {
			t.Error(err)
		}
		within("Disconnect", time.Since(start), disconnectTimeout)
		for range 10 {
			e := <-ends
			wantErr(t, e.err, DiscTooManyPeers)
			within("a writer", e.at.Sub(start), writeGrace)
		}
	})
}

// The peer vanishes at any point of a session.
func TestCase_L10_PeerVanishes(t *testing.T) {
	phases := []struct {
		name string
		run  func(s *Session, p *peer)
	}{
		{"idle", func(*Session, *peer) {}},
		{"mid header", func(_ *Session, p *peer) { p.Send(p.Egress.Seal([]byte{0x10, 1, 0, 1})[:20]) }},
		{"mid body", func(_ *Session, p *peer) { p.Send(p.Egress.Seal(make([]byte, 1000))[:500]) }},
		{"our write", func(s *Session, _ *peer) { go s.Capability("aaa").Write(0, make([]byte, 8<<20)) }},
		{"our Ping", func(s *Session, _ *peer) { go s.Ping(context.Background()) }},
		{"our Close", func(s *Session, _ *peer) { go s.Close() }},
		{"stalled", func(_ *Session, p *peer) {
			for range 2 * DefaultQueueMessages {
				p.Conn.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
				p.send(0x10, nil)
			}
		}},
	}
	onNetworks(t, func(t *testing.T, n network) {
		checkLeaks(t)
		for _, phase := range phases {
			for i := range 20 {
				s, p := n.session(t, &SessionConfig{Capabilities: testCaps, StallTimeout: 50 * time.Millisecond})
				phase.run(s, p)
				time.Sleep(time.Duration(i%7) * 300 * time.Microsecond)
				if i%2 == 0 {
					p.Reset()
				} else {
					p.Conn.Close()
				}
				if !rlpxtest.Within(func() { <-s.Done() }) {
					t.Fatalf("%s: session does not end", phase.name)
				}
				if s.Err() == nil {
					t.Errorf("%s: no error", phase.name)
				}
				checkText(t, s.Err().Error())
			}
		}
	})
}

// The local reason stays, and that nobody could be told is no error of its own.
func TestCase_L18_LocalReason(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		for _, gone := range []bool{false, true} {
			s, p := n.session(t, nil)
			if gone {
				p.Conn.Close() // which the session may find before our end, or not
			} else {
				go p.rest()
			}
			err := s.Disconnect(DiscQuitting)
			if gone && err != nil {
				wantErr(t, err, io.EOF)
				continue
			}
			if err != nil {
				t.Error(err)
			}
			var disconnect *DisconnectError
			_, _, err = s.Capability("aaa").Read(t.Context())
			if !errors.As(err, &disconnect) || *disconnect != (DisconnectError{DiscQuitting, false}) {
				t.Errorf("got %v", err)
			}
		}
	})
}

// Our write fails while the peer's Disconnect is still unread: its reason is what ended us.
func TestReasonBehindFailedWrite(t *testing.T) {
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprintf("full=%v", full), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				failing := &rlpxtest.Filter{Conn: ours}
				broken := false
				failing.OnWrite = func(inner net.Conn, b []byte) (int, error) {
					if broken {
						return 0, errors.New("broken pipe")
					}
					return inner.Write(b)
				}
				conn, p := peerOver(t, failing, theirs, nil)
				s := p.session(conn, &SessionConfig{Capabilities: testCaps, QueueMessages: 1}, p.hello(5, testCaps.Caps()...))
				p.send(0x10, []byte("kept"))
				if full {
					p.send(0x10, []byte("too much"))
				}
				synctest.Wait()
				broken = true
				result := make(chan error, 1)
				go func() { result <- s.Capability("aaa").Write(0, nil) }()
				synctest.Wait()
				if full {
					p.send(0x10, []byte("dropped"))
				}
				p.send(DisconnectCode, []byte{0xc1, 0x04})
				wantErr(t, <-result, &DisconnectError{DiscTooManyPeers, true})
				if _, data, err := s.Capability("aaa").Read(t.Context()); err != nil || string(data) != "kept" {
					t.Errorf("got %q, %v", data, err)
				}
				_, data, err := s.Capability("aaa").Read(t.Context())
				wantErr(t, err, &DisconnectError{DiscTooManyPeers, true})
				if data != nil {
					t.Errorf("got %q", data)
				}
			})
		})
	}
}

// Over TCP, with the reset that a peer's close gives when it has data of ours unread.
func TestReasonBeforeReset(t *testing.T) {
	for range 20 {
		s, p := tcp.session(t, nil)
		writing := make(chan error, 1)
		go func() {
			for {
				if err := s.Capability("aaa").Write(0, make([]byte, 10_000)); err != nil {
					writing <- err
					return
				}
			}
		}()
		time.Sleep(time.Millisecond)
		p.send(DisconnectCode, []byte{0xc1, 0x04})
		p.Conn.Close()
		wantErr(t, <-writing, &DisconnectError{DiscTooManyPeers, true})
		wantDone(t, s, DiscTooManyPeers)
	}
}
