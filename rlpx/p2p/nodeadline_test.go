package p2p

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/rlpx"
)

// deadlineless is a net.Conn as some tunnels make it.
type deadlineless struct{ net.Conn }

var errNoDeadline = errors.New("deadlines are not supported")

func (deadlineless) SetDeadline(time.Time) error      { return errNoDeadline }
func (deadlineless) SetReadDeadline(time.Time) error  { return errNoDeadline }
func (deadlineless) SetWriteDeadline(time.Time) error { return errNoDeadline }

// withoutDeadlines returns a connection without deadlines, and its other end.
func withoutDeadlines(t *testing.T) (conn, silent *rlpx.Conn) {
	t.Helper()
	keyA, _ := crypto.GenerateKey()
	keyB, _ := crypto.GenerateKey()
	a, b := net.Pipe()
	conn = rlpx.Client(deadlineless{a}, &keyB.PublicKey, &rlpx.Config{Key: keyA})
	silent = rlpx.Server(b, &rlpx.Config{Key: keyB})
	done := make(chan error, 1)
	go func() {
		_, err := silent.HandshakeContext(t.Context())
		done <- err
	}()
	if _, err := conn.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); silent.Close() })
	return conn, silent
}

// Every bound holds where the net.Conn keeps none, and the peer neither reads nor writes.
func TestWithoutDeadlines(t *testing.T) {
	within := func(t *testing.T, most time.Duration, f func()) {
		t.Helper()
		start := time.Now()
		f()
		if took := time.Since(start); took > most {
			t.Errorf("took %v, want at most %v", took, most)
		}
	}
	t.Run("Handshake", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			conn, _ := withoutDeadlines(t)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			within(t, time.Second+disconnectTimeout+linger, func() {
				if _, err := Handshake(ctx, conn, nil); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		})
	})
	t.Run("Refuse", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			conn, _ := withoutDeadlines(t)
			within(t, disconnectTimeout+linger, func() { Refuse(conn, DiscTooManyPeers) })
		})
	})
	t.Run("Session", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			conn, silent := withoutDeadlines(t)
			go Handshake(t.Context(), silent, &Hello{Caps: testCaps.Caps()})
			s, err := NewSession(t.Context(), conn, testConfig())
			if err != nil {
				t.Fatal(err)
			}
			within(t, DefaultReadTimeout+disconnectTimeout+linger, func() { <-s.Done() })
			if !errors.Is(s.Err(), ErrReadTimeout) {
				t.Error(s.Err())
			}
		})
	})
}
