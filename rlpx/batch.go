package rlpx

import (
	"github.com/golang/snappy"
)

// Message is one of the messages of [Conn.WriteBatch].
type Message struct {
	Code uint64
	Data []byte // neither kept nor modified
}

// WriteBatch sends messages in their order with nothing in between. Each call on
// the net.Conn but the last carries at least 256 KiB of frames. It returns the
// size of all payloads on the wire, as Write does for one. If any message is too
// large, a [SizeError] is returned and nothing is sent; any other error is permanent.
func (c *Conn) WriteBatch(msgs []Message) (wireSize int, err error) {
	if err := c.mustBeEstablished("WriteBatch"); err != nil {
		return 0, err
	}
	compressed := c.snappy.Load()
	for _, m := range msgs {
		if err := m.check(compressed); err != nil {
			return 0, err
		}
	}
	out := &c.out
	out.mu.Lock()
	defer out.mu.Unlock()
	if err := c.writable(); err != nil {
		return 0, err
	}
	out.take()
	wireSize, end, err := c.enqueueAll(msgs, compressed)
	out.give()
	if err == nil && out.done < end {
		err = c.flush(end - 1)
	}
	out.published.set(out.stats)
	return wireSize, err
}

// enqueueAll seals messages into pending, and writes it whenever it is full. The
// batches before number end have all of it. It is called by the writer that has taken out.
func (c *Conn) enqueueAll(msgs []Message, compressed bool) (wireSize int, end uint64, err error) {
	for _, msg := range msgs {
		m := &outgoing{code: msg.Code, plain: msg.Data, compress: compressed}
		size, err := m.prepare()
		if err == nil && size > wholeFrame {
			err = c.writePieces(m, size)
		} else if err == nil {
			var batch uint64
			batch, err = c.enqueue(m, size)
			end = batch + 1
		}
		wire := len(m.payload)
		m.release()
		if err == nil && c.out.n >= maxPending {
			err = c.flush(c.out.batch)
		}
		wireSize += wire
		if err != nil {
			return wireSize, end, err
		}
		c.out.stats.message(len(m.plain), wire)
	}
	return wireSize, end, nil
}

// check reports whether m fits a frame.
func (m Message) check(compressed bool) error {
	if len(m.Data) > maxUint24 {
		return &SizeError{What: "message", Size: len(m.Data), Limit: maxUint24}
	}
	if !compressed {
		return checkFrame(m.Code, len(m.Data))
	}
	if checkFrame(m.Code, snappy.MaxEncodedLen(len(m.Data))) == nil {
		return nil
	}
	// Only the compressor knows.
	block, n := compress(m.Data)
	block.Release(n)
	return checkFrame(m.Code, n)
}

// checkFrame reports whether a frame can hold a code and a payload of the given length.
func checkFrame(code uint64, payload int) error {
	if size := dataSize(code, payload); size > maxUint24 {
		return &SizeError{What: "frame", Size: size, Limit: maxUint24}
	}
	return nil
}

// Payload is message data made ready to be sent to many peers. It is safe for
// concurrent use.
type Payload struct {
	plain []byte
	block []byte // snappy; nil if plain is too large for any frame
}

// Compress prepares data to be sent with [Conn.WritePayload], compressing it
// once for all peers. data must not be modified as long as the Payload is in use.
func Compress(data []byte) *Payload {
	p := &Payload{plain: data}
	if len(data) <= maxUint24 {
		block, n := compress(data)
		p.block = append(make([]byte, 0, n), block.B[:n]...)
		block.Release(n)
	}
	return p
}

// message is the message with this payload for one connection.
func (p *Payload) message(code uint64, compressed bool) outgoing {
	m := outgoing{code: code, plain: p.plain, payload: p.plain}
	if compressed {
		// The zero Payload has no block: then it is made here.
		m.payload, m.compress = p.block, p.block == nil
	}
	return m
}

// WritePayload sends a message as [Conn.Write] does with the data that p was
// made from. Compressed or not is what the connection's SetSnappy says.
func (c *Conn) WritePayload(code uint64, p *Payload) (wireSize uint32, err error) {
	if err := c.mustBeEstablished("WritePayload"); err != nil {
		return 0, err
	}
	m := p.message(code, c.snappy.Load())
	return c.write(&m)
}
