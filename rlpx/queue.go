package rlpx

import (
	"crypto/cipher"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/go-rlpx/transport/internal/bufpool"
	"github.com/go-rlpx/transport/mac"
)

// The sending direction is a queue of items that has at most one owner.
//
//	                 add an item
//	   ┌────────┐ ────────────────▶ ┌─────────┐ ◀─┐ more is queued, and
//	   │  idle  │                   │  owned  │   │ the owner's own item is not done
//	   └────────┘ ◀──────────────── └─────────┘ ──┘
//	               nothing queued     take ▸ seal ▸ write ▸ mark done
//
// Whoever adds an item and finds no owner is the owner. It takes what is queued, seals it and
// writes it with one call, without holding the mutex: it alone touches cipher, MAC and net.Conn.
// When its own item is done and more is queued, it makes the first goroutine that waits in the
// queue the owner, or starts a goroutine if nobody waits. An item goes through three states:
//
//	queued  in the queue; a context that ends may take it out
//	taken   the owner seals or writes it; its bytes are in use
//	done    written or failed; whoever waits for it has been told
//
// The first error ends it all: what is taken or queued is done with that error, and nothing more
// is added. A panic of the net.Conn or of a callback is such an error.

// writeHalf is the sending direction.
type writeHalf struct {
	conn *Conn  // whose half it is
	run  func() // Conn.drain; a method value made anew allocates

	mu        sync.Mutex // guards what follows; nothing waits, seals or calls out with it held
	err       error      // first fatal error, after which nothing is added
	owned     bool       // somebody is the owner; false only if nothing is queued
	control   items      // go ahead of queue
	queue     items
	posted    int            // bytes that items nobody waits for hold, queued or taken
	published directionStats // as of the last call on the net.Conn

	spare atomic.Pointer[item] // for the next item, or nil

	// The owner's alone.
	stream   cipher.Stream
	mac      *mac.MAC
	taken    items
	bound    int            // at most so many bytes of frames are still to be sealed for taken
	buf      bufpool.Buffer // buf.B[sent:n] is sealed and not yet written
	sent, n  int
	frames   int // that end in buf.B[sent:n]
	stats    directionStats
	watchdog watchdog
}

const (
	// maxCall is about how many bytes of frames go into one call on the net.Conn, unless
	// one frame is larger.
	maxCall = 256 << 10

	// wholeFrame is the largest frame data that is sealed in one piece and
	// written with one call: a 1 MiB message and its code. Larger frames are
	// written while they are sealed, so that the peer can start to work on them
	// and no buffer of their size is needed.
	wholeFrame = 1<<20 + blockSize

	// pieceSize is how much of a larger frame is sealed before it is written:
	// small enough for the CPU's cache, large enough that calls do not count.
	pieceSize = 256 << 10
)

// add queues it in one of the two lists. It reports whether the caller is the owner
// now, and has to send. It is called with mu held and err nil.
func (out *writeHalf) add(it *item, list *items) (mine bool) {
	it.state = queued
	list.push(it)
	if out.owned {
		return false
	}
	out.owned = true
	out.take()
	return true
}

// take moves the items for the next call from the queue to taken. It is called by the owner with
// mu held, or for it when there was none.
func (out *writeHalf) take() {
	out.bound = 0
	for {
		list := &out.control
		if list.first == nil {
			list = &out.queue
		}
		it := list.first
		if it == nil || out.bound > 0 && out.bound+it.bound > maxCall {
			return
		}
		out.taken.push(list.pop())
		it.state = taken
		out.bound += it.bound
	}
}

// send does the owner's work until the queue is empty, or own is done and somebody else is the
// owner. own is nil in a goroutine that nobody waits for. It is called with items taken.
func (c *Conn) send(own *item) {
	out := &c.out
	owner := true
	defer func() {
		if !owner {
			return
		}
		// A panic, or runtime.Goexit. It goes on, unless there is nobody to see it.
		err := new(PanicError)
		if own == nil {
			err.Value, err.Stack = recover(), debug.Stack()
		}
		if out.abandon(own, err) {
			c.traceWriteFailed(err)
		}
	}()
	for owner {
		err := c.sendTaken()
		var news bool
		owner, news = out.finish(own, err)
		if news {
			c.traceWriteFailed(err)
		}
	}
}

// drain is send in a goroutine of its own, which may begin with frames that are sealed already.
func (c *Conn) drain() {
	defer func() {
		if v := recover(); v != nil { // of Trace.WriteFailed: writing has ended anyway
			c.out.mu.Lock()
			defer c.out.mu.Unlock()
			c.out.err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	c.send(nil)
}

// finish marks what is taken as done, and what is queued too if err is not nil, and tells who
// waits. It reports whether the caller is still the owner, who has then taken the next items, and
// whether err is the error that ended writing.
func (out *writeHalf) finish(own *item, err error) (owner, news bool) {
	out.mu.Lock()
	done := out.taken
	out.taken = items{}
	if err != nil {
		news = out.fail(err)
		done.append(&out.control)
		done.append(&out.queue)
		// Messages that are not known to be written do not count.
		out.published.calls, out.published.wire = out.stats.calls, out.stats.wire
	} else {
		out.published = out.stats
	}
	told := out.end(done, err, own)
	drain := false
	if owner = out.waiting() && (own == nil || own.state != finished); owner {
		out.take()
	} else {
		drain = out.pass()
	}
	out.mu.Unlock()

	told.tell(out)
	if drain {
		go out.run()
	}
	return owner, news
}

// end marks items as done, with err unless they have an error of their own, and wakes the
// goroutines that wait for them, but not for own. It returns those that tell has to follow for. It
// is called with mu held.
func (out *writeHalf) end(done items, err error, own *item) (rest items) {
	for it := done.pop(); it != nil; it = done.pop() {
		it.state = finished
		out.posted -= it.cost
		if it.err == nil {
			it.err = err
		}
		switch {
		case !it.waited:
			rest.push(it)
		case it != own:
			it.woken.Signal()
		}
	}
	return rest
}

// unqueue takes it out of the queue and ends it with err, if nobody has taken it and it is not
// chosen. It is called with mu held.
func (out *writeHalf) unqueue(it *item, err error) bool {
	if it.state != queued || it.chosen {
		return false
	}
	_ = out.queue.remove(it) || out.control.remove(it)
	it.state, it.err = finished, err
	return true
}

// cancel is unqueue without mu.
func (out *writeHalf) cancel(it *item, err error) bool {
	out.mu.Lock()
	defer out.mu.Unlock()
	return out.unqueue(it, err)
}

// abandon ends writing when its owner gives up in a panic. It reports whether err is the error that
// ended writing.
func (out *writeHalf) abandon(own *item, err *PanicError) (news bool) {
	out.buf = bufpool.Buffer{} // who panicked may still use it
	out.watchdog.end()         // the call that panicked is not under way any more
	_, news = out.finish(own, err)
	return news
}

// waiting reports whether something is queued.
func (out *writeHalf) waiting() bool { return out.control.first != nil || out.queue.first != nil }

// pass ends the ownership of the caller. The next owner is the first goroutine that waits in the
// queue. If nobody does, pass reports true: the caller has to start one, without mu. It is called
// with mu held.
func (out *writeHalf) pass() (drain bool) {
	if !out.waiting() {
		out.owned = false
		return false
	}
	for _, list := range [...]*items{&out.control, &out.queue} {
		for it := list.first; it != nil; it = it.next {
			if it.waited {
				it.chosen = true
				it.woken.Signal()
				return false
			}
		}
	}
	out.take()
	return true
}

// fail makes err the error that ended writing, unless there is one. It reports whether it did,
// which the caller has to tell the Trace once mu is free. It is called with mu held.
func (out *writeHalf) fail(err error) (news bool) {
	if out.err != nil {
		return false
	}
	out.err = err
	return true
}

// open returns the error that ended writing, or nil, and whether it is news as of fail. It is
// called with mu held.
func (out *writeHalf) open() (err error, news bool) {
	if out.err == nil {
		if err := out.conn.ended(); err != nil {
			return err, out.fail(err)
		}
	}
	return out.err, false
}

// snapshot returns the stats as of the last call on the net.Conn.
func (out *writeHalf) snapshot() directionStats {
	out.mu.Lock()
	defer out.mu.Unlock()
	return out.published
}
