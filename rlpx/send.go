package rlpx

import (
	"errors"

	"github.com/go-rlpx/transport/internal/bufpool"
)

// Items that nobody waits for.

// DefaultSendQueue is what a connection keeps for [Conn.Send] if its Config does not say.
const DefaultSendQueue = 2 << 20

// ErrQueueFull is what [Conn.Send] and the like return for a message that the queue has no room
// for. The peer reads slower than messages are sent to it. Nothing was changed.
var ErrQueueFull = errors.New("rlpx: send queue is full")

// Send queues a message and returns. data is copied, or compressed, before. Whoever has several
// peers and must not wait for one of them uses Send; what is sent to a peer that does not read is
// bounded by Config.SendQueue, over which Send returns [ErrQueueFull]. To wait for room instead,
// use Write: it takes its turn behind what is queued.
//
// Messages of Send and Write leave in the order of the calls. That a message was queued does not
// say that it will be written: the connection may fail or be closed before, of which later calls
// and Trace.WriteFailed tell. [Conn.WriteBatch] without messages waits for it.
func (c *Conn) Send(code uint64, data []byte) error {
	m, block, err := c.outgoing("Send", code, data)
	if err != nil {
		return err
	}
	if len(m.data) <= packMax {
		err := c.post(nil, m) // copies m
		if block.Held() {
			block.Release(len(m.data))
		}
		return err
	}
	return c.post(c.blockItem(m, block), m)
}

// SendControl is Send for the messages of a protocol's control, such as Ping: it goes ahead of all
// that is queued, though not into the middle of a frame, and has bounds of its own. A message is
// refused with [ErrQueueFull] while one with the same code is queued, or when maxControl bytes are.
func (c *Conn) SendControl(code uint64, data []byte) error {
	m, block, err := c.outgoing("SendControl", code, data)
	if err != nil {
		return err
	}
	return c.postTo(&c.out.control, c.blockItem(m, block), m)
}

const (
	// packSize is the buffer that small messages of Send share while they are queued, and packMax
	// the largest payload that goes there.
	packSize = 4 << 10
	packMax  = packSize / 4

	// itemCost is what an item takes beside the buffer of its messages, and packCost that of
	// one with records.
	itemCost = 256
	packCost = itemCost + packSize

	// minSendQueue has room for one buffer that fills while another is being sent.
	minSendQueue = 9 << 10

	// maxControl bounds the control messages that are queued. They have no part in SendQueue.
	maxControl = 16 << 10
)

// outgoing makes a message that is to outlive the call, but for the copy of what is not compressed.
// It is in block, if that is held.
func (c *Conn) outgoing(method string, code uint64, data []byte) (m outgoing, block bufpool.Buffer, err error) {
	if err := c.mustBeEstablished(method); err != nil {
		return m, block, err
	}
	compressed := c.snappy.Load()
	if err := checkMessage(code, len(data), compressed); err != nil {
		return m, block, err
	}
	m = outgoing{code: code, data: data, plain: len(data)}
	if compressed {
		var n int
		block, n = compress(data)
		m.data = block.B[:n]
		if err := checkFrame(code, n); err != nil {
			block.Release(n)
			return m, bufpool.Buffer{}, err
		}
	}
	return m, block, nil
}

// blockItem makes an item that holds m, which is in block, or else is copied.
func (c *Conn) blockItem(m outgoing, block bufpool.Buffer) *item {
	if block.Held() {
		block, _ = compact(block, len(m.data))
	} else {
		block = bufpool.Get(len(m.data))
		copy(block.B, m.data)
	}
	it := c.out.newItem()
	it.set(m.code, block.B[:len(m.data)], false)
	it.plain = m.plain
	it.block, it.dirty = block, len(m.data)
	it.cost = itemCost + len(block.B)
	return it
}

// SendPayload queues a message as [Conn.Send] does with the data that p was made from. It copies
// nothing, and counts the payload as if it were this connection's alone.
func (c *Conn) SendPayload(code uint64, p *Payload) error {
	if err := c.mustBeEstablished("SendPayload"); err != nil {
		return err
	}
	compressed := c.snappy.Load()
	if p != nil && compressed && p.block == nil {
		return c.Send(code, p.plain)
	}
	it := c.out.newItem()
	if err := it.setPayload(code, p, compressed); err != nil {
		it.free(&c.out)
		return err
	}
	it.cost = itemCost + len(it.msgs[0].Data)
	return c.post(it, outgoing{})
}

// post adds an item that nobody waits for, or m as a record if it is nil.
func (c *Conn) post(it *item, m outgoing) error {
	return c.postTo(&c.out.queue, it, m)
}

// postTo is post to a list of the half.
func (c *Conn) postTo(list *items, it *item, m outgoing) error {
	out := &c.out
	mine := false
	out.mu.Lock()
	err, news := out.open()
	if err == nil {
		mine, err = out.post(list, it, m)
	}
	out.mu.Unlock()
	switch {
	case mine:
		go out.run()
	case err != nil && it != nil:
		it.free(out)
	}
	c.reportFailed(err, news)
	return err
}

// post is Conn.postTo with mu held. It reports whether the caller is the owner now.
func (out *writeHalf) post(list *items, it *item, m outgoing) (mine bool, err error) {
	if list == &out.control {
		if !out.controlRoom(m) {
			return false, ErrQueueFull
		}
		it.cost = 0
		return out.add(it, list), nil
	}
	cost := packCost
	if it != nil {
		cost = it.cost
	} else if last := list.last; list.first != nil && last.records != nil && last.dirty+maxRecordHead+len(m.data) <= packSize {
		last.addRecord(m)
		return false, nil
	}
	if cost > 0 && out.posted+cost > out.conn.cfg.sendQueue() {
		return false, ErrQueueFull
	}
	if it == nil {
		it = out.newItem()
		it.block, it.cost = bufpool.Get(packSize), cost
		it.records = it.block.B[:0]
		it.addRecord(m)
	}
	out.posted += cost
	return out.add(it, list), nil
}

// controlRoom reports whether m may be queued as control.
func (out *writeHalf) controlRoom(m outgoing) bool {
	size := len(m.data)
	for it := out.control.first; it != nil; it = it.next {
		if it.one[0].Code == m.code {
			return false
		}
		size += len(it.one[0].Data)
	}
	return size <= maxControl
}

// addRecord puts m behind the records of it.
func (it *item) addRecord(m outgoing) {
	it.records = appendRecord(it.records, m)
	it.dirty = len(it.records)
	it.bound += m.bound()
}
