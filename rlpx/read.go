package rlpx

import (
	"crypto/cipher"
	"crypto/subtle"
	"sync"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/rlp"
	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/bufpool"
	"github.com/go-rlpx/transport/mac"
)

// openPiece is how much of a frame that comes in pieces is opened at a time
// while the rest is under way: enough for lanes to be shared, little enough to be in
// the CPU's cache still. Smaller frames are opened when they are complete: their
// sender waits, where the connection has no buffer, until all of one is taken.
const openPiece = 32 << 10

// readHalf is the receiving direction. All but limit and published is guarded by
// mu, which a blocked Read holds.
type readHalf struct {
	conn *Conn // whose half it is
	mu   sync.Mutex
	err  error // first fatal error

	// Set when the session starts.
	stream cipher.Stream
	mac    *mac.MAC

	// buf.B[r:w] was received and not yet consumed. Bytes before r may be lent
	// to the caller until the next Read; bytes before dirty may hold plaintext.
	buf         bufpool.Buffer
	r, w, dirty int
	late        error // came together with the last bytes, due when they are used up

	// The frame under way, so that a Read that timed out can be resumed. Its
	// ciphertext starts at r; the first opened bytes of it are absorbed by the MAC and
	// decrypted in place, and shown to nobody before the tag verifies.
	inFrame bool
	size    int
	opened  int
	tagged  bool             // tag is the frame's MAC, computed with the header's
	tag     mac.Tag          // to be compared
	header  [headerSize]byte // plaintext; a field, because arguments of interface methods escape

	plain     bufpool.Buffer // decompressed message lent to the caller
	plainSize int

	limit atomic.Int64 // SetReadLimit

	stats     directionStats // as of now
	published publishedStats // as of the last message or call on the net.Conn; has a lock of its own
}

// fail makes err the permanent error of the direction.
func (in *readHalf) fail(err error) error {
	if in.err == nil {
		in.err = err
		in.conn.traceReadFailed(err)
	}
	in.reclaim()
	in.release()
	return in.err
}

// abandon ends reading when Read gives up in a panic of the net.Conn or a callback, which goes on.
func (in *readHalf) abandon() {
	if in.err == nil {
		in.err = new(PanicError)
	}
	in.buf, in.plain = bufpool.Buffer{}, bufpool.Buffer{} // who panicked may still use them
	in.release()
}

// reclaim takes back the decompressed message that the last Read lent.
func (in *readHalf) reclaim() {
	if in.plain.Held() {
		in.plain.Release(in.plainSize)
	}
}

func (in *readHalf) release() {
	if in.buf.Held() {
		in.buf.Release(in.dirty)
	}
	in.r, in.w, in.dirty = 0, 0, 0
}

// Read returns the next message: its code, its data after decompression, and the
// size that the data had on the wire. data is valid until the next call and
// never nil without an error.
//
// The end of the connection between two frames is io.EOF, inside a frame io.ErrUnexpectedEOF. An
// expired deadline loses nothing: call Read again. If the payload cannot be decompressed or is too
// large, the code is returned with the error.
func (c *Conn) Read() (code uint64, data []byte, wireSize int, err error) {
	if err := c.mustBeEstablished("Read"); err != nil {
		return 0, nil, 0, err
	}
	in := &c.in
	in.mu.Lock()
	clean := false
	defer func() {
		if !clean {
			in.abandon()
		}
		in.mu.Unlock()
	}()
	code, data, wireSize, err = c.read()
	clean = true
	return code, data, wireSize, err
}

// read is Read with in.mu held.
func (c *Conn) read() (code uint64, data []byte, wireSize int, err error) {
	in := &c.in
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
		return code, nil, 0, in.fail(err)
	}
	in.stats.message(len(data), len(payload))
	in.stats.hashed = in.mac.Work()
	in.published.set(in.stats)
	c.traceRead(code, len(data), len(payload))
	return code, data, len(payload), nil
}

// decode gives the data of an authentic payload.
func (c *Conn) decode(code uint64, payload []byte) ([]byte, error) {
	limit := c.messageLimit(code)
	if !c.snappy.Load() {
		if len(payload) > limit {
			return nil, &SizeError{What: "message", Size: len(payload), Limit: limit, Read: true}
		}
		return payload[:len(payload):len(payload)], nil
	}
	size, err := decodedLen(payload)
	if err != nil {
		return nil, newPayloadError(code, payload, err)
	}
	if size > limit {
		return nil, &SizeError{What: "message", Size: size, Limit: limit, Read: true}
	}
	if !plausible(size, len(payload)) {
		return nil, newPayloadError(code, payload, snappy.ErrCorrupt)
	}
	in := &c.in
	in.plain, in.plainSize = bufpool.Get(size), size
	data, err := decompress(in.plain.B[:size:size], payload)
	if err != nil {
		in.reclaim()
		return nil, newPayloadError(code, payload, err)
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
