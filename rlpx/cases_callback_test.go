package rlpx

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// callback returns a Config all of whose callbacks call f with their name.
func callback(t testing.TB, f func(name string)) *Config {
	step := func(name string) func(*Conn, TraceStep) { return func(*Conn, TraceStep) { f("Trace." + name) } }
	return &Config{
		Key:          newKey(t),
		MessageLimit: func(uint64) int { f("MessageLimit"); return maxUint24 },
		VerifyPeer:   func(*ecdsa.PublicKey) error { f("VerifyPeer"); return nil },
		KeyLogWriter: writerFunc(func(p []byte) (int, error) { f("KeyLogWriter"); return len(p), nil }),
		Allow:        func(net.Addr) error { f("Allow"); return nil },
		OnError:      func(net.Addr, error) { f("OnError") },
		Trace: &Trace{
			AuthSent: step("AuthSent"), AuthReceived: step("AuthReceived"), AckSent: step("AckSent"), AckReceived: step("AckReceived"),
			HandshakeDone: func(*Conn, time.Duration, error) { f("Trace.HandshakeDone") },
			FrameRead:     func(*Conn, TraceFrame) { f("Trace.FrameRead") },
			FrameWritten:  func(*Conn, TraceFrame) { f("Trace.FrameWritten") },
			Flushed:       func(*Conn, TraceFlush) { f("Trace.Flushed") },
			ReadFailed:    func(*Conn, error) { f("Trace.ReadFailed") },
			WriteFailed:   func(*Conn, error) { f("Trace.WriteFailed") },
		},
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Every callback of a Listener may close it, and neither it nor another Close waits for ever.
func TestCase_N7_CallbackClosesListener(t *testing.T) {
	for _, name := range []string{
		"Allow", "VerifyPeer", "KeyLogWriter", "Trace.AuthReceived", "Trace.AckSent", "Trace.HandshakeDone", "OnError",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := newPipeListener()
				var l atomic.Pointer[Listener]
				var entered, left atomic.Bool
				cfg := callback(t, func(called string) {
					if called == name && entered.CompareAndSwap(false, true) {
						l.Load().Close()
						left.Store(true)
					}
				})
				l.Store(NewListener(inner, cfg))
				peer, _ := inner.connect("peer")
				defer peer.Close()
				go func() {
					if name == "OnError" {
						peer.Write([]byte{0, 0})
						return
					}
					Client(peer, &cfg.Key.PublicKey, &Config{Key: newKey(t)}).HandshakeContext(t.Context())
				}()
				synctest.Wait()
				closed := make(chan struct{})
				go func() {
					l.Load().Close()
					close(closed)
				}()
				select {
				case <-closed:
				case <-time.After(time.Minute):
					t.Fatal("Close is not through")
				}
				synctest.Wait()
				if !entered.Load() || !left.Load() {
					t.Errorf("entered %v, left %v", entered.Load(), left.Load())
				}
				if _, err := l.Load().Accept(t.Context()); !errors.Is(err, net.ErrClosed) {
					t.Errorf("Accept: %v", err)
				}
				if n, err := peer.Read(make([]byte, 1)); err == nil && n > 0 {
					t.Log("the peer has something yet")
				}
			})
		})
	}
}

// A callback that takes its time holds up no Close of its Listener from elsewhere.
func TestCase_N7_SlowCallbackHoldsUpNoListener(t *testing.T) {
	for _, name := range []string{"Allow", "VerifyPeer", "KeyLogWriter", "Trace.HandshakeDone"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner, release := newPipeListener(), make(chan struct{})
				cfg := callback(t, func(called string) {
					if called == name {
						<-release
					}
				})
				l := NewListener(inner, cfg)
				peer, watched := inner.connect("peer")
				defer peer.Close()
				go Client(peer, &cfg.Key.PublicKey, &Config{Key: newKey(t)}).HandshakeContext(t.Context())
				synctest.Wait()
				start := time.Now()
				l.Close()
				if took := time.Since(start); took != 0 {
					t.Errorf("took %v", took)
				}
				close(release)
				synctest.Wait()
				if n := watched.closes.Load(); n != 1 {
					t.Errorf("the connection was closed %d times", n)
				}
			})
		})
	}
}

// Every callback of a connection may close it.
func TestCase_N7_CallbackClosesConn(t *testing.T) {
	for _, name := range []string{
		"VerifyPeer", "KeyLogWriter", "MessageLimit", "Trace.AuthReceived", "Trace.AckSent", "Trace.HandshakeDone",
		"Trace.FrameRead", "Trace.FrameWritten", "Trace.Flushed", "Trace.ReadFailed", "Trace.WriteFailed",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var conn *Conn
				called := false
				cfg := callback(t, func(c string) {
					if c == name && !called {
						called = true
						conn.Close()
					}
				})
				exerciseConn(t, cfg, func(c *Conn) { conn = c })
				if !called {
					t.Error("was not called")
				}
				if _, err := conn.Write(1, nil); err == nil {
					t.Error("Write after it succeeds")
				}
				if _, _, _, err := conn.Read(); err == nil {
					t.Error("Read after it succeeds")
				}
			})
		})
	}
}

// exerciseConn has all callbacks of a recipient's connection called, by one goroutine, as far as it
// goes on.
func exerciseConn(t testing.TB, cfg *Config, made func(*Conn)) {
	ours, theirs := net.Pipe()
	conn := Server(ours, cfg)
	made(conn)
	go func() {
		peer := Client(theirs, &cfg.Key.PublicKey, &Config{Key: newKey(t)})
		if _, err := peer.HandshakeContext(context.Background()); err != nil {
			return
		}
		peer.Write(1, []byte("message"))
		peer.Read()
		peer.Close()
	}()
	defer theirs.Close()
	if _, err := conn.HandshakeContext(context.Background()); err != nil {
		return
	}
	conn.Read()
	conn.Write(1, []byte("message"))
	conn.Read()
	conn.Write(1, nil)
}
