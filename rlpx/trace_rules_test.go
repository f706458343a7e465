package rlpx

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// session lets two connections do everything that callbacks are for: a handshake, frames of all
// kinds both ways, and an end.
func session(t *testing.T, ta, tb *Trace) {
	t.Helper()
	keyA, keyB := newKey(t), newKey(t)
	a, b := tcpPipe(t)
	ca, cb := Client(a, &keyB.PublicKey, &Config{Key: keyA, Trace: ta}), Server(b, &Config{Key: keyB, Trace: tb})
	defer ca.Close()
	defer cb.Close()
	var wg sync.WaitGroup
	for _, c := range []*Conn{ca, cb} {
		wg.Go(func() {
			if _, err := c.HandshakeContext(t.Context()); err != nil {
				return
			}
			wg.Go(func() {
				for {
					if _, _, _, err := c.Read(); err != nil {
						return
					}
				}
			})
			c.Write(1, make([]byte, wholeFrame))
			for _, size := range []int{0, 100, 20 << 10} {
				c.Write(1, make([]byte, size))
				c.WriteBatch([]Message{{Code: 2, Data: make([]byte, size)}, {Code: 3}})
				Broadcast([]*Conn{c}, 4, make([]byte, size))
			}
			c.CloseWrite()
			c.Write(5, nil)
		})
	}
	if !rlpxtest.Within(wg.Wait) {
		t.Fatal("somebody hangs")
	}
}

// Every callback may be missing, and every one may be the only one.
func TestTraceSubsets(t *testing.T) {
	session(t, new(Trace), new(Trace))
	for _, name := range names {
		var only, others events
		session(t, only.trace(name), only.trace(name))
		session(t, others.trace(slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })...), nil)
		all := only.take()
		if len(all) == 0 {
			t.Errorf("%s was never called", name)
		}
		for _, e := range all {
			if e.what != name {
				t.Errorf("%s was called", e.what)
			}
		}
		if slices.Contains(what(others.take()), name) {
			t.Errorf("%s was called", name)
		}
	}
}

// What the documentation allows in callbacks waits for nothing, and Close in any of them ends the
// session.
func TestTraceCallbacksMayUseTheConnection(t *testing.T) {
	use := func(e event) {
		c := e.conn
		if s := c.ConnectionState(); s.Initiator != c.dialer {
			t.Errorf("%s: state %+v", e.what, s)
		}
		c.SetSnappy(false)
		c.SetReadLimit(0)
		for _, err := range []error{c.SetDeadline(time.Time{}), c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{})} {
			if err != nil && !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: %v", e.what, err)
			}
		}
		if c.LocalAddr() == nil || c.RemoteAddr() == nil || c.NetConn() == nil {
			t.Errorf("%s: no address", e.what)
		}
		SharedHashing()
	}
	l := &events{also: use}
	session(t, l.trace(), l.trace())
	seen := what(l.take())
	for _, name := range names {
		if !slices.Contains(seen, name) {
			t.Errorf("%s was not tried", name)
		}
		closed := &events{also: func(e event) { e.conn.Close() }}
		session(t, closed.trace(name), closed.trace(name))
		if len(closed.take()) == 0 {
			t.Errorf("%s was not called", name)
		}
	}
}

// A Broadcast holds several connections while it calls the Trace of one, which may ask for the
// state of any.
func TestTraceCallbackAsksOtherConnections(t *testing.T) {
	for _, tracedFirst := range []bool{false, true} {
		for _, closed := range []bool{false, true} {
			plain, plainEnd := pipePair(t, false)
			asked := 0
			ask := func() {
				if !plain.ConnectionState().HandshakeComplete {
					t.Error("not established")
				}
				asked++
			}
			a, b := net.Pipe()
			traced, tracedEnd := tracedPair(t, a, b, &Trace{
				FrameWritten: func(*Conn, TraceFrame) { ask() },
				WriteFailed:  func(*Conn, error) { ask() },
			}, nil)
			go expect(plainEnd, 1, nil)
			go expect(tracedEnd, 1, nil)
			if closed {
				traced.Close()
			}
			conns := []*Conn{plain, traced}
			if tracedFirst {
				slices.Reverse(conns)
			}
			Broadcast(conns, 1, nil)
			if asked != 1 {
				t.Errorf("traced first: %v, closed: %v: asked %d times", tracedFirst, closed, asked)
			}
		}
	}
}

// Handing work to another goroutine is how a callback sends something.
func TestTraceCallbackHandsOver(t *testing.T) {
	a, b := tcpPipe(t)
	pings := make(chan *Conn, 1)
	answering := &Trace{FrameRead: func(c *Conn, f TraceFrame) {
		if f.Code == 2 {
			pings <- c
		}
	}}
	ca, cb := tracedPair(t, a, b, nil, answering)
	go func() {
		for c := range pings {
			c.Write(3, nil)
		}
	}()
	defer close(pings)
	exchange(t, ca, cb, 2, []byte("ping"))
	wantRead(t, ca, 3, nil)
}

// Like TestNoAllocation, with every callback set.
func TestTraceAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates; the run without it checks this")
		return
	}
	var read, written, flushed, bytes int
	trace := &Trace{
		FrameRead:    func(c *Conn, f TraceFrame) { read++; bytes += f.WireSize },
		FrameWritten: func(c *Conn, f TraceFrame) { written++; bytes -= f.WireSize },
		Flushed:      func(c *Conn, f TraceFlush) { flushed++ },
		ReadFailed:   func(c *Conn, err error) { t.Error(err) },
		WriteFailed:  func(c *Conn, err error) { t.Error(err) },
	}
	for _, snappyOn := range []bool{false, true} {
		for _, size := range []int{0, 32, 1 << 10, 16 << 10, 128 << 10, wholeFrame} {
			t.Run(fmt.Sprintf("snappy=%v/%d", snappyOn, size), func(t *testing.T) {
				l := new(loop)
				w, r := tracedPair(t, l, l, trace, trace)
				w.SetSnappy(snappyOn)
				r.SetSnappy(snappyOn)
				data := pattern(size, 1)
				batch := []Message{{Code: 1, Data: data}, {Code: 2}}
				payload := Compress(data)
				run := func() {
					_, err := w.Write(0x10, data)
					_, batchErr := w.WriteBatch(batch)
					_, payloadErr := w.WritePayload(0x11, payload)
					if err := errors.Join(err, batchErr, payloadErr); err != nil {
						t.Fatal(err)
					}
					for range 4 {
						if _, _, _, err := r.Read(); err != nil {
							t.Fatal(err)
						}
					}
				}
				for range 5 {
					run()
				}
				runs := 100
				if size > 100<<10 {
					runs = 5
				}
				read, written, flushed, bytes = 0, 0, 0, 0
				if n := testing.AllocsPerRun(runs, run); n != 0 {
					t.Errorf("%v allocations for four frames written and read", n)
				}
				if calls := 4 * (runs + 1); read != calls || written != calls || flushed < 3*(runs+1) || bytes != 0 {
					t.Errorf("%d frames read, %d written, want %d; %d flushes", read, written, calls, flushed)
				}
			})
		}
	}
}
