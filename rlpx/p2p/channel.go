package p2p

import (
	"context"
	"sync"
)

// A Channel carries the messages of one shared capability of a Session. Its methods may be called
// by any goroutine at any time. A nil Channel, which is what Session.Capability returns for a
// capability that is not shared, gives ErrNotShared.
//
// # Two ways to receive
//
// If the capability has a Handle function, the session's reader calls it for each message, in
// order, with data that is lent for the call: no copy, no queue, no other goroutine. Nothing else
// is read from the peer meanwhile. Without one, messages are copied into a bounded queue, from
// which Read takes them.
type Channel struct {
	session *Session
	shared  Shared
	arrived chan struct{} // holds an element if there may be a message for one that waits
	room    chan struct{} // holds an element if there may be room for the reader, or it is to look again

	mu      sync.Mutex
	queue   queue
	readers int  // goroutines that wait for a message
	waiting bool // the session's reader waits for room
	closed  bool // nothing is queued any more
}

func newChannel(s *Session, shared Shared) *Channel {
	return &Channel{session: s, shared: shared, arrived: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Shared returns the capability, a zero one for a nil Channel.
func (ch *Channel) Shared() Shared {
	if ch == nil {
		return Shared{}
	}
	return ch.shared
}

// Session returns the session that ch is of, nil for a nil Channel.
func (ch *Channel) Session() *Session {
	if ch == nil {
		return nil
	}
	return ch.session
}

// Read returns the next message of the capability: its id and its data, which belongs to the
// caller and is never nil without an error. Of several goroutines that read, each message goes to
// one.
//
// After the session has ended, Read returns what was received before and then the error of
// Session.Err, and nothing after that; after our own Disconnect or Close only the error. With a
// Handle function it returns nothing but that error.
func (ch *Channel) Read(ctx context.Context) (id uint64, data []byte, err error) {
	if ch == nil {
		return 0, nil, ErrNotShared
	}
	for {
		// In this order: nothing is queued after the session ended.
		err := ch.session.Err()
		if m, ok := ch.take(); ok {
			return m.id, m.data, nil
		}
		if err != nil {
			return 0, nil, err
		}
		ch.wait(1)
		select {
		case <-ch.arrived:
			ch.wait(-1)
		case <-ch.session.ending:
			ch.wait(-1)
		case <-ctx.Done():
			ch.wait(-1)
			if m, ok := ch.take(); ok { // which may be there because we waited
				return m.id, m.data, nil
			}
			return 0, nil, ctx.Err()
		}
	}
}

// wait notes that a goroutine begins or ends to wait for a message.
func (ch *Channel) wait(n int) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.readers += n
	if n > 0 && ch.waiting {
		signal(ch.room)
	}
}

// offer puts a copy of a message in the queue. It reports false if there is no room; the reader is
// told by room when there may be.
func (ch *Channel) offer(id uint64, data []byte) bool {
	cfg := &ch.session.cfg
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.closed {
		return true // as good as taken
	}
	full := ch.queue.len() >= cfg.QueueMessages || len(data) > cfg.QueueBytes-ch.queue.bytes
	if len(data) > cfg.QueueBytes {
		// The queue is not for this one. Until somebody takes it, it stays where the connection has
		// it.
		full = ch.queue.len() > 0 || ch.readers == 0
	}
	if full {
		ch.waiting = true
		return false
	}
	ch.waiting = false
	ch.queue.push(message{id, append([]byte{}, data...)})
	signal(ch.arrived)
	return true
}

// take removes the first message of the queue.
func (ch *Channel) take() (message, bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.queue.len() == 0 {
		return message{}, false
	}
	m := ch.queue.pop()
	if ch.queue.len() > 0 {
		signal(ch.arrived) // another goroutine may wait
	}
	if ch.waiting {
		signal(ch.room)
	}
	return m, true
}

// ended lets nothing into the queue any more, and drops what is there if discard.
func (ch *Channel) ended(discard bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.closed = true
	if discard {
		ch.queue = queue{}
	}
	signal(ch.room)
}

// signal puts an element into a channel of capacity 1 if it is not there yet.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

type message struct {
	id   uint64
	data []byte
}

// queue is a ring buffer of messages.
type queue struct {
	ring    []message // length is a power of two, or 0
	head, n int
	bytes   int // of data
}

// minRing is what is kept of the ring of an empty queue.
const minRing = 8

func (q *queue) len() int { return q.n }

func (q *queue) push(m message) {
	if q.n == len(q.ring) {
		larger := make([]message, max(1, 2*len(q.ring)))
		copy(larger[copy(larger, q.ring[q.head:]):], q.ring[:q.head])
		q.ring, q.head = larger, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = m
	q.n++
	q.bytes += len(m.data)
}

func (q *queue) pop() message {
	m := q.ring[q.head]
	q.ring[q.head] = message{}
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	q.bytes -= len(m.data)
	if q.n == 0 && len(q.ring) > minRing {
		*q = queue{}
	}
	return m
}
