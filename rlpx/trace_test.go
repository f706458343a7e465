package rlpx

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"io"
	"net"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/handshake"
	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// event is a call of a callback.
type event struct {
	what  string
	conn  *Conn
	step  TraceStep
	frame TraceFrame
	flush TraceFlush
	took  time.Duration
	err   error
}

// events are what a Trace was told, in the order in which the callbacks were entered.
type events struct {
	mu  sync.Mutex
	all []event

	// also is called by each callback, without mu.
	also func(e event)
}

func (l *events) add(e event) {
	l.mu.Lock()
	l.all = append(l.all, e)
	l.mu.Unlock()
	if l.also != nil {
		l.also(e)
	}
}

// take returns what was told since the last call.
func (l *events) take() []event {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// names are those of all callbacks, in their order in Trace.
var names = []string{
	"AuthSent", "AuthReceived", "AckSent", "AckReceived", "HandshakeDone",
	"FrameRead", "FrameWritten", "Flushed", "ReadFailed", "WriteFailed",
}

// trace has the callbacks of the given names, or all of them if there are none.
func (l *events) trace(only ...string) *Trace {
	t := &Trace{
		HandshakeDone: func(c *Conn, took time.Duration, err error) {
			l.add(event{what: "HandshakeDone", conn: c, took: took, err: err})
		},
		Flushed: func(c *Conn, f TraceFlush) { l.add(event{what: "Flushed", conn: c, flush: f}) },
	}
	step := func(what string) func(*Conn, TraceStep) {
		return func(c *Conn, s TraceStep) { l.add(event{what: what, conn: c, step: s}) }
	}
	t.AuthSent, t.AuthReceived = step("AuthSent"), step("AuthReceived")
	t.AckSent, t.AckReceived = step("AckSent"), step("AckReceived")
	frame := func(what string) func(*Conn, TraceFrame) {
		return func(c *Conn, f TraceFrame) { l.add(event{what: what, conn: c, frame: f}) }
	}
	t.FrameRead, t.FrameWritten = frame("FrameRead"), frame("FrameWritten")
	failed := func(what string) func(*Conn, error) {
		return func(c *Conn, err error) { l.add(event{what: what, conn: c, err: err}) }
	}
	t.ReadFailed, t.WriteFailed = failed("ReadFailed"), failed("WriteFailed")
	v := reflect.ValueOf(t).Elem()
	for i := range v.NumField() {
		if len(only) > 0 && !slices.Contains(only, v.Type().Field(i).Name) {
			v.Field(i).SetZero()
		}
	}
	return t
}

func what(all []event) (names []string) {
	for _, e := range all {
		names = append(names, e.what)
	}
	return names
}

func frames(all []event, what string) (fs []TraceFrame) {
	for _, e := range all {
		if e.what == what {
			fs = append(fs, e.frame)
		}
	}
	return fs
}

func flushes(all []event) (fs []TraceFlush) {
	for _, e := range all {
		if e.what == "Flushed" {
			fs = append(fs, e.flush)
		}
	}
	return fs
}

func TestTraceKnowsItsCallbacks(t *testing.T) {
	v := reflect.ValueOf(new(events).trace()).Elem()
	for i := range v.NumField() {
		if v.Field(i).IsNil() || !slices.Contains(names, v.Type().Field(i).Name) {
			t.Errorf("these tests do not know %s", v.Type().Field(i).Name)
		}
	}
	if v.NumField() != len(names) {
		t.Errorf("%d callbacks, want %d", v.NumField(), len(names))
	}
}

// A handshake over a slow way, on the test's clock: what took how long, and how large it was.
func TestTraceHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const there, back = 300 * time.Millisecond, 700 * time.Millisecond
		a, b := net.Pipe()
		slow := &rlpxtest.Filter{Conn: a, OnWrite: func(inner net.Conn, p []byte) (int, error) {
			time.Sleep(there)
			return inner.Write(p)
		}, OnRead: func(inner net.Conn, p []byte) (int, error) {
			n, err := inner.Read(p)
			if n > 2 {
				time.Sleep(back)
			}
			return n, err
		}}
		wire := rlpxtest.Count(slow)
		keyA, keyB := newKey(t), newKey(t)
		var la, lb events
		ca := Client(wire, &keyB.PublicKey, &Config{Key: keyA, Trace: la.trace()})
		cb := Server(b, &Config{Key: keyB, Trace: lb.trace()})
		la.also = func(e event) { // established, and not before
			if s := e.conn.ConnectionState(); s.HandshakeComplete != (e.what == "HandshakeDone") {
				t.Errorf("%s: handshake complete: %v", e.what, s.HandshakeComplete)
			}
		}
		done := make(chan error, 1)
		go func() {
			_, err := cb.HandshakeContext(t.Context())
			done <- err
		}()
		if _, err := ca.HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		sent, received := int(wire.BytesWritten.Load()), int(wire.BytesRead.Load())
		want := []event{
			{what: "AuthSent", conn: ca, step: TraceStep{Size: sent, Took: there, Elapsed: there}},
			{what: "AckReceived", conn: ca, step: TraceStep{Size: received, Took: back, Elapsed: there + back}},
			{what: "HandshakeDone", conn: ca, took: there + back},
		}
		if got := la.take(); !reflect.DeepEqual(got, want) {
			t.Errorf("initiator: %+v\nwant %+v", got, want)
		}
		want = []event{
			{what: "AuthReceived", conn: cb, step: TraceStep{Size: sent, Took: there, Elapsed: there}},
			{what: "AckSent", conn: cb, step: TraceStep{Size: received, Elapsed: there}},
			{what: "HandshakeDone", conn: cb, took: there},
		}
		if got := lb.take(); !reflect.DeepEqual(got, want) {
			t.Errorf("recipient: %+v\nwant %+v", got, want)
		}
		ca.Close()
		cb.Close()
	})
}

func TestTraceFailedHandshake(t *testing.T) {
	key := newKey(t)
	refusal := errors.New("not you")
	for _, tc := range []struct {
		name  string
		cfg   Config
		peer  func(conn net.Conn)
		is    error
		steps []string
	}{
		{"hangs up", Config{Key: key}, func(conn net.Conn) { conn.Close() }, handshake.ErrRemoteClosed, nil},
		{"hangs up in auth", Config{Key: key}, func(conn net.Conn) { conn.Write([]byte{1, 0x90, 4}); conn.Close() }, handshake.ErrRemoteClosed, nil},
		{"garbage", Config{Key: key}, func(conn net.Conn) {
			conn.Write(append([]byte{1, 0x90}, make([]byte, 0x190)...))
		}, ErrHandshake, []string{"AuthReceived"}},
		{"bad size", Config{Key: key}, func(conn net.Conn) { conn.Write([]byte("GET / HTTP/1.1\r\n")) }, ErrHandshake, nil},
		{"refused", Config{Key: key, VerifyPeer: func(*ecdsa.PublicKey) error { return refusal }}, func(conn net.Conn) {
			rlpxtest.Dial(t.Context(), conn, newKey(t), &key.PublicKey)
		}, refusal, []string{"AuthReceived"}},
		{"timeout", Config{Key: key, HandshakeTimeout: time.Millisecond}, func(conn net.Conn) {
			io.Copy(io.Discard, conn)
		}, context.DeadlineExceeded, nil},
		{"no key", Config{}, func(net.Conn) {}, handshake.ErrInvalidPrivateKey, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var l events
			ours, theirs := tcpPipe(t)
			defer theirs.Close()
			cfg := tc.cfg.Clone()
			cfg.Trace = l.trace()
			c := Server(ours, cfg)
			go tc.peer(theirs)
			_, err := c.HandshakeContext(t.Context())
			if !errors.Is(err, tc.is) || !errors.Is(err, ErrHandshake) {
				t.Fatalf("error %v", err)
			}
			all := l.take()
			if got, want := what(all), append(tc.steps, "HandshakeDone"); !slices.Equal(got, want) {
				t.Errorf("callbacks %v, want %v", got, want)
			}
			if last := all[len(all)-1]; last.err != err || last.conn != c || last.took < 0 {
				t.Errorf("the end: %+v, want error %v", last, err)
			}
			// Nothing more is done, and so nothing more reported.
			c.HandshakeContext(t.Context())
			c.Read()
			c.Write(0, nil)
			if all := l.take(); len(all) > 0 {
				t.Errorf("afterwards: %v", what(all))
			}
		})
	}
}

// In a Listener a connection is the same for callbacks and for Accept, and already on the net.Conn
// itself when its handshake is done.
func TestTraceListener(t *testing.T) {
	key := newKey(t)
	var l events
	onError, failed := reports()
	l.also = func(e event) {
		if _, wrapped := e.conn.NetConn().(*net.TCPConn); e.what == "HandshakeDone" && e.err == nil && !wrapped {
			t.Errorf("the net.Conn is %T", e.conn.NetConn())
		}
		if e.conn.RemoteAddr() == nil {
			t.Error("no address")
		}
	}
	ln := mustListen(t, &Config{Key: key, Trace: l.trace(), OnError: onError})
	peer, err := Dial(t.Context(), "tcp", ln.Addr().String(), &key.PublicKey, &Config{Key: newKey(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	c, err := ln.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	all := l.take()
	if want := []string{"AuthReceived", "AckSent", "HandshakeDone"}; !slices.Equal(what(all), want) {
		t.Errorf("callbacks %v, want %v", what(all), want)
	}
	for _, e := range all {
		if e.conn != c || e.err != nil {
			t.Errorf("%s: connection %p, want %p; %v", e.what, e.conn, c, e.err)
		}
	}

	garbage, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer garbage.Close()
	garbage.Write([]byte("GET / HTTP/1.1\r\n"))
	r := <-failed
	if all := l.take(); !slices.Equal(what(all), []string{"HandshakeDone"}) || all[0].err != r.err {
		t.Errorf("%+v, and OnError was told %v", all, r.err)
	}
}
