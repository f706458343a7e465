package rlpx

import (
	"context"
	"errors"
	"net"
	"time"
)

// The ways to add an item, and to wait for it.

// Write sends a message. It returns the size of the payload on the wire, after
// compression and without the code. data is neither kept nor modified.
//
// A message that is too large is refused with a [SizeError] and changes
// nothing. Any other error is permanent. Write may be called by several
// goroutines at once; messages go out whole, in the order in which the calls came.
func (c *Conn) Write(code uint64, data []byte) (wireSize uint32, err error) {
	return c.WriteContext(context.Background(), code, data)
}

// WriteContext is Write with a context. If ctx ends while the message waits for those
// before it, the message is not sent and the error is that of ctx; the connection goes on. Once the
// message is being sent, WriteContext waits for the end of that, since data is in use.
func (c *Conn) WriteContext(ctx context.Context, code uint64, data []byte) (wireSize uint32, err error) {
	if err := c.mayWrite(ctx, "Write"); err != nil {
		return 0, err
	}
	compress := c.snappy.Load()
	if err := checkMessage(code, len(data), compress); err != nil {
		return 0, err
	}
	it := c.out.newItem()
	it.set(code, data, compress)
	n, err := c.write(ctx, it)
	return uint32(n), err
}

// WritePayload sends a message as [Conn.Write] does with the data that p was
// made from. Compressed or not is what the connection's SetSnappy says.
func (c *Conn) WritePayload(code uint64, p *Payload) (wireSize uint32, err error) {
	return c.WritePayloadContext(context.Background(), code, p)
}

// WritePayloadContext is WritePayload with a context, as in [Conn.WriteContext].
func (c *Conn) WritePayloadContext(ctx context.Context, code uint64, p *Payload) (wireSize uint32, err error) {
	if err := c.mayWrite(ctx, "WritePayload"); err != nil {
		return 0, err
	}
	it := c.out.newItem()
	if err := it.setPayload(code, p, c.snappy.Load()); err != nil {
		it.free(&c.out)
		return 0, err
	}
	n, err := c.write(ctx, it)
	return uint32(n), err
}

// Message is one of the messages of [Conn.WriteBatch].
type Message struct {
	Code uint64
	Data []byte // neither kept nor modified
}

// WriteBatch sends messages in their order, with nothing in between but what [Conn.SendControl]
// sends. Each call on the net.Conn carries about 256 KiB of frames. It returns the size of all
// payloads on the wire, as Write does for one. If any message is too large, a [SizeError] is
// returned and nothing is sent; any other error is permanent. Without messages, WriteBatch waits
// until all that was sent before is written.
func (c *Conn) WriteBatch(msgs []Message) (wireSize int, err error) {
	return c.WriteBatchContext(context.Background(), msgs)
}

// WriteBatchContext is WriteBatch with a context, as in [Conn.WriteContext].
func (c *Conn) WriteBatchContext(ctx context.Context, msgs []Message) (wireSize int, err error) {
	if err := c.mayWrite(ctx, "WriteBatch"); err != nil {
		return 0, err
	}
	it := c.out.newItem()
	it.msgs, it.compress = msgs, c.snappy.Load()
	for i := range msgs {
		m := &msgs[i]
		if err := m.check(it.compress); err != nil {
			it.free(&c.out)
			return 0, err
		}
		o := outgoing{data: m.Data, compress: it.compress}
		it.bound += o.bound()
	}
	return c.write(ctx, it)
}

// mayWrite returns the error of a context that has ended before there is anything to wait for.
func (c *Conn) mayWrite(ctx context.Context, method string) error {
	if err := c.mustBeEstablished(method); err != nil || ctx == nil {
		return err
	}
	return ctx.Err()
}

// write adds an item and waits for its end.
func (c *Conn) write(ctx context.Context, it *item) (wireSize int, err error) {
	out := &c.out
	it.waited = true
	out.mu.Lock()
	err, news := out.open()
	mine := err == nil && out.add(it, &out.queue)
	out.mu.Unlock()
	if err != nil {
		it.free(out)
		c.reportFailed(err, news)
		return 0, err
	}
	c.await(ctx, it, mine)
	wireSize, err = it.wire, it.err
	it.free(out)
	if err != nil {
		return 0, err
	}
	return wireSize, nil
}

// await returns when it is done. The caller is the owner if mine, or may become the owner on the
// way.
func (c *Conn) await(ctx context.Context, it *item, mine bool) {
	if !mine {
		mine = c.out.wait(ctx, it)
	}
	if mine {
		c.send(it)
	}
}

// wait returns when it is done, or reports true when the caller is the owner and has to send.
func (out *writeHalf) wait(ctx context.Context, it *item) (mine bool) {
	out.mu.Lock()
	defer out.mu.Unlock()
	it.woken.L = &out.mu
	if ctx != nil && ctx.Done() != nil && it.state == queued {
		defer out.unqueueWhenDone(ctx, it)()
	}
	for it.state != finished && !it.chosen {
		it.woken.Wait()
	}
	if it.chosen {
		out.take()
	}
	return it.chosen
}

// unqueueWhenDone unqueues it when ctx ends. The caller, who holds mu, calls the result to stop
// that.
func (out *writeHalf) unqueueWhenDone(ctx context.Context, it *item) (stop func()) {
	over := false
	cancel := context.AfterFunc(ctx, func() {
		out.mu.Lock()
		defer out.mu.Unlock()
		out.unqueue(it, ctx.Err())
		over = true
		it.woken.Signal()
	})
	return func() {
		for over = over || cancel(); !over; { // the item may not be used for something else before
			it.woken.Wait()
		}
	}
}

// WriteLast ends the writing direction with one last message. What is queued is not sent any more:
// its callers get cause, as do all later ones. The message follows what is being sent, of which
// each call on the net.Conn gets grace to return; when one takes longer, the connection is closed.
// WriteLast returns when the message is written and the net.Conn is told that nothing follows, if
// it can be, or when ctx ends before the message is being sent.
func (c *Conn) WriteLast(ctx context.Context, cause error, grace time.Duration, code uint64, data []byte) error {
	if err := c.mustBeEstablished("WriteLast"); err != nil {
		return err
	}
	compress := c.snappy.Load()
	if err := checkMessage(code, len(data), compress); err != nil {
		return err
	}
	it := c.out.newItem()
	it.set(code, data, compress)
	if err := c.writeEnd(ctx, it, cause, grace); err != nil {
		return err
	}
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// writeEnd adds an item after which nothing is added, and waits for its end. If grace is not 0, it
// drops what is queued, and hurries what is being sent.
func (c *Conn) writeEnd(ctx context.Context, it *item, cause error, grace time.Duration) error {
	out := &c.out
	it.waited = true
	var dropped items
	mine := false
	out.mu.Lock()
	err, news := out.open()
	if err == nil {
		if grace > 0 {
			dropped = out.drop(cause)
		}
		mine = out.add(it, &out.queue)
		news = out.fail(cause)
	}
	out.mu.Unlock()
	dropped.tell(out)
	if err != nil {
		it.free(out)
		c.reportFailed(err, news)
		return err
	}
	if !mine && grace > 0 {
		timeout := out.watchdog.timeout.Load()
		c.SetWriteTimeout(grace)
		mine = out.wait(ctx, it)
		c.SetWriteTimeout(time.Duration(timeout))
	}
	c.await(ctx, it, mine)
	err = it.err
	it.free(out)
	c.reportFailed(cause, news)
	return err
}

// drop ends all that is queued. It is called with mu held; tell has to follow.
func (out *writeHalf) drop(cause error) (rest items) {
	var all, kept items
	all.append(&out.control)
	all.append(&out.queue)
	dropped := items{}
	for it := all.pop(); it != nil; it = all.pop() {
		if it.chosen {
			kept.push(it)
		} else {
			dropped.push(it)
		}
	}
	out.queue = kept
	return out.end(dropped, cause, nil)
}

// CloseWrite ends the writing direction: the peer reads io.EOF after what was
// written and queued before, which CloseWrite waits for. Later writes, and a second
// CloseWrite, return net.ErrClosed. It fails, with nothing changed, if the
// net.Conn has no CloseWrite of its own, as *net.TCPConn has.
func (c *Conn) CloseWrite() error {
	if err := c.mustBeEstablished("CloseWrite"); err != nil {
		return err
	}
	half, ok := c.conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.New("rlpx: the net.Conn has no CloseWrite")
	}
	if err := c.writeEnd(context.Background(), c.out.newItem(), net.ErrClosed, 0); err != nil {
		return err
	}
	return half.CloseWrite()
}

// reportFailed tells the Trace of the error that ended writing, if it is news.
func (c *Conn) reportFailed(err error, news bool) {
	if news {
		c.traceWriteFailed(err)
	}
}
