package rlpx

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// slowConn is a net.Conn of whose methods some wait for hold to be closed, and RemoteAddr also for
// its own end, as where a proxy sends the peer's address ahead of what the peer sends.
type slowConn struct {
	net.Conn
	method string
	hold   chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (c *slowConn) wait(method string) {
	if c.method == method {
		<-c.hold
	}
}

func (c *slowConn) RemoteAddr() net.Addr {
	if c.method == "RemoteAddr" {
		select {
		case <-c.hold:
		case <-c.closed:
		}
	}
	return peerAddr("slow")
}

func (c *slowConn) LocalAddr() net.Addr              { c.wait("LocalAddr"); return peerAddr("local") }
func (c *slowConn) SetDeadline(time.Time) error      { c.wait("SetDeadline"); return nil }
func (c *slowConn) SetReadDeadline(time.Time) error  { c.wait("SetDeadline"); return nil }
func (c *slowConn) SetWriteDeadline(time.Time) error { c.wait("SetDeadline"); return nil }

func (c *slowConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.wait("Close")
	return c.Conn.Close()
}

// slowPeer gives the listener a connection whose method waits.
func slowPeer(l *pipeListener, method string, hold chan struct{}) net.Conn {
	theirs, ours := net.Pipe()
	l.next <- func() (net.Conn, error) {
		return &slowConn{Conn: ours, method: method, hold: hold, closed: make(chan struct{})}, nil
	}
	return theirs
}

// wantAccepted fails the test unless a good peer gets through a listener, at once.
func wantAccepted(t *testing.T, l *Listener, inner *pipeListener, cfg *Config) {
	t.Helper()
	start := time.Now()
	peer, _ := inner.connect("good")
	defer peer.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := Client(peer, &cfg.Key.PublicKey, &Config{Key: newKey(t)}).HandshakeContext(ctx); err != nil {
		t.Fatalf("a good peer after %v: %v", time.Since(start), err)
	}
	conn, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if took := time.Since(start); took != 0 {
		t.Errorf("a good peer waited for %v", took)
	}
}

// The goroutine that accepts calls nothing that can wait: no method of a connection, and no
// callback.
func TestCase_N1_SlowConnectionStopsNobody(t *testing.T) {
	for _, tc := range []struct {
		name   string
		method string
		allow  func(hold chan struct{}) func(net.Addr) error
		fails  bool // the peer sends what is no auth
	}{
		{"RemoteAddr", "RemoteAddr", nil, false},
		{"LocalAddr", "LocalAddr", nil, false},
		{"SetDeadline", "SetDeadline", nil, false},
		{"Close after a failed handshake", "Close", nil, true},
		{"Close of a refused one", "Close", func(chan struct{}) func(net.Addr) error {
			return func(addr net.Addr) error {
				if addr.String() == "slow" {
					return errors.New("no")
				}
				return nil
			}
		}, false},
		{"Allow", "", func(hold chan struct{}) func(net.Addr) error {
			return func(addr net.Addr) error {
				if addr.String() == "slow" {
					<-hold
				}
				return nil
			}
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hold, inner := make(chan struct{}), newPipeListener()
				cfg := &Config{Key: newKey(t), MaxPending: 4}
				if tc.allow != nil {
					cfg.Allow = tc.allow(hold)
				}
				l := NewListener(inner, cfg)
				for range 3 {
					peer := slowPeer(inner, tc.method, hold)
					defer peer.Close()
					if tc.fails {
						go peer.Write([]byte{0, 0})
					}
					synctest.Wait()
					wantAccepted(t, l, inner, cfg)
				}
				close(hold)
				l.Close()
			})
		})
	}
}

// What a connection waits for before its handshake is within the deadline of that, and within the
// end of the listener.
func TestCase_N1_SlowAddressIsBounded(t *testing.T) {
	for _, ending := range []string{"deadline", "eviction", "Close"} {
		t.Run(ending, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := newPipeListener()
				onError, failed := reports()
				cfg := &Config{Key: newKey(t), HandshakeTimeout: 3 * time.Second, MaxPending: 1, OnError: onError,
					Allow: func(addr net.Addr) error { return nil }}
				l := NewListener(inner, cfg)
				start := time.Now()
				peer := slowPeer(inner, "RemoteAddr", nil)
				defer peer.Close()
				synctest.Wait()
				want, after := context.DeadlineExceeded, cfg.HandshakeTimeout
				switch ending {
				case "eviction":
					wantAccepted(t, l, inner, cfg)
					want, after = ErrEvicted, 0
				case "Close":
					l.Close()
					want, after = net.ErrClosed, 0
				}
				r := <-failed
				if took := r.at.Sub(start); took != after || !errors.Is(r.err, want) || !errors.Is(r.err, ErrHandshake) {
					t.Errorf("ended after %v with %v, want %v and %v", took, r.err, after, want)
				}
				l.Close()
			})
		})
	}
}

// An Allow that takes its time takes it from the handshake, and is not evicted: it waits for us,
// not for its peer.
func TestCase_N1_SlowAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newPipeListener()
		onError, failed := reports()
		cfg := &Config{Key: newKey(t), HandshakeTimeout: 3 * time.Second, MaxPending: 2, OnError: onError,
			Allow: func(addr net.Addr) error {
				if addr.String() == "asked" {
					time.Sleep(2 * time.Second)
				}
				return nil
			}}
		l := NewListener(inner, cfg)
		start := time.Now()
		asked, _ := inner.connect("asked")
		defer asked.Close()
		synctest.Wait()
		silent, _ := inner.connect("silent")
		defer silent.Close()
		synctest.Wait()
		wantAccepted(t, l, inner, cfg)
		if r := <-failed; r.addr != "silent" || !errors.Is(r.err, ErrEvicted) {
			t.Errorf("%s: %v", r.addr, r.err)
		}
		if r := <-failed; r.addr != "asked" || r.at.Sub(start) != 3*time.Second || !errors.Is(r.err, context.DeadlineExceeded) {
			t.Errorf("%s after %v: %v", r.addr, r.at.Sub(start), r.err)
		}
		l.Close()
	})
}

// A connection that has waited for Accept has what time its peer had left for Hello when the
// handshake was done.
func TestCase_N12_WaitingForAcceptIsNotHelloTime(t *testing.T) {
	for _, timeout := range []time.Duration{0, 8 * time.Second, -1} {
		synctest.Test(t, func(t *testing.T) {
			inner := newPipeListener()
			cfg := &Config{Key: newKey(t), HandshakeTimeout: timeout}
			l := NewListener(inner, cfg)
			defer l.Close()
			peer, _ := inner.connect("early")
			defer peer.Close()
			time.Sleep(time.Second) // of the peer's time
			if _, err := Client(peer, &cfg.Key.PublicKey, &Config{Key: newKey(t)}).HandshakeContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			conn, err := l.Accept(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			deadline := conn.ConnectionState().HandshakeDeadline
			if timeout < 0 {
				if !deadline.IsZero() {
					t.Errorf("deadline %v without a timeout", deadline)
				}
				return
			}
			want := cfg.handshakeTimeout() - time.Second
			if left := time.Until(deadline); left != want {
				t.Errorf("timeout %v: %v left for Hello, want %v", timeout, left, want)
			}
		})
	}
}

// What is not there gives an error, in a broadcast at its index, and does not keep the message from
// the others.
func TestCase_N17_NilConnAndPayload(t *testing.T) {
	rlpxtest.Bound(t)
	for _, compressed := range []bool{false, true} {
		for name, send := range map[string]func(conns []*Conn) []error{
			"Broadcast": func(conns []*Conn) []error { return Broadcast(conns, 7, []byte("data")) },
			"WriteAll":  func(conns []*Conn) []error { return WriteAll(t.Context(), targetsOf(conns), []byte("data")) },
			"SendAll":   func(conns []*Conn) []error { return SendAll(targetsOf(conns), []byte("data")) },
		} {
			a, b := net.Pipe()
			c, peer := pairOver(t, a, b)
			c.SetSnappy(compressed)
			peer.SetSnappy(compressed)
			conns := make([]*Conn, 12)
			conns[9] = c
			read := make(chan error, 1)
			go func() {
				code, data, _, err := peer.Read()
				if err == nil && (code != 7 || string(data) != "data") {
					err = errors.New("another message")
				}
				read <- err
			}()
			errs := send(conns)
			if err := <-read; err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if len(errs) != len(conns) {
				t.Fatalf("%s: %v", name, errs)
			}
			for i, err := range errs {
				if (err == nil) != (i == 9) {
					t.Errorf("%s: index %d: %v", name, i, err)
				}
			}
			if errs := send(nil); errs != nil {
				t.Errorf("%s to nobody: %v", name, errs)
			}
			if _, err := c.WritePayload(7, nil); err == nil {
				t.Error("WritePayload without one succeeds")
			}
			if err := c.SendPayload(7, nil); err == nil {
				t.Error("SendPayload without one succeeds")
			}
		}
	}
}

func targetsOf(conns []*Conn) []Target {
	targets := make([]Target, len(conns))
	for i, c := range conns {
		targets[i] = Target{c, 7}
	}
	return targets
}
