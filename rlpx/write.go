package rlpx

import (
	"io"

	"github.com/go-rlpx/transport/internal/bufpool"
)

const (
	// wholeFrame is the largest frame data that is sealed in one piece and
	// written with one call: a 1 MiB message and its code. Larger frames are
	// written while they are sealed, so that the peer can start to work on them
	// and no buffer of their size is needed.
	wholeFrame = 1<<20 + blockSize

	// pieceSize is how much of a larger frame is sealed before it is written:
	// small enough for the CPU's cache, large enough that calls do not count.
	pieceSize = 256 << 10

	// maxPending bounds the frames that wait for a call under way, unless it is
	// one larger frame. Beyond it writers wait without a buffer, so that what a
	// stalled peer ties up is this and the call under way, however many write to it.
	maxPending = 256 << 10
)

// Write sends a message. It returns the size of the payload on the wire, after
// compression and without the code. data is neither kept nor modified.
//
// A message that is too large is refused with a [SizeError] and changes
// nothing. Any other error is permanent. Write may be called by several
// goroutines at once; messages go out whole.
func (c *Conn) Write(code uint64, data []byte) (wireSize uint32, err error) {
	if err := c.mustBeEstablished("Write"); err != nil {
		return 0, err
	}
	return c.write(&outgoing{code: code, plain: data, compress: c.snappy.Load()})
}

// outgoing is a message on its way out.
type outgoing struct {
	code     uint64
	plain    []byte
	payload  []byte // as it goes on the wire
	compress bool   // payload is to be made from plain

	block bufpool.Buffer // behind payload, if that was made here
}

// prepare sets payload and returns the size of the frame data.
func (m *outgoing) prepare() (size int, err error) {
	if len(m.plain) > maxUint24 {
		return 0, &SizeError{What: "message", Size: len(m.plain), Limit: maxUint24}
	}
	if m.compress {
		var n int
		m.block, n = compress(m.plain)
		m.payload = m.block.B[:n]
	} else if m.payload == nil {
		m.payload = m.plain
	}
	if err := checkFrame(m.code, len(m.payload)); err != nil {
		m.release()
		return 0, err
	}
	return dataSize(m.code, len(m.payload)), nil
}

// release gives back what prepare took.
func (m *outgoing) release() {
	if m.block.Held() {
		m.block.Release(len(m.payload))
		m.payload = nil
	}
}

// write sends m, and returns the size of its payload.
func (c *Conn) write(m *outgoing) (wireSize uint32, err error) {
	size, err := m.prepare()
	if err != nil {
		return 0, err
	}
	out := &c.out
	out.mu.Lock()
	defer out.mu.Unlock()

	turn := size > wholeFrame || out.taken || out.full(wireLen(size))
	if turn {
		if err := c.takeTurn(m, size); err != nil {
			m.release()
			return 0, err
		}
	}
	var batch uint64
	wire := len(m.payload)
	if size > wholeFrame {
		err = c.writePieces(m, size)
	} else {
		batch, err = c.enqueue(m, size)
	}
	if turn {
		out.give()
	}
	m.release() // sealed, or refused
	if err == nil && size <= wholeFrame {
		err = c.flush(batch)
	}
	if err == nil {
		out.stats.message(len(m.plain), wire)
		out.published.set(out.stats)
	}
	return uint32(wire), err
}

// takeTurn takes out for m, which waits until there is room for its frame. What
// waits holds no buffer: a stalled peer must not tie up one for every writer.
func (c *Conn) takeTurn(m *outgoing, size int) error {
	out := &c.out
	if !out.taken && !out.full(wireLen(size)) {
		out.take()
		return nil
	}
	m.release()
	out.take()
	for out.full(wireLen(size)) {
		out.wait()
	}
	if m.compress && c.writable() == nil {
		out.mu.Unlock()
		_, err := m.prepare() // as before
		out.mu.Lock()
		if err != nil {
			out.give()
			return err
		}
	}
	if err := c.writable(); err != nil {
		out.give()
		return err
	}
	return nil
}

// enqueue seals the frame of m, prepared, into pending and returns its batch. It is called with
// out.mu held.
func (c *Conn) enqueue(m *outgoing, size int) (batch uint64, err error) {
	if err := c.writable(); err != nil {
		return 0, err
	}
	out := &c.out
	length := wireLen(size)
	out.reserve(length)
	out.seal(out.pending.B[out.n:out.n+length], m.code, m.payload, size)
	out.n += length
	c.enqueued(m, length)
	return out.batch, nil
}

// enqueued takes note of a frame of m in pending. It is called with out.mu held.
func (c *Conn) enqueued(m *outgoing, length int) {
	out := &c.out
	out.frames++
	out.stats.hashed = out.mac.Work()
	c.traceWritten(m, length)
}

// writable returns the error that ended writing, if any. It is called with out.mu held.
func (c *Conn) writable() error {
	if c.out.err == nil {
		if err := c.ended(); err != nil {
			c.out.fail(err)
		}
	}
	return c.out.err
}

// flush returns when the given batch of frames is written. The first writer
// that finds nobody writing writes for all. It is called with out.mu held and gives it
// up during the call on the net.Conn.
func (c *Conn) flush(batch uint64) error {
	out := &c.out
	for out.done <= batch {
		if out.err != nil {
			return out.err
		}
		if out.flushing {
			out.wait()
			continue
		}
		buf, n, frames := out.pending, out.n, out.frames
		out.pending, out.n, out.frames = bufpool.Buffer{}, 0, 0
		out.batch++
		out.flushing = true
		out.mu.Unlock()

		n, err := c.writeAll(buf.B[:n], frames)
		buf.Release(0) // ciphertext only

		out.mu.Lock()
		out.stats.call(n)
		out.flushing = false
		if err != nil {
			out.fail(err)
		} else {
			out.done++
		}
		if out.waiters > 0 {
			out.cond.Broadcast()
		}
	}
	return nil
}

// drain returns when nothing is pending and nobody is flushing. It is called by
// the writer that has taken out, with out.mu held, and until it gives it stays so.
func (c *Conn) drain() error {
	out := &c.out
	for {
		if err := c.writable(); err != nil {
			return err
		}
		switch {
		case out.flushing:
			out.wait()
		case out.n > 0:
			if err := c.flush(out.batch); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// writePieces seals and writes a large frame piece by piece. It is called by the
// writer that has taken out, with out.mu held, and gives that up meanwhile.
func (c *Conn) writePieces(m *outgoing, size int) error {
	if err := c.drain(); err != nil {
		return err
	}
	out := &c.out
	out.mu.Unlock()
	sent, err := c.sendPieces(m, size)
	out.mu.Lock()
	out.stats.add(sent)
	out.stats.hashed = out.mac.Work()
	if err != nil {
		out.fail(err)
	}
	return out.err
}

// sendPieces is called by the writer that has taken out, without out.mu and with nothing pending.
func (c *Conn) sendPieces(m *outgoing, size int) (sent directionStats, err error) {
	out := &c.out
	piece := bufpool.Get(pieceSize)
	defer piece.Release(0)

	// The first piece has the header and the block that holds the code.
	payload := m.payload[out.encryptHead(piece.B, m.code, m.payload, size):]
	headerMAC := out.mac.Header(piece.B[:headerSize])
	n := headerSize + copy(piece.B[headerSize:], headerMAC[:])
	out.mac.Absorb(piece.B[n : n+blockSize])
	n += blockSize
	frames := 0
	for last := false; !last; n = 0 {
		room := (len(piece.B) - n - blockSize) &^ (blockSize - 1) // but for the frame-mac
		if last = len(payload) <= room; last {
			room = len(payload)
		}
		ciphertext := piece.B[n : n+padded(room)]
		out.encryptRest(ciphertext, payload[:room])
		payload = payload[room:]
		n += len(ciphertext)
		if last {
			tag := out.mac.Frame(ciphertext)
			n += copy(piece.B[n:], tag[:])
			frames = 1
			c.traceWritten(m, wireLen(size))
		} else {
			out.mac.Absorb(ciphertext)
		}
		n, err := c.writeAll(piece.B[:n], frames)
		sent.call(n)
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// writeAll makes one call on the net.Conn, for bytes in which so many frames end. Whatever does not go through is fatal.
func (c *Conn) writeAll(p []byte, frames int) (n int, err error) {
	start := c.traceFlush()
	n, err = c.conn.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	err = c.ioError(err)
	c.traceFlushed(start, frames, n, err)
	return n, err
}
