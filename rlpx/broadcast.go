package rlpx

import (
	"context"
	"errors"
	"sync"

	"github.com/go-rlpx/transport/internal/bufpool"
	"github.com/go-rlpx/transport/internal/keccak"
	"github.com/go-rlpx/transport/mac"
)

// Target is one of the peers that a message goes to, and the code that the message has there: in
// package p2p the same message may have another code with each peer.
type Target struct {
	Conn *Conn
	Code uint64
}

// Broadcast sends one message to many peers and waits for all, as [WriteAll] does without a
// context.
func Broadcast(conns []*Conn, code uint64, data []byte) (errs []error) {
	b := newBroadcast(data, true)
	for _, c := range conns {
		b.own = append(b.own, Target{c, code})
	}
	return b.do(context.Background(), b.own)
}

// WriteAll sends one message to many peers, each as [Conn.Write] would. The
// data is compressed once, and frames are sealed for several peers at a time,
// as many as the machine's Keccak kernel has lanes.
//
// It returns when every peer's frame is written or failed. Peers do not wait for each other, but a
// peer that does not read holds up the return: give a context, set write timeouts, or use
// [SendAll]. If ctx ends first, messages that wait behind others are not sent, as in
// [Conn.WriteContext].
//
// The result is nil if all went well, else errs[i] is what happened to targets[i]. A nil Conn is an
// error there, and so is a panic of its net.Conn in a goroutine of ours: see [PanicError]. data is
// neither kept nor modified.
func WriteAll(ctx context.Context, targets []Target, data []byte) (errs []error) {
	return newBroadcast(data, true).do(ctx, targets)
}

// SendAll sends one message to many peers and returns without waiting for any of them, each as
// [Conn.Send] would. The data is compressed or copied once, and all peers share it. A peer whose
// queue is full has [ErrQueueFull] in the result, which is as for [WriteAll].
func SendAll(targets []Target, data []byte) (errs []error) {
	return newBroadcast(data, false).do(context.Background(), targets)
}

var errNilConn = errors.New("rlpx: no connection")

// launchSize is how many bytes of frames are sealed before goroutines are started to write them. To
// start one wakes an idle processor, which takes as long as sealing several frames.
const launchSize = 512 << 10

// broadcast is one message to many peers. With each that is idle it becomes the owner of the
// sending direction, seals for several of them together, and writes what goes without
// waiting. For the others, and for what is left, there are the queue and its goroutines.
type broadcast struct {
	plain  []byte
	waits  bool
	shared *sharedPayload
	errs   []error
	own    []Target // of Broadcast

	// Owned connections for whom a goroutine is to be started, and what is sealed for them.
	idle   []*Conn
	sealed int

	// If it waits: its items, and how many are not done, one more while items are added.
	parts []part
	mu    sync.Mutex
	left  int       // guarded by mu
	done  sync.Cond // L is &mu; signals that left is 0, or that the context has ended
}

type part struct {
	c  *Conn
	it *item
}

var broadcasts = sync.Pool{New: func() any {
	b := new(broadcast)
	b.done.L = &b.mu
	return b
}}

func newBroadcast(data []byte, waits bool) *broadcast {
	b := broadcasts.Get().(*broadcast)
	b.plain, b.waits = data, waits
	b.shared = newSharedPayload(len(data))
	b.left = 1
	return b
}

// do sends to the targets and returns the errors.
func (b *broadcast) do(ctx context.Context, targets []Target) (errs []error) {
	for _, t := range targets {
		if t.Conn != nil {
			// It panics for a caller's mistake, which must be before anything is owned.
			_ = t.Conn.mustBeEstablished("Broadcast")
		}
	}
	clean := false
	defer func() {
		if !clean { // a callback panics; the others go on, and b is not used again
			b.launch()
			b.wait(context.Background())
		}
	}()
	for first := 0; first < len(targets); first += keccak.Lanes {
		b.group(targets[first:min(first+keccak.Lanes, len(targets))], first, len(targets))
		if b.sealed >= launchSize {
			b.launch()
		}
	}
	b.launch()
	b.wait(ctx)
	for _, p := range b.parts {
		if p.it.err != nil {
			b.failed(p.it.index, len(targets), p.it.err)
		}
	}
	clean = true
	return b.release()
}

// release gives b and its items back and returns the errors.
func (b *broadcast) release() (errs []error) {
	errs = b.errs
	for _, p := range b.parts {
		p.it.free(&p.c.out)
	}
	clear(b.parts)
	clear(b.own)
	b.parts, b.own = b.parts[:0], b.own[:0]
	b.shared.release()
	b.plain, b.shared, b.errs = nil, nil, nil
	broadcasts.Put(b)
	return errs
}

func (b *broadcast) failed(i, n int, err error) {
	if b.errs == nil {
		b.errs = make([]error, n)
	}
	b.errs[i] = err
}

// payload is the data for connections that compress, or do not.
func (b *broadcast) payload(compressed bool) []byte {
	if b.waits && !compressed {
		return b.plain
	}
	return b.shared.data(b.plain, compressed)
}

// item makes the item for a target.
func (b *broadcast) item(t Target, index int) (*item, error) {
	if t.Conn == nil {
		return nil, errNilConn
	}
	if err := t.Conn.mustBeEstablished("Broadcast"); err != nil {
		return nil, err
	}
	if err := checkMessage(t.Code, len(b.plain), true); err != nil {
		return nil, err
	}
	payload := b.payload(t.Conn.snappy.Load())
	if err := checkFrame(t.Code, len(payload)); err != nil {
		return nil, err
	}
	it := t.Conn.out.newItem()
	it.set(t.Code, payload, false)
	it.plain = len(b.plain)
	if b.waits {
		it.cast, it.index = b, index
	} else {
		it.cost = itemCost + len(payload)
		it.shared = b.shared
		b.shared.users.Add(1)
	}
	return it, nil
}

// add queues the item for a target. It reports whether the caller is the owner now.
func (b *broadcast) add(c *Conn, it *item) (mine bool, err error) {
	out := &c.out
	if b.waits {
		b.parts = append(b.parts, part{c, it})
		b.count(1)
	}
	out.mu.Lock()
	err, news := out.open()
	if err == nil {
		mine, err = out.post(&out.queue, it, outgoing{})
	}
	out.mu.Unlock()
	if err != nil {
		if b.waits {
			it.state, it.err = finished, err // the context's end must not end it a second time
			b.count(-1)
		} else {
			it.free(out)
		}
		c.reportFailed(err, news)
	}
	return mine, err
}

// group queues the items for up to keccak.Lanes targets, of n, and seals and writes those of idle
// connections.
func (b *broadcast) group(targets []Target, first, n int) {
	var (
		conns  [keccak.Lanes]*Conn // that we own
		items  [keccak.Lanes]*item
		msgs   [keccak.Lanes]outgoing
		sealed [keccak.Lanes][]byte
		frames [keccak.Lanes]mac.Frame
	)
	owned, passed := 0, 0
	defer func() {
		for ; passed < owned; passed++ { // a callback panics
			err := new(PanicError)
			if c := conns[passed]; c.out.abandon(nil, err) {
				defer c.traceWriteFailed(err) // deferred, since it may panic, too
			}
		}
	}()
	for i, t := range targets {
		it, err := b.item(t, first+i)
		if err != nil {
			b.failed(first+i, n, err)
			continue
		}
		c := t.Conn
		mine, err := b.add(c, it)
		switch {
		case err != nil:
			b.failed(first+i, n, err)
		case !mine:
		case it.bound > wireLen(wholeFrame):
			b.idle = append(b.idle, c)
		default:
			conns[owned], items[owned] = c, it
			owned++
		}
	}
	for k, it := range items[:owned] {
		out := &conns[k].out
		msgs[k], _ = it.message()
		out.buf = bufpool.Get(it.bound)
		frame, _ := out.encrypt(out.buf.B, msgs[k])
		sealed[k] = frame
		frames[k] = mac.Frame{MAC: out.mac, Header: frame[:headerSize], Ciphertext: frame[headerWire : len(frame)-mac.Size]}
	}
	mac.Batch(frames[:owned])
	for k, it := range items[:owned] {
		putTags(sealed[k], frames[k].HeaderMAC, frames[k].Tag)
		conns[k].sealed(it, msgs[k], len(msgs[k].data), len(sealed[k]))
	}
	for passed < owned {
		c, it := conns[passed], items[passed]
		all, err := c.tryFlush()
		passed++
		if !all && err == nil {
			b.idle = append(b.idle, c)
			b.sealed += c.out.n - c.out.sent
			continue
		}
		_, news := c.out.finish(it, err)
		c.reportFailed(err, news)
	}
}

// launch starts goroutines for the connections that need them.
func (b *broadcast) launch() {
	for _, c := range b.idle {
		go c.out.run()
	}
	clear(b.idle)
	b.idle, b.sealed = b.idle[:0], 0
}

// ended is told that an item is done.
func (b *broadcast) ended(*item) { b.count(-1) }

// count adds to the number of items that are not done.
func (b *broadcast) count(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left += n; b.left == 0 {
		b.done.Signal()
	}
}

// wait returns when all items are done. If ctx ends before, it takes out of their queues those that
// can be.
func (b *broadcast) wait(ctx context.Context) {
	b.count(-1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if ctx != nil && ctx.Done() != nil && b.left > 0 {
		defer b.unqueueWhenDone(ctx)()
	}
	for b.left > 0 {
		b.done.Wait()
	}
}

// unqueueWhenDone unqueues the items when ctx ends. The caller, who holds mu, calls the result to
// stop that.
func (b *broadcast) unqueueWhenDone(ctx context.Context) (stop func()) {
	over := false
	cancel := context.AfterFunc(ctx, func() {
		for _, p := range b.parts {
			if p.c.out.cancel(p.it, ctx.Err()) {
				b.ended(p.it)
			}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		over = true
		b.done.Signal()
	})
	return func() {
		for over = over || cancel(); !over; {
			b.done.Wait()
		}
	}
}
