package rlpx

import (
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// panics calls f and returns what it panics with.
func panics(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

// panicking returns a Conn whose net.Conn panics in call number at of Write, once released.
func panicking(t *testing.T, at int, trace *Trace) (conn *Conn, release func()) {
	t.Helper()
	ours, theirs := net.Pipe()
	gate := make(chan struct{})
	calls := 0
	filter := &rlpxtest.Filter{Conn: ours, OnWrite: func(_ net.Conn, p []byte) (int, error) {
		<-gate
		if calls++; calls == at {
			panic("fault of the net.Conn")
		}
		return len(p), nil
	}}
	conn, _, _ = rawSession(t, &Config{Trace: trace}, filter, theirs)
	return conn, sync.OnceFunc(func() { close(gate) })
}

// A panic of the net.Conn reaches the caller whose goroutine it is in. Everybody else gets an
// error, at once and for ever, and nothing hangs.
func TestCase_N13_PanicOfTheNetConn(t *testing.T) {
	for name, first := range map[string]func(c *Conn){
		"Write":        func(c *Conn) { c.Write(1, []byte("x")) },
		"WriteBatch":   func(c *Conn) { c.WriteBatch([]Message{{1, nil}, {2, nil}}) },
		"WritePayload": func(c *Conn) { c.WritePayload(1, Compress([]byte("x"))) },
		"large":        func(c *Conn) { c.Write(1, make([]byte, 3<<20)) },
		"Broadcast":    nil,
		"WriteAll":     nil,
		"WriteLast":    func(c *Conn) { c.WriteLast(t.Context(), errors.New("over"), 1, 1, nil) },
		"Send":         nil,
		"SendControl":  nil,
		"SendAll":      nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, release := panicking(t, 1, nil)
				value := make(chan any, 1)
				switch name {
				case "Send":
					conn.Send(1, nil)
				case "SendControl":
					conn.SendControl(1, nil)
				case "Broadcast":
					go Broadcast([]*Conn{conn}, 1, []byte("x"))
				case "WriteAll":
					go WriteAll(t.Context(), []Target{{conn, 1}}, []byte("x"))
				case "SendAll":
					SendAll([]Target{{conn, 1}}, []byte("x"))
				default:
					go func() { value <- panics(func() { first(conn) }) }()
				}
				synctest.Wait()
				others := make(chan error, 10)
				go func() {
					_, err := conn.Write(2, nil)
					others <- err
				}()
				go func() {
					_, err := conn.WriteBatch([]Message{{2, nil}})
					others <- err
				}()
				go func() {
					errs := Broadcast([]*Conn{conn}, 2, nil)
					others <- errors.Join(errs...)
				}()
				synctest.Wait()
				conn.Send(3, nil)
				release()
				if first != nil {
					if v := <-value; v != "fault of the net.Conn" {
						t.Errorf("the caller sees %v", v)
					}
				}
				for range 3 {
					var panicked *PanicError
					if err := <-others; err == nil || name != "WriteLast" && !errors.As(err, &panicked) {
						t.Errorf("another writer: %v", err)
					}
				}
				_, err := conn.Write(4, nil)
				var panicked *PanicError
				if name != "WriteLast" && (!errors.As(err, &panicked) || first == nil && panicked.Value != "fault of the net.Conn") {
					t.Errorf("a later Write: %v", err)
				}
				if err == nil || conn.out.owned || conn.out.posted != 0 {
					t.Errorf("%v, owned %v, %d bytes posted", err, conn.out.owned, conn.out.posted)
				}
			})
		})
	}
}

// A panic on the way of one peer of a Broadcast spoils nothing for the others.
func TestCase_N13_PanicInABroadcast(t *testing.T) {
	for _, callback := range []string{"net.Conn", "FrameWritten", "Flushed", "WriteFailed"} {
		t.Run(callback, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var trace Trace
				at := 0
				switch callback {
				case "net.Conn":
					at = 1
				case "FrameWritten":
					trace.FrameWritten = func(*Conn, TraceFrame) { panic("fault") }
				case "Flushed":
					trace.Flushed = func(*Conn, TraceFlush) { panic("fault") }
				case "WriteFailed":
					trace.WriteFailed = func(*Conn, error) { panic("fault") }
				}
				bad, release := panicking(t, at, &trace)
				release()
				if callback == "WriteFailed" {
					bad.Close()
				}
				var conns []*Conn
				var ends []*Conn
				for i := range 20 {
					if i == 7 {
						conns = append(conns, bad)
					}
					a, b := pipePair(t, i%2 == 0)
					conns, ends = append(conns, a), append(ends, b)
				}
				var errs []error
				done := make(chan any, 1)
				go func() { done <- panics(func() { errs = Broadcast(conns, 1, []byte("first")) }) }()
				synctest.Wait()
				var readers sync.WaitGroup
				arrived := 0
				for _, b := range ends {
					readers.Go(func() {
						code, data, _, err := b.Read()
						if err == nil && code == 1 && string(data) == "first" {
							arrived++
						}
					})
					synctest.Wait()
				}
				switch v := <-done; callback {
				case "net.Conn", "Flushed": // in a goroutine of ours
					var panicked *PanicError
					if v != nil || errs == nil || !errors.As(errs[7], &panicked) || panicked.Value == nil || len(panicked.Stack) == 0 {
						t.Errorf("panic %v, errors %v", v, errs)
					}
					if arrived != len(ends) {
						t.Errorf("arrived at %d peers", arrived)
					}
				default:
					if v != "fault" {
						t.Errorf("the caller sees %v", v)
					}
				}
				for i, b := range ends {
					b.Close()
					if conns[i].out.owned {
						t.Errorf("connection %d is still owned", i)
					}
				}
				readers.Wait()
			})
		})
	}
}

// A panic in any callback of a Trace reaches the caller; the writing half has failed then, and
// Close works.
func TestCase_N13_PanicInTraceCallbacks(t *testing.T) {
	fault := func() { panic("fault") }
	for name, trace := range map[string]*Trace{
		"FrameWritten": {FrameWritten: func(*Conn, TraceFrame) { fault() }},
		"Flushed":      {Flushed: func(*Conn, TraceFlush) { fault() }},
		"WriteFailed":  {WriteFailed: func(*Conn, error) { fault() }},
	} {
		t.Run(name, func(t *testing.T) {
			conn, release := panicking(t, 0, trace)
			release()
			if name == "WriteFailed" {
				conn.Close()
			}
			if v := panics(func() { conn.Write(1, nil) }); v != "fault" {
				t.Errorf("the caller sees %v", v)
			}
			if _, err := conn.Write(2, nil); err == nil {
				t.Error("the half goes on")
			}
			if err := conn.Send(2, nil); err == nil {
				t.Error("the half goes on")
			}
			conn.Close()
		})
	}
}
