package rlpx

import (
	"errors"

	"github.com/go-rlpx/transport/internal/bufpool"
)

// Items that nobody waits for.

// DefaultSendQueue is what a connection keeps for [Conn.Send] if its Config does not say.
const DefaultSendQueue = 2 << 20

// ErrQueueFull is what [Conn.Send] and the like return for a message that the queue has no room for. The
// peer reads slower than messages are sent to it. Nothing was changed.
var ErrQueueFull = errors.New("rlpx: send queue is full")

// Send queues a message and returns. data is copied, or compressed, before. Whoever has several peers and
// must not wait for one of them uses Send; what is sent to a peer that does not read is bounded by
// Config.SendQueue, over which Send returns [ErrQueueFull]. To wait for room instead, use Write:
// it takes its turn behind what is queued.
//
// Messages of Send and Write leave in the order of the calls. That a message was queued does not
// say that it will be written: the connection may fail, of which later calls and Trace.WriteFailed tell.
func (c *Conn) Send(code uint64, data []byte) error {
	return c.postMessage("Send", code, data, false)
}

// SendControl is Send for the messages of a protocol's control, such as Ping and Disconnect: they go ahead of all messages that are
// queued, though not into the middle of a frame. They are small and few; see maxControl for the bound.
func (c *Conn) SendControl(code uint64, data []byte) error {
	return c.postMessage("SendControl", code, data, true)
}

const (
	// packSize is the buffer that small messages of Send share while they are queued, and packMax
	// the largest payload that goes there.
	packSize = 4 << 10
	packMax  = packSize / 4

	// itemCost is what an item takes beside the buffer of its messages.
	itemCost = 256

	// maxControl bounds the control messages that are queued, beyond SendQueue.
	maxControl = 16 << 10
)

// packCost is what an item of records takes.
const packCost = itemCost + packSize

// postMessage is Send and SendControl.
func (c *Conn) postMessage(method string, code uint64, data []byte, ahead bool) error {
	if err := c.mustBeEstablished(method); err != nil {
		return err
	}
	compressed := c.snappy.Load()
	if err := checkMessage(code, len(data), compressed); err != nil {
		return err
	}
	m := outgoing{code: code, data: data, plain: len(data)}
	var block bufpool.Buffer
	if compressed {
		var n int
		block, n = compress(data)
		m.data = block.B[:n]
		if err := checkFrame(code, n); err != nil {
			block.Release(n)
			return err
		}
	}
	if len(m.data) <= packMax {
		err := c.post(nil, m, ahead) // copies m
		if block.Held() {
			block.Release(len(m.data))
		}
		return err
	}
	if compressed {
		block, _ = compact(block, len(m.data))
	} else {
		block = bufpool.Get(len(data))
		copy(block.B, data)
	}
	it := c.out.newItem()
	it.set(code, block.B[:len(m.data)], false)
	it.plain = len(data)
	it.block, it.dirty = block, len(m.data)
	it.cost = itemCost + len(block.B)
	return c.post(it, m, ahead)
}

// SendPayload queues a message as [Conn.Send] does with the data that p was made from. It copies
// nothing, and counts the payload as if it were this connection's alone.
func (c *Conn) SendPayload(code uint64, p *Payload) error {
	if err := c.mustBeEstablished("SendPayload"); err != nil {
		return err
	}
	compressed := c.snappy.Load()
	if compressed && p.block == nil {
		return c.postMessage("SendPayload", code, p.plain, false)
	}
	it := c.out.newItem()
	if err := it.setPayload(code, p, compressed); err != nil {
		it.free(&c.out)
		return err
	}
	it.cost = itemCost + len(it.msgs[0].Data)
	return c.post(it, outgoing{}, false)
}

// post adds an item that nobody waits for, or m as a record if it is nil.
func (c *Conn) post(it *item, m outgoing, ahead bool) error {
	out := &c.out
	mine := false
	out.mu.Lock()
	err, news := out.open()
	if err == nil {
		mine, err = out.post(it, m, ahead)
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

// post is Conn.post with mu held. It reports whether the caller is the owner now.
func (out *writeHalf) post(it *item, m outgoing, ahead bool) (mine bool, err error) {
	list, limit := &out.queue, out.conn.cfg.sendQueue()
	if ahead {
		list, limit = &out.control, limit+maxControl
	}
	cost := packCost
	if it != nil {
		cost = it.cost
	} else if last := list.last; list.first != nil && last.records != nil && last.dirty+maxRecordHead+len(m.data) <= packSize {
		last.addRecord(m)
		return false, nil
	}
	if cost > 0 && out.posted+cost > limit {
		return false, ErrQueueFull
	}
	if it == nil {
		it = out.newItem()
		it.block, it.cost = bufpool.Get(packSize), cost
		it.records = it.block.B[:0]
		it.addRecord(m)
	}
	out.posted += cost
	return out.add(it, ahead), nil
}

// addRecord puts m behind the records of it.
func (it *item) addRecord(m outgoing) {
	it.records = appendRecord(it.records, m)
	it.dirty = len(it.records)
	it.bound += m.bound()
}
