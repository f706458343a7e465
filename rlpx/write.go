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

	// maxPending bounds the frames that wait for a call under way. Beyond it writers wait
	// before they seal, so that a stalled peer costs no more than this.
	maxPending = 256 << 10
)

// Write sends a message. It returns the size of the payload on the wire, after
// compression and without the code. data is neither kept nor modified.
//
// A message that is too large is refused with a [SizeError] and changes
// nothing. Any other error is permanent. Write may be called by several
// goroutines at once; messages go out whole, in the order in which they got hold of the connection.
func (c *Conn) Write(code uint64, data []byte) (wireSize uint32, err error) {
	if err := c.mustBeEstablished("Write"); err != nil {
		return 0, err
	}
	if len(data) > maxUint24 {
		return 0, &SizeError{What: "message", Size: len(data), Limit: maxUint24}
	}
	if !c.snappy.Load() {
		return c.writeFrame(code, data, len(data))
	}
	block, n := compress(data)
	wireSize, err = c.writeFrame(code, block.B[:n], len(data))
	block.Release(n)
	return wireSize, err
}

// writeFrame sends the frame of a message whose payload is as it goes on the
// wire and was plain bytes before compression.
func (c *Conn) writeFrame(code uint64, payload []byte, plain int) (uint32, error) {
	if err := checkFrame(code, len(payload)); err != nil {
		return 0, err
	}
	size := dataSize(code, len(payload))
	out := &c.out
	out.mu.Lock()
	defer out.mu.Unlock()

	var err error
	if size > wholeFrame {
		out.take()
		err = c.writePieces(code, payload, size)
		out.give()
	} else {
		wait := out.taken || out.full(wireLen(size))
		if wait {
			out.take()
			for out.full(wireLen(size)) {
				out.wait()
			}
		}
		var batch uint64
		batch, err = c.enqueue(code, payload, size)
		if wait {
			out.give()
		}
		if err == nil {
			err = c.flush(batch)
		}
	}
	if err == nil {
		out.stats.message(plain, len(payload))
	}
	return uint32(len(payload)), err
}

// enqueue seals a frame into pending and returns its batch. It is called with
// out.mu held.
func (c *Conn) enqueue(code uint64, payload []byte, size int) (batch uint64, err error) {
	if err := c.writable(); err != nil {
		return 0, err
	}
	out := &c.out
	length := wireLen(size)
	out.reserve(length)
	out.seal(out.pending.B[out.n:out.n+length], code, payload, size)
	out.n += length
	return out.batch, nil
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
		buf, n := out.pending, out.n
		out.pending, out.n = bufpool.Buffer{}, 0
		out.batch++
		out.flushing = true
		out.mu.Unlock()

		n, err := c.writeAll(buf.B[:n])
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
func (c *Conn) writePieces(code uint64, payload []byte, size int) error {
	if err := c.drain(); err != nil {
		return err
	}
	out := &c.out
	out.mu.Unlock()
	sent, err := c.sendPieces(code, payload, size)
	out.mu.Lock()
	out.stats.add(sent)
	if err != nil {
		out.fail(err)
	}
	return out.err
}

// sendPieces is called by the writer that has taken out, without out.mu and with nothing pending.
func (c *Conn) sendPieces(code uint64, payload []byte, size int) (sent directionStats, err error) {
	out := &c.out
	piece := bufpool.Get(pieceSize)
	defer piece.Release(0)

	// The first piece has the header and the block that holds the code.
	payload = payload[out.encryptHead(piece.B, code, payload, size):]
	headerMAC := out.mac.Header(piece.B[:headerSize])
	n := headerSize + copy(piece.B[headerSize:], headerMAC[:])
	out.mac.Absorb(piece.B[n : n+blockSize])
	n += blockSize
	for last := false; !last; n = 0 {
		take := (len(piece.B) - n - blockSize) &^ (blockSize - 1) // leave room for the frame-mac
		if last = len(payload) <= take; last {
			take = len(payload)
		}
		ciphertext := piece.B[n : n+padded(take)]
		out.encryptRest(ciphertext, payload[:take])
		payload = payload[take:]
		n += len(ciphertext)
		if last {
			tag := out.mac.Frame(ciphertext)
			n += copy(piece.B[n:], tag[:])
		} else {
			out.mac.Absorb(ciphertext)
		}
		n, err := c.writeAll(piece.B[:n])
		sent.call(n)
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// writeAll makes one call on the net.Conn. Whatever does not go through is fatal.
func (c *Conn) writeAll(p []byte) (n int, err error) {
	n, err = c.conn.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, c.ioError(err)
}
