package p2p

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/rlpx"
)

// callbacks of a session: all of the public API that are called while there is one.
var sessionCallbacks = []string{
	"rlpx.Trace.FrameRead", "rlpx.Trace.FrameWritten", "rlpx.Trace.Flushed", "rlpx.Trace.ReadFailed", "rlpx.Trace.WriteFailed",
	"rlpx.Config.MessageLimit",
	"Capability.Handle",
	"SessionTrace.Started", "SessionTrace.Ended", "SessionTrace.Pong", "SessionTrace.Stalled",
}

// ways to end a session.
var endings = []struct {
	name string
	end  func(s *Session)
}{
	{"End", func(s *Session) { s.End(DiscTooManyPeers) }},
	{"Disconnect", func(s *Session) { s.Disconnect(DiscTooManyPeers) }},
	{"Close", func(s *Session) { s.Close() }},
	{"Conn.Close", func(s *Session) { s.conn.Close() }},
}

// hooked is a session in one of whose callbacks something happens, once.
type hooked struct {
	name    string // of the callback
	f       func(s *Session)
	session atomic.Pointer[Session]
	entered atomic.Bool
	left    atomic.Bool
}

func (h *hooked) call(name string) {
	s := h.session.Load()
	if name != h.name || s == nil || !h.entered.CompareAndSwap(false, true) {
		return
	}
	defer h.left.Store(true)
	h.f(s)
}

// config returns the configurations of a session that calls.
func (h *hooked) config(t testing.TB) (*rlpx.Config, *SessionConfig) {
	caps := append(Capabilities(nil), testCaps...)
	caps[1].Handle = func(*Channel, uint64, []byte) error { h.call("Capability.Handle"); return nil }
	return &rlpx.Config{
			Key:          newKey(t),
			MessageLimit: func(uint64) int { h.call("rlpx.Config.MessageLimit"); return 1 << 20 },
			Trace: &rlpx.Trace{
				FrameRead:    func(*rlpx.Conn, rlpx.TraceFrame) { h.call("rlpx.Trace.FrameRead") },
				FrameWritten: func(*rlpx.Conn, rlpx.TraceFrame) { h.call("rlpx.Trace.FrameWritten") },
				Flushed:      func(*rlpx.Conn, rlpx.TraceFlush) { h.call("rlpx.Trace.Flushed") },
				ReadFailed:   func(*rlpx.Conn, error) { h.call("rlpx.Trace.ReadFailed") },
				WriteFailed:  func(*rlpx.Conn, error) { h.call("rlpx.Trace.WriteFailed") },
			},
		}, &SessionConfig{
			Capabilities: caps, QueueMessages: 1,
			Trace: &SessionTrace{
				Started: func(s *Session) { h.session.Store(s); h.call("SessionTrace.Started") },
				Ended:   func(*Session, error) { h.call("SessionTrace.Ended") },
				Pong:    func(*Session, time.Duration) { h.call("SessionTrace.Pong") },
				Stalled: func(*Session, *Channel, time.Duration) { h.call("SessionTrace.Stalled") },
			},
		}
}

// start starts the session.
func (h *hooked) start(t testing.TB) (*Session, *peer) {
	cfg, sessionCfg := h.config(t)
	ours, theirs := net.Pipe()
	conn, p := peerOver(t, ours, theirs, cfg)
	return p.session(conn, sessionCfg, p.hello(5, testCaps.Caps()...)), p
}

// live makes all callbacks be called, and ends with a peer that hangs up.
func (h *hooked) live(t *testing.T) *Session {
	s, p := h.start(t)
	go func() {
		for {
			code, _, err := p.next()
			if err != nil {
				return
			}
			if code == PingCode {
				go p.send(PongCode, nil)
			}
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ch := s.Capability("aaa")
	p.send(0x14, nil)
	ch.Write(0, nil)
	ch.Send(0, nil)
	s.Ping(ctx)
	go func() {
		p.send(0x10, nil)
		p.send(0x10, nil)
	}()
	synctest.Wait()
	ch.Read(ctx)
	ch.Read(ctx)
	p.Conn.Close()
	ch.Write(0, nil)
	return s
}

// Every callback may end its session, in any way, and nobody waits for ever: neither the callback
// nor who ends the session outside, at the same time or later.
func TestCase_N7_CallbackEndsSession(t *testing.T) {
	for _, name := range sessionCallbacks {
		for _, ending := range endings {
			t.Run(name+"/"+ending.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := &hooked{name: name, f: ending.end}
					start := time.Now()
					s := h.live(t)
					closed := make(chan struct{})
					go func() {
						s.Close()
						close(closed)
					}()
					for what, c := range map[string]<-chan struct{}{"Done": s.Done(), "Close": closed} {
						select {
						case <-c:
						case <-time.After(time.Minute):
							t.Fatalf("%s is not through after %v", what, time.Since(start))
						}
					}
					if !h.entered.Load() || !h.left.Load() {
						t.Errorf("callback entered %v, left %v", h.entered.Load(), h.left.Load())
					}
					if s.Err() == nil {
						t.Error("no error")
					}
				})
			})
		}
	}
}

// A callback that takes its time holds up neither Disconnect nor Close, called from elsewhere.
func TestCase_N7_SlowCallbackHoldsUpNoEnd(t *testing.T) {
	for _, name := range []string{"rlpx.Trace.FrameRead", "rlpx.Config.MessageLimit", "Capability.Handle", "rlpx.Trace.Flushed"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				h := &hooked{name: name, f: func(*Session) { <-release }}
				go func() {
					for h.session.Load() == nil || !h.entered.Load() {
						time.Sleep(time.Millisecond)
					}
					start := time.Now()
					h.session.Load().Close()
					if took := time.Since(start); took > disconnectTimeout+linger {
						t.Errorf("took %v", took)
					}
					select {
					case <-h.session.Load().Done():
						if name != "rlpx.Trace.Flushed" { // which a writer calls
							t.Error("Done while the reader is in a callback")
						}
					default:
					}
					close(release)
				}()
				<-h.live(t).Done()
			})
		})
	}
}

// Nothing is delivered after the end: once Channel.Read has returned the error of the session, no
// message comes any more, whatever the peer still sends and however the session ends.
func TestCase_N11_NothingAfterTheEnd(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(s *Session, p *peer)
	}{
		{"Disconnect", func(s *Session, p *peer) { go s.Disconnect(DiscTooManyPeers) }},
		{"Close", func(s *Session, p *peer) { go s.Close() }},
		{"breach", func(s *Session, p *peer) { p.send(HelloCode, nil) }},
		{"code of nobody", func(s *Session, p *peer) { p.send(0x100, nil) }},
		{"Disconnect of the peer", func(s *Session, p *peer) { p.send(DisconnectCode, []byte{0xc1, 0x04}) }},
		{"silence", func(*Session, *peer) {}},
		{"stall", func(s *Session, p *peer) {
			p.send(0x14, nil)
			p.send(0x14, nil)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				var s atomic.Pointer[Session]
				var over, handled atomic.Bool
				cfg := testConfig()
				cfg.PingInterval, cfg.QueueMessages, cfg.ReadTimeout = -1, 1, 10*time.Second
				cfg.Capabilities = append(Capabilities(nil), cfg.Capabilities...)
				cfg.Capabilities[1].Handle = func(*Channel, uint64, []byte) error {
					if over.Load() {
						handled.Store(true)
					}
					return nil
				}
				if tc.name == "stall" {
					cfg.Capabilities[1].Handle = nil
					cfg.StallTimeout = time.Second
				}
				conn, p := peerOver(t, ours, theirs, nil)
				s.Store(p.session(conn, cfg, p.hello(5, testCaps.Caps()...)))
				// The peer does not read, so that our Disconnect takes its time.
				go tc.end(s.Load(), p)
				ch := s.Load().Capability("aaa")
				for {
					if _, _, err := ch.Read(t.Context()); err != nil {
						break
					}
				}
				over.Store(true)
				for i := range 20 { // what the peer sent before it knew
					go p.send([]uint64{0x10, 0x14}[i/10], []byte("late"))
					synctest.Wait()
					for _, name := range []string{"aaa", "bbb"} {
						ctx, cancel := context.WithCancel(t.Context())
						cancel()
						if _, data, err := s.Load().Capability(name).Read(ctx); err == nil && name == "aaa" {
							t.Fatalf("%q after the end", data)
						}
					}
				}
				<-s.Load().Done()
				if _, _, err := ch.Read(t.Context()); err == nil || !errors.Is(err, s.Load().Err()) {
					t.Errorf("then %v, want %v", err, s.Load().Err())
				}
				if handled.Load() {
					t.Error("Handle is called after the end")
				}
				p.Conn.Close()
			})
		})
	}
}
