package rlpx

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/internal/bufpool"
	"github.com/go-rlpx/transport/internal/keccak"
	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// What a message took from the pool is back when the message is written, or when the connection
// ended before, whether one connection had it or several shared it.
func TestBuffersOfMessagesComeBack(t *testing.T) {
	data := make([]byte, 100<<10)
	large := rlpxtest.Random(rand.New(rand.NewPCG(1, 2)), wholeFrame+100) // larger still when compressed
	ways := map[string]func(conns []*Conn){
		"SendAll":         func(conns []*Conn) { SendAll(targetsOf(conns), data) },
		"WriteAll":        func(conns []*Conn) { WriteAll(context.Background(), targetsOf(conns), data) },
		"Write in pieces": func(conns []*Conn) { conns[2].Write(7, large) },
		"Send": func(conns []*Conn) {
			for _, c := range conns {
				c.Send(7, data)
				c.Send(7, data[:10])
			}
		},
		"SendControl": func(conns []*Conn) {
			for _, c := range conns {
				c.SendControl(7, data[:10])
			}
		},
	}
	for name, send := range ways {
		for _, compressed := range []bool{false, true} {
			for _, read := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					var conns []*Conn
					for i := range 3 {
						c, peer := plainPipe(t)
						c.SetSnappy(compressed && i > 0) // both kinds of data are made
						conns = append(conns, c)
						if read {
							go func() {
								for {
									if _, err := peer.ReadFrame(); err != nil {
										return
									}
								}
							}()
						}
					}
					tracker := bufpool.Track()
					defer tracker.Stop()
					go send(conns)
					go send(conns) // which finds owners, if nobody reads
					synctest.Wait()
					if !read {
						if tracker.Lent() == 0 {
							t.Errorf("%s: nothing was lent", name)
						}
						for _, c := range conns {
							c.Close()
						}
						time.Sleep(time.Second)
						synctest.Wait()
					}
					if n := tracker.Lent(); n != 0 {
						t.Errorf("%s, compressed: %v, read: %v: %d buffers are not back", name, compressed, read, n)
					}
				})
			}
		}
	}
}

// askedContext remembers what it was asked.
type askedContext struct {
	context.Context
	asked atomic.Bool // for its error
	dones atomic.Int32
}

func (c *askedContext) Done() <-chan struct{} {
	c.dones.Add(1)
	return c.Context.Done()
}

func (c *askedContext) Err() error {
	c.asked.Store(true)
	return c.Context.Err()
}

// Who waits returns only when the function that its context has started is through, since that
// refers to what is used for another message next. On one processor, the goroutine that is woken
// last runs first.
func TestWaitsForFunctionOfContext(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for name, kind := range map[string]func(c *Conn, it *item) (wait func(context.Context), mu *sync.Mutex, end func()){
		"an item": func(c *Conn, it *item) (func(context.Context), *sync.Mutex, func()) {
			it.woken.L = &c.out.mu
			return func(ctx context.Context) { c.out.wait(ctx, it) }, &c.out.mu, func() {
				it.state = finished
				it.woken.Signal()
			}
		},
		"a broadcast": func(c *Conn, it *item) (func(context.Context), *sync.Mutex, func()) {
			b := newBroadcast(nil, true)
			b.parts, b.left = append(b.parts, part{c, it}), 2
			return b.wait, &b.mu, func() {
				b.left = 0
				b.done.Signal()
			}
		},
	} {
		for range 100 {
			conn, _ := plainPipe(t)
			wait, mu, end := kind(conn, conn.out.newItem())
			over, cancel := context.WithCancel(t.Context())
			ctx := &askedContext{Context: over}
			early := make(chan bool)
			go func() {
				wait(ctx)
				early <- !ctx.asked.Load()
			}()
			for ctx.dones.Load() < 2 { // once by package context, with mu held until it waits
				runtime.Gosched()
			}
			mu.Lock()
			cancel()
			end()
			mu.Unlock()
			if <-early {
				t.Fatalf("%s: did not wait", name)
			}
		}
	}
}

// An end drops what is queued, but not the item of the goroutine that is the owner next.
func TestDropKeepsTheChosenItem(t *testing.T) {
	conn, _ := plainPipe(t)
	out := &conn.out
	chosen, other := out.newItem(), out.newItem()
	chosen.waited, chosen.chosen, other.waited = true, true, true
	other.woken.L = &out.mu
	out.queue.push(other)
	out.queue.push(chosen)
	cause := errors.New("over")
	out.drop(cause)
	if out.queue.first != chosen || out.queue.last != chosen || chosen.state != queued || chosen.err != nil {
		t.Errorf("the chosen item: state %d, error %v", chosen.state, chosen.err)
	}
	if other.state != finished || other.err != cause {
		t.Errorf("the other item: state %d, error %v", other.state, other.err)
	}
}

// The first error of a direction stays its error.
func TestFirstErrorStays(t *testing.T) {
	conn, _ := plainPipe(t)
	first := errors.New("first")
	if !conn.out.fail(first) || conn.out.fail(errors.New("second")) || conn.out.err != first {
		t.Errorf("the error is %v", conn.out.err)
	}
}

// An end ends control messages, too.
func TestErrorEndsControl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _ := plainPipe(t)
		conn.Send(1, nil)
		synctest.Wait()
		if err := conn.SendControl(2, nil); err != nil || conn.out.control.first == nil {
			t.Fatal("nothing is queued", err)
		}
		conn.Close()
		synctest.Wait()
		if conn.out.control.first != nil || conn.out.queue.first != nil || conn.out.owned {
			t.Error("something is queued after the end")
		}
	})
}

// A broadcast of a large message goes in pieces to those who are idle, as a write does.
func TestBroadcastInPieces(t *testing.T) {
	var sinks []*sizedConn
	var conns []*Conn
	for range 3 {
		sink := new(sizedConn)
		secrets, _ := rlpxtest.NewSecrets(3)
		sinks, conns = append(sinks, sink), append(conns, initConn(sink, nil, secrets))
	}
	if errs := Broadcast(conns, 7, make([]byte, wholeFrame+1)); errs != nil {
		t.Fatal(errs)
	}
	for i, sink := range sinks {
		if sink.most > bufpool.ClassSize(pieceSize) {
			t.Errorf("peer %d: %d bytes at once", i, sink.most)
		}
	}
}

// Where a callback of one connection panics in a broadcast, those whose frames were sealed before
// get them.
func TestPanicInBroadcastLeavesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conns []*Conn
		var peers []*rlpxtest.RawPeer
		for range keccak.Lanes {
			conn, peer := plainPipe(t)
			conns, peers = append(conns, conn), append(peers, peer)
		}
		last, _ := plainPipe(t)
		last.cfg = &Config{Trace: &Trace{FrameWritten: func(*Conn, TraceFrame) { panic("of a callback") }}}
		done := make(chan any, 1)
		go func() {
			defer func() { done <- recover() }()
			Broadcast(append(conns, last), 7, nil)
		}()
		for _, peer := range peers {
			wantCodes(t, peer, 7)
		}
		if v := <-done; v != "of a callback" {
			t.Errorf("recovered %v", v)
		}
	})
}
