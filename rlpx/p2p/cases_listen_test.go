package p2p

import (
	"context"
	"crypto/ecdsa"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/rlpx"
)

// pipes is a net.Listener whose connections come from dial.
type pipes struct {
	next chan net.Conn
	done chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-l.next:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error   { close(l.done); return nil }
func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (l *pipes) dial() net.Conn {
	theirs, ours := net.Pipe()
	l.next <- ours
	return theirs
}

// One peer after the other is accepted and gets its session. Those that stall at Hello use up
// nobody's time but their own, and no connection is handed out that is too late.
func TestCase_N12_StallAtHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stalling, honest = 3, 3
		inner, key := newPipes(), newKey(t)
		l := rlpx.NewListener(inner, &rlpx.Config{Key: key})
		defer l.Close()
		results := make(chan error, honest)
		for i := range stalling + honest {
			conn := inner.dial()
			defer conn.Close()
			peer := rlpx.Client(conn, &key.PublicKey, &rlpx.Config{Key: newKey(t)})
			if _, err := peer.HandshakeContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			if i >= stalling {
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					_, err := Handshake(ctx, peer, &Hello{Caps: testCaps.Caps()})
					results <- err
					drain(peer)
				}()
			}
			synctest.Wait()
		}
		start := time.Now()
		for i := range stalling + honest {
			conn, err := l.Accept(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s, err := NewSession(context.Background(), conn, testConfig())
			if stalls := i < stalling; stalls != (err != nil) {
				t.Errorf("peer %d after %v: %v", i, time.Since(start), err)
			}
			if err == nil {
				s.Close()
			}
		}
		for range honest {
			if err := <-results; err != nil {
				t.Error("honest peer:", err)
			}
		}
	})
}

// A callback may close the Listener that its session or connection comes from, and nobody waits for
// ever.
func TestCase_N7_CallbackClosesListener(t *testing.T) {
	for _, name := range []string{
		"SessionTrace.Started", "rlpx.Trace.HandshakeDone", "rlpx.Trace.FrameRead", "rlpx.Trace.Flushed", "rlpx.Config.MessageLimit",
		"rlpx.Config.VerifyPeer", "rlpx.Config.Allow", "rlpx.Config.OnError", "Capability.Handle", "SessionTrace.Ended",
	} {
		for _, end := range []string{"Close", "End"} {
			t.Run(name+"/"+end, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var l *Listener
					var entered, left atomic.Bool
					called := func(c string) {
						if c != name || !entered.CompareAndSwap(false, true) {
							return
						}
						if end == "Close" {
							l.Close()
						} else {
							l.End()
						}
						left.Store(true)
					}
					caps := append(Capabilities(nil), testCaps...)
					caps[0].Handle = func(*Channel, uint64, []byte) error { called("Capability.Handle"); return nil }
					cfg := &SessionConfig{Capabilities: caps, Trace: &SessionTrace{
						Started: func(*Session) { called("SessionTrace.Started") },
						Ended:   func(*Session, error) { called("SessionTrace.Ended") },
					}}
					inner, key := newPipes(), newKey(t)
					connCfg := &rlpx.Config{Key: key,
						Allow:        func(net.Addr) error { called("rlpx.Config.Allow"); return nil },
						VerifyPeer:   func(*ecdsa.PublicKey) error { called("rlpx.Config.VerifyPeer"); return nil },
						OnError:      func(net.Addr, error) { called("rlpx.Config.OnError") },
						MessageLimit: func(uint64) int { called("rlpx.Config.MessageLimit"); return 1 << 20 },
						Trace: &rlpx.Trace{
							HandshakeDone: func(*rlpx.Conn, time.Duration, error) { called("rlpx.Trace.HandshakeDone") },
							FrameRead:     func(*rlpx.Conn, rlpx.TraceFrame) { called("rlpx.Trace.FrameRead") },
							Flushed:       func(*rlpx.Conn, rlpx.TraceFlush) { called("rlpx.Trace.Flushed") },
						},
					}
					l = NewListener(rlpx.NewListener(inner, connCfg), connCfg, cfg)
					conn := inner.dial()
					go func() {
						defer conn.Close()
						peer := rlpx.Client(conn, &key.PublicKey, &rlpx.Config{Key: newKey(t)})
						if _, err := peer.HandshakeContext(t.Context()); err != nil {
							return
						}
						if name == "rlpx.Config.OnError" {
							peer.Write(HelloCode, nil) // malformed
							return
						}
						s, err := NewSession(t.Context(), peer, testConfig())
						if err != nil {
							return
						}
						s.Capability("aaa").Send(0, nil)
						time.Sleep(time.Second)
						s.Close()
					}()
					time.Sleep(2 * time.Second)
					start := time.Now()
					l.Close()
					if took := time.Since(start); took > closeTimeout {
						t.Errorf("Close takes %v", took)
					}
					time.Sleep(closeTimeout)
					if !entered.Load() || !left.Load() {
						t.Errorf("entered %v, left %v", entered.Load(), left.Load())
					}
				})
			})
		}
	}
}
