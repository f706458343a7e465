package rlpx

import (
	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/bufpool"
)

// Message is one of the messages of [Conn.WriteBatch].
type Message struct {
	Code uint64
	Data []byte // neither kept nor modified
}

// WriteBatch sends messages in their order, with nothing in between, and with
// one call on the net.Conn for 256 KiB of frames or more. It returns the size of all payloads on the wire,
// as Write does for one. If any message is too large, a [SizeError] is
// returned and nothing is sent; any other error is permanent.
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
	out.take()
	wireSize, end, err := c.enqueueAll(msgs, compressed)
	out.give()
	if err == nil && out.done < end {
		err = c.flush(end - 1)
	}
	return wireSize, err
}

// enqueueAll seals messages into pending, and writes it whenever it is full. The
// batches before number end have all of it. It is called by the writer that has taken out.
func (c *Conn) enqueueAll(msgs []Message, compressed bool) (wireSize int, end uint64, err error) {
	for _, m := range msgs {
		payload := m.Data
		var block bufpool.Buffer
		if compressed {
			var n int
			block, n = compress(m.Data)
			payload = block.B[:n]
		}
		if size := dataSize(m.Code, len(payload)); size > wholeFrame {
			err = c.writePieces(m.Code, payload, size)
		} else {
			var batch uint64
			batch, err = c.enqueue(m.Code, payload, size)
			end = batch + 1
		}
		if block.Held() {
			block.Release(len(payload))
		}
		if err == nil && c.out.n >= maxPending {
			err = c.flush(c.out.batch)
		}
		wireSize += len(payload)
		if err != nil {
			break
		}
		c.out.stats.message(len(m.Data), len(payload))
	}
	return wireSize, end, err
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

// wire is what goes on the wire of a connection.
func (p *Payload) wire(compressed bool) []byte {
	if compressed {
		return p.block
	}
	return p.plain
}

// WritePayload sends a message as [Conn.Write] does with the data that p was
// made from. Compressed or not is what the connection's SetSnappy says.
func (c *Conn) WritePayload(code uint64, p *Payload) (wireSize uint32, err error) {
	if err := c.mustBeEstablished("WritePayload"); err != nil {
		return 0, err
	}
	if len(p.plain) > maxUint24 {
		return 0, &SizeError{What: "message", Size: len(p.plain), Limit: maxUint24}
	}
	return c.writeFrame(code, p.wire(c.snappy.Load()), len(p.plain))
}
