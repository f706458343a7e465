package rlpx

import (
	"crypto/subtle"
	"io"

	"github.com/ethereum/go-ethereum/rlp"
	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/bufpool"
	"github.com/go-rlpx/transport/mac"
)

const (
	// smallBuffer is all that a connection holds while it waits for a frame.
	smallBuffer = 2 << 10

	// burstBuffer is what a connection reads into once a frame is under way that
	// small buffers have no room for, and the most that a peer can make us
	// hold by announcing a frame.
	burstBuffer = 32 << 10

	// growth is how much larger than what was received of a frame a buffer may
	// be. It bounds the memory that a peer ties up by what it sent, and what is
	// copied on the way to a large buffer. Ten is just what takes the largest
	// frame from a full buffer of 2 MiB to the pool's largest.
	growth = 10

	// openPiece is how much of a frame that comes in pieces is opened at a time
	// while the rest is under way: enough for lanes to be shared, little enough to be in
	// the CPU's cache still. Smaller frames are opened when they are complete: their
	// sender waits, where the connection has no buffer, until all of one is taken.
	openPiece = 32 << 10

	// maxEmptyReads bounds the reads of zero bytes without an error, a fault of the net.Conn.
	maxEmptyReads = 100
)

// Read returns the next message: its code, its data after decompression, and the
// size that the data had on the wire. data is valid until the next call and
// never nil without an error.
//
// The end of the connection between two frames is io.EOF, inside a frame
// io.ErrUnexpectedEOF. An expired deadline loses nothing: call Read again. If the payload cannot be decompressed
// or is too large, the code is returned with the error.
func (c *Conn) Read() (code uint64, data []byte, wireSize int, err error) {
	if err := c.mustBeEstablished("Read"); err != nil {
		return 0, nil, 0, err
	}
	in := &c.in
	in.mu.Lock()
	defer in.mu.Unlock()

	in.reclaim()
	if in.err == nil {
		if err := c.ended(); err != nil {
			in.fail(err)
		}
	}
	if in.err != nil {
		in.release()
		return 0, nil, 0, in.err
	}
	frame, err := c.readFrame()
	if err != nil {
		return 0, nil, 0, err
	}
	code, payload, err := rlp.SplitUint64(frame)
	if err != nil {
		return 0, nil, 0, in.fail(&protocolError{"rlpx: invalid message code", err})
	}
	data, err = c.decode(code, payload)
	if err != nil {
		in.end(err)
		if _, lends := err.(*PayloadError); !lends {
			in.release()
		}
		return code, nil, 0, err
	}
	in.stats.message(len(data), len(payload))
	in.stats.hashed = in.mac.Work()
	in.published.set(in.stats)
	c.traceRead(code, len(data), len(payload))
	return code, data, len(payload), nil
}

// decode gives the data of an authentic payload.
func (c *Conn) decode(code uint64, payload []byte) ([]byte, error) {
	limit := c.cfg.messageLimit(code)
	if !c.snappy.Load() {
		if len(payload) > limit {
			return nil, &SizeError{What: "message", Size: len(payload), Limit: limit, Read: true}
		}
		return payload[:len(payload):len(payload)], nil
	}
	size, err := decodedLen(payload)
	if err != nil {
		return nil, &PayloadError{Code: code, Payload: payload, Err: err}
	}
	if size > limit {
		return nil, &SizeError{What: "message", Size: size, Limit: limit, Read: true}
	}
	if !plausible(size, len(payload)) {
		return nil, &PayloadError{Code: code, Payload: payload, Err: snappy.ErrCorrupt}
	}
	in := &c.in
	in.plain, in.plainSize = bufpool.Get(size), size
	data, err := decompress(in.plain.B[:size:size], payload)
	if err != nil {
		in.reclaim()
		return nil, &PayloadError{Code: code, Payload: payload, Err: err}
	}
	return data, nil
}

// readFrame returns the frame data of the next frame, in the read buffer. Errors
// other than timeouts are made permanent.
func (c *Conn) readFrame() ([]byte, error) {
	in := &c.in
	if !in.inFrame {
		if err := c.readHeader(); err != nil {
			return nil, err
		}
	}
	ciphertext := padded(in.size)
	for in.w-in.r < ciphertext+mac.Size {
		if in.size > wholeFrame {
			in.openArrived(ciphertext)
		}
		if err := c.receive(ciphertext + mac.Size); err != nil {
			return nil, err
		}
	}
	frame := in.buf.B[in.r : in.r+ciphertext]
	rest := frame[in.opened:]
	if !in.tagged {
		in.tag = in.mac.Frame(rest)
	}
	if subtle.ConstantTimeCompare(in.tag[:], in.buf.B[in.r+ciphertext:][:mac.Size]) != 1 {
		return nil, c.unauthentic(errFrameMAC)
	}
	in.stream.XORKeyStream(rest, rest)
	in.r += ciphertext + mac.Size
	in.inFrame = false
	if !c.proven.Load() {
		c.proven.Store(true)
	}
	return frame[:in.size], nil
}

// openArrived absorbs and decrypts what has arrived of a large frame.
func (in *readHalf) openArrived(ciphertext int) {
	arrived := in.buf.B[in.r+in.opened : in.r+min(in.w-in.r, ciphertext)]
	if len(arrived) < openPiece {
		return
	}
	in.mac.Absorb(arrived)
	in.stream.XORKeyStream(arrived, arrived)
	in.opened += len(arrived)
}

// readHeader reads and verifies the next header and starts its frame.
func (c *Conn) readHeader() error {
	in := &c.in
	for in.w-in.r < headerWire {
		if err := c.receive(headerWire); err != nil {
			return err
		}
	}
	header := in.buf.B[in.r : in.r+headerSize]
	in.stream.XORKeyStream(in.header[:], header)
	size := frameSize(in.header[:])

	// If all of the frame that the header speaks of is there, both tags are
	// computed together. Nothing depends on the size before the first one verifies.
	var want mac.Tag
	if in.tagged = in.w-in.r >= wireLen(size); in.tagged {
		want, in.tag = in.mac.Both(header, in.buf.B[in.r+headerWire:][:padded(size)])
	} else {
		want = in.mac.Header(header)
	}
	if subtle.ConstantTimeCompare(want[:], in.buf.B[in.r+headerSize:][:mac.Size]) != 1 {
		return c.unauthentic(errHeaderMAC)
	}
	if size == 0 {
		return in.fail(errZeroFrame)
	}
	if limit := c.frameLimit(); size > limit {
		return in.fail(&SizeError{What: "frame", Size: size, Limit: limit, Read: true})
	}
	in.r += headerWire
	in.inFrame, in.size, in.opened = true, size, 0
	return nil
}

// frameLimit is the largest frame data that is worth reading.
func (c *Conn) frameLimit() int {
	limit := maxUint24
	if l := int(c.in.limit.Load()); l > 0 {
		limit = min(limit, l)
	}
	if plain := c.cfg.maxMessageSize(); plain < maxUint24 {
		limit = min(limit, maxFrameFor(plain, c.snappy.Load()))
	}
	return limit
}

func (c *Conn) unauthentic(err error) error {
	c.abort(err)
	return c.in.fail(c.ended())
}

// receive makes one call on the net.Conn, into a buffer that suits need
// unconsumed bytes. It returns nil if bytes came.
func (c *Conn) receive(need int) error {
	in := &c.in
	for range maxEmptyReads {
		if err := in.late; err != nil {
			in.late = nil
			return c.readError(err)
		}
		in.makeRoom(need)
		n, err := c.conn.Read(in.buf.B[in.w:])
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

// makeRoom provides space after w, in a buffer of the size that the moment asks
// for: small between frames, and within one as large as it needs, but no larger than what came of it allows.
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
