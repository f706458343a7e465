package rlpx

import (
	"io"

	"github.com/go-rlpx/transport/internal/bufpool"
)

// How bytes arrive, and in which buffers. In five lines:
//
//	waiting for a frame     no buffer, if the net.Conn is a socket that can wait without one; else smallBuffer
//	bytes are there         one call takes up to arrivalBuffer of them from a socket, and smallBuffer from others
//	a frame is under way    a buffer for the whole frame, at least burstBuffer,
//	                        but at most growth times what came of the frame, so that a peer pays for it
//	all is consumed         the buffer goes back when the next Read finds nothing to read
const (
	smallBuffer   = 2 << 10
	arrivalBuffer = 64 << 10

	// burstBuffer is also the most that a peer can make us hold by announcing a frame.
	burstBuffer = 32 << 10

	// growth bounds, too, what is copied on the way to a large buffer. Ten takes the
	// largest frame from 64 KiB to its size in three steps.
	growth = 10

	// maxEmptyReads bounds the reads of zero bytes without an error, a fault of the net.Conn.
	maxEmptyReads = 100
)

// receive makes one call on the net.Conn, into a buffer that suits need
// unconsumed bytes. It returns nil if bytes came.
func (c *Conn) receive(need int) error {
	in := &c.in
	for range maxEmptyReads {
		if err := in.late; err != nil { // which is permanent
			return c.readError(err)
		}
		var n int
		var err error
		if c.socket != nil && !in.inFrame && in.w == in.r {
			n, err = c.socket.read(in)
		} else {
			in.makeRoom(need)
			n, err = c.conn.Read(in.buf.B[in.w:])
		}
		in.w += n
		in.dirty = max(in.dirty, in.w)
		in.stats.call(n)
		in.published.set(in.stats)
		if n > 0 {
			if err != nil && !isTimeout(err) {
				in.late = err
			}
			return nil
		}
		if err != nil {
			return c.readError(err)
		}
	}
	return c.readError(io.ErrNoProgress)
}

// readError makes an error of the net.Conn permanent unless it is a timeout.
func (c *Conn) readError(err error) error {
	if ended := c.ended(); ended != nil {
		return c.in.fail(ended)
	}
	if isTimeout(err) {
		return err
	}
	if err == io.EOF && (c.in.inFrame || c.in.w > c.in.r) {
		err = io.ErrUnexpectedEOF
	}
	return c.in.fail(err)
}

// forArrival provides an empty buffer for what a socket has. A buffer that is held is as good.
func (in *readHalf) forArrival() []byte {
	if in.buf.Held() && len(in.buf.B) > arrivalBuffer {
		in.release() // a peer that sends little now must not pin it
	}
	if !in.buf.Held() {
		in.buf = bufpool.Get(arrivalBuffer)
	}
	in.r, in.w = 0, 0
	return in.buf.B
}

// makeRoom provides space after w.
func (in *readHalf) makeRoom(need int) {
	have := in.w - in.r
	if have == 0 && !in.inFrame {
		if len(in.buf.B) != smallBuffer {
			in.moveTo(smallBuffer)
		}
		in.r, in.w = 0, 0
		return
	}
	size := bufpool.ClassSize(max(need, burstBuffer))
	for allowed := max(growth*have, burstBuffer); size > allowed; {
		size = bufpool.Smaller(size)
	}
	switch held := len(in.buf.B); {
	case held > size:
		// It was for an earlier frame. A peer that stalls now must not pin it.
		in.moveTo(size)
	case in.r+need <= held:
	case held < size && (in.w == held || have <= smallBuffer):
		in.moveTo(size)
	case in.r > 0:
		in.w = copy(in.buf.B, in.buf.B[in.r:in.w])
		in.r = 0
	}
}

// moveTo moves what is not consumed to a buffer of the given size.
func (in *readHalf) moveTo(size int) {
	next := bufpool.Get(size)
	n := copy(next.B, in.buf.B[in.r:in.w])
	in.release()
	in.buf, in.w, in.dirty = next, n, n
}
