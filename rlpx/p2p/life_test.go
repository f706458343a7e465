package p2p

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
)

// quiet is a session that has nothing to say by itself, and no bound on silence.
func quiet() *SessionConfig {
	return &SessionConfig{Capabilities: testCaps, PingInterval: -1, ReadTimeout: -1}
}

// Deadlines that bounded the handshakes end with Hello.
func TestDeadlinesEndWithHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, p := pipe.peer(t, nil)
		conn.SetDeadline(time.Now().Add(time.Minute))
		s := p.session(conn, quiet(), p.hello(5, testCaps.Caps()...))
		time.Sleep(time.Hour)
		go p.next()
		if err := s.Capability("aaa").Write(0, nil); err != nil {
			t.Error(err)
		}
		if err := s.Err(); err != nil {
			t.Error(err)
		}
	})
}

// The peer's silence begins with the session, not with Hello, which may have taken long.
func TestSilenceBeginsWithTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, p := pipe.peer(t, nil)
		cfg := quiet()
		cfg.ReadTimeout = 10 * time.Second
		sessions := make(chan *Session, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s, err := NewSession(ctx, conn, cfg)
			if err != nil {
				t.Error(err)
			}
			sessions <- s
		}()
		p.read()
		time.Sleep(8 * time.Second)
		p.SendMessage(HelloCode, p.hello(5, testCaps.Caps()...))
		s := <-sessions
		go p.rest()
		time.Sleep(9 * time.Second)
		if err := s.Err(); err != nil {
			t.Errorf("after 9 of 10 seconds: %v", err)
		}
		wantDone(t, s, ErrReadTimeout)
	})
}

// A session whose connection cannot be written to ends within a second, with the first reason,
// whoever learned of it: a message that nobody waits for, or a timer.
func TestBrokenSessionEnds(t *testing.T) {
	for name, fail := range map[string]func(s *Session, first error){
		"told twice": func(s *Session, first error) {
			s.writeFailed(first)
			time.Sleep(disconnectTimeout / 2)
			s.writeFailed(errors.New("second"))
		},
		"by Send": func(s *Session, first error) {
			if err := s.Capability("aaa").Send(0, nil); err != nil {
				panic(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := errors.New("first")
				fails := false
				ours, theirs := net.Pipe()
				filter := &rlpxtest.Filter{Conn: ours, OnWrite: func(inner net.Conn, p []byte) (int, error) {
					if fails {
						return 0, first
					}
					return inner.Write(p)
				}}
				conn, p := peerOver(t, filter, theirs, nil)
				s := p.session(conn, quiet(), p.hello(5, testCaps.Caps()...))
				synctest.Wait()
				fails = true
				start := time.Now()
				fail(s, first)
				wantDone(t, s, first)
				if took := time.Since(start); took > disconnectTimeout {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// A peer that broke the protocol may have more to write before it reads why the session ends. It is
// drained meanwhile.
func TestPeerIsDrainedAfterABreach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pipe.session(t, quiet())
		bad := p.Egress.Seal([]byte{0xc0}) // no message code
		told := make(chan []uint64, 1)
		if _, err := p.Conn.Write(append(bad, make([]byte, 1<<20)...)); err != nil {
			t.Errorf("the peer cannot go on: %v", err)
		}
		go func() {
			codes, _ := p.rest()
			told <- codes
		}()
		wantDone(t, s, rlpx.ErrProtocol)
		if codes := <-told; len(codes) != 1 || codes[0] != DisconnectCode {
			t.Errorf("the peer was told %#x", codes)
		}
	})
}

// A Pong that nobody asked for is no round trip.
func TestUnaskedPong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := quiet()
		pongs := 0
		cfg.Trace = &SessionTrace{Pong: func(*Session, time.Duration) { pongs++ }}
		s, p := pipe.session(t, cfg)
		p.send(PongCode, AppendPong(nil))
		synctest.Wait()
		if pongs != 0 || s.Stats().Pongs != 1 {
			t.Errorf("%d round trips, %d Pongs", pongs, s.Stats().Pongs)
		}
	})
}

// A Ping that is never answered keeps the next one waiting for some seconds only.
func TestPingAfterALostOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pipe.session(t, &SessionConfig{Capabilities: testCaps, PingInterval: time.Hour, ReadTimeout: -1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			p.want(PingCode, AppendPing(nil)) // which is not answered
			p.want(PingCode, AppendPing(nil))
			p.send(PongCode, AppendPong(nil))
		}()
		if _, err := s.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := s.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > lostPing {
			t.Errorf("took %v", took)
		}
	})
}

// halfClosing is a net.Conn with a CloseWrite, as TCP has. It notes when either is called.
type halfClosing struct {
	net.Conn
	halfClosed, closed time.Time
}

func (c *halfClosing) CloseWrite() error {
	c.halfClosed = time.Now()
	return nil
}

func (c *halfClosing) Close() error {
	if c.closed.IsZero() {
		c.closed = time.Now()
	}
	return c.Conn.Close()
}

// What can end one direction is closed when the peer has closed or a little later, so that it can
// read the Disconnect.
func TestPeerHasTimeToReadTheDisconnect(t *testing.T) {
	for _, peerTakes := range []time.Duration{linger / 2, 2 * linger} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			c := &halfClosing{Conn: ours}
			conn, p := peerOver(t, c, theirs, nil)
			s := p.session(conn, quiet(), p.hello(5, testCaps.Caps()...))
			go func() {
				p.want(DisconnectCode, AppendDisconnect(nil, DiscQuitting))
				time.Sleep(peerTakes)
				theirs.Close()
			}()
			s.Close()
			if waited := c.closed.Sub(c.halfClosed); c.halfClosed.IsZero() || waited != min(peerTakes, linger) {
				t.Errorf("closed after %v, want %v", waited, min(peerTakes, linger))
			}
			time.Sleep(peerTakes)
		})
	}
}
