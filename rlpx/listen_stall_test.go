package rlpx

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/handshake"
	"github.com/go-rlpx/transport/internal/bufpool"
)

// One deadline from accept on, whatever the peer does to look alive.
func TestCase_D4_OneDeadlineForAuth(t *testing.T) {
	const timeout = 8 * time.Second
	key := newKey(t)
	auth := authFor(t, key)
	for _, tc := range []struct {
		name  string
		first int // bytes of auth that come at once
		every time.Duration
	}{
		{"nothing", 0, 0},
		{"one byte", 1, 0},
		{"size only", 2, 0},
		{"half", len(auth) / 2, 0},
		{"all but one byte", len(auth) - 1, 0},
		{"dribbles", 0, timeout / 4},
		{"dribbles after half", len(auth) / 2, timeout / 4},
		{"dribbles fast", 0, timeout / 100},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := newPipeListener()
				onError, failed := reports()
				l := NewListener(inner, &Config{Key: key, HandshakeTimeout: timeout, OnError: onError})
				defer l.Close()
				start := time.Now()
				peer, watched := inner.connect("peer")
				defer peer.Close()
				var writer sync.WaitGroup
				defer writer.Wait()
				writer.Go(func() {
					if _, err := peer.Write(auth[:tc.first]); err != nil || tc.every == 0 {
						return
					}
					for i := tc.first; i < len(auth); i++ {
						time.Sleep(tc.every)
						if _, err := peer.Write(auth[i : i+1]); err != nil {
							return
						}
					}
				})
				r := <-failed
				if took := r.at.Sub(start); took < timeout || took > timeout+timeout/10 {
					t.Errorf("ended after %v, want %v", took, timeout)
				}
				var ne net.Error
				if !errors.Is(r.err, ErrHandshake) || !errors.Is(r.err, context.DeadlineExceeded) || !errors.As(r.err, &ne) || !ne.Timeout() {
					t.Errorf("error %v", r.err)
				}
				if n, err := peer.Read(make([]byte, 1)); n != 0 || err != io.EOF {
					t.Errorf("the peer got %d bytes, %v", n, err)
				}
				if n := watched.closes.Load(); n != 1 {
					t.Errorf("closed %d times", n)
				}
			})
		})
	}
}

// Half-open handshakes over TCP are gone at the deadline, and with Close.
func TestCase_D5_HalfOpenLeavesNothing(t *testing.T) {
	const peers = 1000
	key := newKey(t)
	auth := authFor(t, key)
	for _, tc := range []struct {
		name    string
		timeout time.Duration
	}{
		{"deadline", 500 * time.Millisecond},
		{"close", time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			goroutines, files := runtime.NumGoroutine(), openFiles()
			onError, failed := reports()
			l := mustListen(t, &Config{Key: key, HandshakeTimeout: tc.timeout, OnError: onError})
			var conns []net.Conn
			for i := range peers {
				c, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				conns = append(conns, c)
				if _, err := c.Write(auth[:i%(len(auth)-1)]); err != nil && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
					t.Fatal(err)
				}
			}
			if tc.name == "close" {
				// All have come out of the inner listener once the last one has; the kernel keeps
				// the order.
				full, err := Dial(t.Context(), "tcp", l.Addr().String(), &key.PublicKey, &Config{Key: newKey(t), HandshakeTimeout: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				conns = append(conns, full.NetConn())
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}
			for range conns {
				r := <-failed
				switch {
				case tc.name == "deadline" && errors.Is(r.err, ErrHandshake) && errors.Is(r.err, context.DeadlineExceeded):
				case tc.name == "close" && errors.Is(r.err, net.ErrClosed):
				default:
					t.Errorf("error %v", r.err)
				}
			}
			for _, c := range conns {
				c.Close()
			}
			l.Close()
			settle(t, goroutines, files)
		})
	}
}

// A peer with a complete auth that never goes on is the application's: it has a Conn with
// deadlines. Not accepted, it lasts until Close.
func TestCase_D5_FullAuthThenNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := newKey(t)
		inner := newPipeListener()
		onError, failed := reports()
		l := NewListener(inner, &Config{Key: key, OnError: onError})
		peer, watched := inner.connect("peer")
		defer peer.Close()
		auth := authFor(t, key)
		go func() {
			peer.Write(auth)
			io.Copy(io.Discard, peer)
		}()
		synctest.Wait()
		time.Sleep(10 * DefaultHandshakeTimeout)
		if n := watched.closes.Load(); n != 0 || len(failed) != 0 {
			t.Fatalf("closed %d times, %d errors", n, len(failed))
		}
		l.Close()
		if r := <-failed; !errors.Is(r.err, net.ErrClosed) || errors.Is(r.err, ErrHandshake) {
			t.Errorf("error %v", r.err)
		}
		if n := watched.closes.Load(); n != 1 {
			t.Errorf("closed %d times", n)
		}
	})
}

// An ack that the peer does not take ends at the same deadline, and holds no slot meanwhile.
func TestCase_D5_AckNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := newKey(t)
		inner := newPipeListener()
		onError, failed := reports()
		l := NewListener(inner, &Config{Key: key, OnError: onError, MaxHandshakes: 1})
		defer l.Close()
		start := time.Now()
		stalled, watched := inner.connect("stalled")
		defer stalled.Close()
		if _, err := stalled.Write(authFor(t, key)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		good, _ := inner.connect("good")
		defer good.Close()
		if _, err := Client(good, &key.PublicKey, &Config{Key: newKey(t)}).HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if time.Since(start) != 0 {
			t.Errorf("the good peer waited %v", time.Since(start))
		}
		if r := <-failed; r.addr != "stalled" || r.at.Sub(start) != DefaultHandshakeTimeout || !errors.Is(r.err, context.DeadlineExceeded) {
			t.Errorf("%s after %v: %v", r.addr, r.at.Sub(start), r.err)
		}
		if n := watched.closes.Load(); n != 1 {
			t.Errorf("closed %d times", n)
		}
	})
}

// Traffic that is not RLPx fails as soon as two bytes say so, without a slot and so without curve
// operations.
func TestCase_H25_ForeignTraffic(t *testing.T) {
	key := newKey(t)
	for _, tc := range []struct {
		name, sends, says string
		closes            bool
		is                error
	}{
		{"HTTP", "GET / HTTP/1.1\r\nHost: node\r\n\r\n", "HTTP", false, handshake.ErrPacketSize},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS", false, handshake.ErrPacketSize},
		{"SSH", "SSH-2.0-OpenSSH_9.9\r\n", "SSH", false, handshake.ErrPacketSize},
		{"zeros", "\x00\x00\x00\x00", "too small", false, handshake.ErrPacketSize},
		{"2049", "\x08\x01", "too big", false, handshake.ErrPacketSize},
		{"one byte, close", "\x01", "1 bytes", true, handshake.ErrRemoteClosed},
		{"nothing, close", "", "0 bytes", true, handshake.ErrRemoteClosed},
		{"half, close", "\x01\x90" + strings.Repeat("x", 200), "202 bytes", true, handshake.ErrRemoteClosed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := newPipeListener()
				onError, failed := reports()
				release := make(chan struct{})
				l := NewListener(inner, &Config{Key: key, OnError: onError, MaxHandshakes: 1, HandshakeTimeout: time.Hour,
					VerifyPeer: func(*ecdsa.PublicKey) error { <-release; return nil }})
				// The only slot is taken.
				holder, _ := inner.connect("holder")
				defer holder.Close()
				if _, err := holder.Write(authFor(t, key)); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				peer, watched := inner.connect("peer")
				defer peer.Close()
				go func() {
					io.WriteString(peer, tc.sends)
					if tc.closes {
						peer.Close()
					}
				}()
				r := <-failed
				if !errors.Is(r.err, ErrHandshake) || !errors.Is(r.err, tc.is) || !strings.Contains(r.err.Error(), tc.says) {
					t.Errorf("error %v", r.err)
				}
				if r.addr != "peer" || !r.at.Equal(start) {
					t.Errorf("%s failed after %v", r.addr, r.at.Sub(start))
				}
				if n, err := peer.Read(make([]byte, 1)); n != 0 || err == nil {
					t.Errorf("the peer read %d bytes, %v", n, err)
				}
				if n := watched.closes.Load(); n != 1 {
					t.Errorf("closed %d times", n)
				}
				close(release)
				l.Close()
			})
		})
	}
}

// Packets of a right size that are no auth for us.
func TestCase_D7_ClosedOnceOnBadAuth(t *testing.T) {
	key := newKey(t)
	flipped := authFor(t, key)
	flipped[len(flipped)-1] ^= 1
	offCurve := authFor(t, key)
	offCurve[10] ^= 1
	noise := make([]byte, 402)
	noise[0], noise[1], noise[2] = 1, 0x90, 4
	for _, tc := range []struct {
		name   string
		packet []byte
		is     error
	}{
		{"damaged tag", flipped, handshake.ErrDecrypt},
		{"other node's key", authFor(t, newKey(t)), handshake.ErrDecrypt},
		{"off-curve point", offCurve, handshake.ErrInvalidPublicKey},
		{"noise", noise, handshake.ErrInvalidPublicKey},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := newPipeListener()
				onError, failed := reports()
				l := NewListener(inner, &Config{Key: key, OnError: onError, MaxHandshakes: 1})
				for range 3 { // a slot that was not given back would stop the second
					peer, watched := inner.connect("peer")
					if _, err := peer.Write(tc.packet); err != nil {
						t.Fatal(err)
					}
					r := <-failed
					if !errors.Is(r.err, ErrHandshake) || !errors.Is(r.err, tc.is) {
						t.Errorf("error %v", r.err)
					}
					if n, err := peer.Read(make([]byte, 1)); n != 0 || err != io.EOF {
						t.Errorf("the peer read %d bytes, %v", n, err)
					}
					if n := watched.closes.Load(); n != 1 {
						t.Errorf("closed %d times", n)
					}
				}
				l.Close()
				synctest.Wait()
			})
		})
	}
}

// A peer that stalls with all but the last byte of the largest auth costs a goroutine and a few
// KiB.
func TestWaitingIsCheap(t *testing.T) {
	const peers, limit = 500, 24 << 10
	footprint := func() int {
		bufpool.Trim()
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc + m.StackInuse)
	}
	largest := make([]byte, 2+2048)
	largest[0] = 8
	l := mustListen(t, &Config{Key: newKey(t), HandshakeTimeout: time.Hour})
	before := footprint()
	for range peers {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(largest[:len(largest)-1]); err != nil {
			t.Fatal(err)
		}
	}
	waiting := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.waiting.Len()
	}
	for waiting() < peers {
		time.Sleep(time.Millisecond)
	}
	each := (footprint() - before) / peers
	t.Logf("%d bytes each", each)
	if each > limit {
		t.Errorf("%d bytes each, want at most %d", each, limit)
	}
}
