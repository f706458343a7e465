package p2p

import (
	"context"
	"net"
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

// One peer after the other is accepted and gets its session. Those that stall at Hello use up nobody's time
// but their own, and no connection is handed out that is too late.
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
