package rlpx

import (
	"io"
	"time"

	"github.com/ethereum/go-ethereum/rlp"

	"github.com/go-rlpx/transport/internal/bufpool"
	"github.com/go-rlpx/transport/mac"
)

// From messages to the net.Conn. All of this is the owner's work, without the mutex of the half.

// sendTaken seals the messages of what is taken and writes them. Its error is fatal.
func (c *Conn) sendTaken() error {
	for it := c.out.taken.first; it != nil; it = it.next {
		if err := c.sendItem(it); err != nil {
			return err
		}
	}
	return c.flush()
}

// sendItem seals the messages of it into the buffer, and writes what has no room there.
func (c *Conn) sendItem(it *item) error {
	for {
		m, ok := it.message()
		if !ok {
			break
		}
		bound := m.bound()
		if bound > wireLen(wholeFrame) {
			if err := c.sendLarge(it, m); err != nil {
				return err
			}
			continue
		}
		if err := c.makeRoom(bound); err != nil {
			return err
		}
		c.out.bound -= bound
		c.seal(it, m)
	}
	if it.cast == nil {
		it.release()
	}
	return nil
}

// makeRoom makes room in the buffer for n bytes of frames. If that takes a call on the net.Conn,
// control items go ahead of what is left.
func (c *Conn) makeRoom(n int) error {
	out := &c.out
	for out.buf.Held() && len(out.buf.B)-out.n < n {
		if err := c.flush(); err != nil {
			return err
		}
		if err := c.sendControl(); err != nil {
			return err
		}
	}
	if !out.buf.Held() {
		out.buf = bufpool.Get(max(n, min(out.bound, maxCall)))
	}
	return nil
}

// sendControl takes and seals the control items that are queued.
func (c *Conn) sendControl() error {
	out := &c.out
	out.mu.Lock()
	out.published = out.stats // a long batch shows how far it is
	ahead := out.control
	out.control = items{}
	for it := ahead.first; it != nil; it = it.next {
		it.state = taken
	}
	out.mu.Unlock()
	rest := out.taken.first
	ahead.append(&out.taken) // where sendTaken does not come to them
	out.taken = ahead
	for it := ahead.first; it != rest; it = it.next {
		if err := c.sendItem(it); err != nil {
			return err
		}
	}
	return nil
}

// seal makes the frame of m in the buffer, which has room for its bound.
func (c *Conn) seal(it *item, m outgoing) {
	out := &c.out
	frame, wire := out.encrypt(out.buf.B[out.n:], m)
	header, ciphertext := frame[:headerSize], frame[headerWire:len(frame)-mac.Size]
	headerMAC, frameMAC := out.mac.Both(header, ciphertext)
	putTags(frame, headerMAC, frameMAC)
	c.sealed(it, m, wire, len(frame))
}

// sealed takes note of a frame in the buffer.
func (c *Conn) sealed(it *item, m outgoing, wire, length int) {
	out := &c.out
	out.n += length
	out.frames++
	it.wire += wire
	c.wrote(m, wire, length)
}

// wrote takes note of a frame that has its place in the order of the wire.
func (c *Conn) wrote(m outgoing, wire, length int) {
	c.out.stats.message(m.plain, wire)
	c.out.stats.hashed = c.out.mac.Work()
	c.traceWritten(TraceFrame{m.code, m.plain, wire, length})
}

// copyMax is the payload up to which copying it is cheaper than more calls of
// the cipher, which take 20 to 30 ns each.
const copyMax = 2 << 10

// encrypt makes the frame of m at the start of dst, but for its tags, and returns it and the size
// of the payload in it. dst has room for the bound of m.
func (out *writeHalf) encrypt(dst []byte, m outgoing) (frame []byte, wire int) {
	if !m.compress && len(m.data) > copyMax {
		size := dataSize(m.code, len(m.data))
		frame = dst[:wireLen(size)]
		head := out.encryptHead(frame, m.code, m.data, size)
		out.encryptRest(frame[headerWire+blockSize:len(frame)-mac.Size], m.data[head:])
		return frame, len(m.data)
	}
	// The payload is put into its place, by the encoder if it is to be compressed, and encrypted
	// there.
	body := dst[headerWire:]
	n := len(rlp.AppendUint64(body[:0], m.code))
	if m.compress {
		wire = encode(body[n:], m.data)
	} else {
		wire = copy(body[n:], m.data)
	}
	size := n + wire
	frame = dst[:wireLen(size)]
	clear(frame[headerWire+size:]) // padding, and what the encoder leaves behind its output
	out.encryptWithHeader(frame, size, padded(size))
	return frame, wire
}

// encryptHead makes the header and the first block of frame data, the code and as
// much of the payload as fits, and returns how much that is. It is apart because
// from there on payload and ciphertext are aligned to blocks.
func (out *writeHalf) encryptHead(dst []byte, code uint64, payload []byte, size int) int {
	block := dst[headerWire : headerWire+blockSize]
	n := len(rlp.AppendUint64(block[:0], code))
	head := copy(block[n:], payload) // to the end: what comes here is longer than a block
	out.encryptWithHeader(dst, size, blockSize)
	return head
}

// encryptWithHeader makes the header and encrypts it with the first n bytes of
// frame data that are in dst behind it. In the keystream the two are
// neighbours, so the header is made where its MAC will be.
func (out *writeHalf) encryptWithHeader(dst []byte, size, n int) {
	both := dst[headerSize : headerWire+n]
	putHeader(both, size)
	out.stream.XORKeyStream(both, both)
	copy(dst[:headerSize], both)
}

// putTags completes a frame.
func putTags(frame []byte, headerMAC, frameMAC mac.Tag) {
	copy(frame[headerSize:], headerMAC[:])
	copy(frame[len(frame)-mac.Size:], frameMAC[:])
}

// encryptRest encrypts payload from the caller's slice into dst, which is as long as payload is
// after padding.
func (out *writeHalf) encryptRest(dst, payload []byte) {
	whole := len(payload) &^ (blockSize - 1)
	out.stream.XORKeyStream(dst[:whole], payload[:whole])
	if tail := dst[whole:]; len(tail) > 0 {
		clear(tail[copy(tail, payload[whole:]):])
		out.stream.XORKeyStream(tail, tail)
	}
}

// sendLarge seals and writes a message whose frame may be larger than wholeFrame. A message that
// turns out to have no frame ends it with a SizeError, which is not fatal.
func (c *Conn) sendLarge(it *item, m outgoing) error {
	out := &c.out
	out.bound -= m.bound()
	if m.compress {
		block, n := compress(m.data)
		defer func() { block.Release(n) }()
		m.data, m.compress = block.B[:n], false
	}
	if err := checkFrame(m.code, len(m.data)); err != nil {
		it.err = err
		return nil
	}
	if size := dataSize(m.code, len(m.data)); size > wholeFrame {
		if err := c.flush(); err != nil {
			return err
		}
		if err := c.sendControl(); err != nil {
			return err
		}
		if err := c.flush(); err != nil {
			return err
		}
		return c.sendPieces(it, m, size)
	}
	if err := c.makeRoom(m.bound()); err != nil {
		return err
	}
	c.seal(it, m)
	return nil
}

// sendPieces seals and writes a large frame piece by piece.
func (c *Conn) sendPieces(it *item, m outgoing, size int) error {
	piece := bufpool.Get(pieceSize)
	err := c.sendThrough(piece.B, it, m, size)
	piece.Release(0) // not after a panic: who panicked may still use it
	return err
}

// sendThrough is sendPieces with a buffer for the pieces.
func (c *Conn) sendThrough(piece []byte, it *item, m outgoing, size int) error {
	out := &c.out
	// The first piece has the header and the block that holds the code.
	payload := m.data[out.encryptHead(piece, m.code, m.data, size):]
	headerMAC := out.mac.Header(piece[:headerSize])
	n := headerSize + copy(piece[headerSize:], headerMAC[:])
	out.mac.Absorb(piece[n : n+blockSize])
	n += blockSize
	frames := 0
	for last := false; !last; n = 0 {
		room := (len(piece) - n - blockSize) &^ (blockSize - 1) // but for the frame-mac
		if last = len(payload) <= room; last {
			room = len(payload)
		}
		ciphertext := piece[n : n+padded(room)]
		out.encryptRest(ciphertext, payload[:room])
		payload = payload[room:]
		n += len(ciphertext)
		if last {
			tag := out.mac.Frame(ciphertext)
			n += copy(piece[n:], tag[:])
			frames = 1
			it.wire += len(m.data)
			c.wrote(m, len(m.data), wireLen(size))
		} else {
			out.mac.Absorb(ciphertext)
		}
		if err := c.writeAll(piece[:n], frames); err != nil {
			return err
		}
	}
	return nil
}

// flush writes what is sealed, with one call, and gives the buffer back.
func (c *Conn) flush() error {
	out := &c.out
	if !out.buf.Held() {
		return nil
	}
	err := c.writeAll(out.buf.B[out.sent:out.n], out.frames)
	out.buf.Release(0) // ciphertext only
	out.sent, out.n, out.frames = 0, 0, 0
	return err
}

// tryFlush writes what of the sealed frames goes without waiting. It reports whether that was all.
// What is left stays in the buffer, for flush.
func (c *Conn) tryFlush() (all bool, err error) {
	out := &c.out
	if c.socket == nil {
		return false, nil
	}
	start := c.traceFlush()
	n, err := c.socket.write(out.buf.B[out.sent:out.n])
	if n == 0 && err == nil {
		return false, nil
	}
	out.watchdog.wrote()
	frames := 0
	if out.sent += n; out.sent == out.n {
		frames, out.frames = out.frames, 0
	}
	err = c.flushed(start, frames, n, c.ioError(err))
	if all = out.sent == out.n; all || err != nil {
		out.buf.Release(0)
		out.sent, out.n, out.frames = 0, 0, 0
	}
	return all, err
}

// writeAll makes one call on the net.Conn, for bytes in which so many frames end. Whatever does not
// go through is fatal.
func (c *Conn) writeAll(p []byte, frames int) error {
	start := c.traceFlush()
	c.out.watchdog.begin()
	n, err := c.conn.Write(p)
	c.out.watchdog.end()
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return c.flushed(start, frames, n, c.ioError(err))
}

// flushed takes note of a call on the net.Conn that wrote n bytes.
func (c *Conn) flushed(start time.Time, frames, n int, err error) error {
	c.out.stats.call(n)
	c.traceFlushed(start, frames, n, err)
	return err
}
