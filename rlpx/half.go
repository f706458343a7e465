package rlpx

import (
	"crypto/cipher"
	"sync"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/rlp"

	"github.com/go-rlpx/transport/internal/bufpool"
	"github.com/go-rlpx/transport/mac"
)

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
	in.end(err)
	in.reclaim()
	in.release()
	return in.err
}

// end is fail, but what was lent stays lent.
func (in *readHalf) end(err error) {
	if in.err == nil {
		in.err = err
		in.conn.traceReadFailed(err)
	}
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

// writeHalf is the sending direction. A frame is sealed into pending under mu;
// whoever finds nobody flushing then writes all of pending without mu.
type writeHalf struct {
	conn    *Conn      // whose half it is
	mu      sync.Mutex // never held during a call on the net.Conn
	cond    sync.Cond  // L is &mu; signals that flushing ended
	waiters int
	err     error // first fatal error

	// Set when the session starts.
	stream cipher.Stream
	mac    *mac.MAC

	pending  bufpool.Buffer // sealed frames in pending.B[:n], all of batch number batch
	n        int
	frames   int // in pending
	batch    uint64
	flushing bool
	done     uint64 // batches before this number are written

	stats     directionStats // as of now
	published publishedStats // as of the last message

	// taken says that one writer keeps all others from sealing: it has a large frame or
	// several to send, or waits for room and is the next. It needs no mu to seal meanwhile.
	// It goes round in the order of asking, or writers that never pause would keep others waiting for ever.
	taken  bool
	handed sync.Cond // L is &mu; signals that the longest waiter has taken over
	queued int       // waiters for handed
}

// fail makes err the permanent error of the direction and drops what was not written.
func (out *writeHalf) fail(err error) {
	if out.err == nil {
		out.err = err
		out.conn.traceWriteFailed(err)
	}
	if out.pending.Held() {
		out.pending.Release(0)
	}
	out.n, out.frames = 0, 0
	if out.waiters > 0 {
		out.cond.Broadcast()
	}
}

func (out *writeHalf) wait() {
	out.waiters++
	out.cond.Wait()
	out.waiters--
}

// take waits for its turn to keep all others from sealing, until give.
func (out *writeHalf) take() {
	if !out.taken {
		out.taken = true
		return
	}
	out.queued++
	out.handed.Wait() // wakes in the order of Wait, and only when signalled
}

func (out *writeHalf) give() {
	if out.queued > 0 {
		out.queued-- // and it stays taken
		out.handed.Signal()
		return
	}
	out.taken = false
}

// full reports whether n more bytes are to wait until what is pending is on its way.
func (out *writeHalf) full(n int) bool {
	return out.flushing && out.n > 0 && out.n+n > maxPending && out.err == nil
}

// reserve makes room for n more bytes in pending.
func (out *writeHalf) reserve(n int) {
	switch {
	case !out.pending.Held():
		out.pending = bufpool.Get(n)
	case len(out.pending.B)-out.n < n:
		larger := bufpool.Get(out.n + n)
		copy(larger.B, out.pending.B[:out.n])
		out.pending.Release(0)
		out.pending = larger
	}
}

// seal makes the whole frame of a message in dst, wireLen(size) bytes.
func (out *writeHalf) seal(dst []byte, code uint64, payload []byte, size int) {
	header, body := out.encrypt(dst, code, payload, size)
	headerMAC, frameMAC := out.mac.Both(header, body)
	putTags(dst, headerMAC, frameMAC)
}

// copyMax is the payload up to which copying it is cheaper than more calls of
// the cipher, which take 20 to 30 ns each.
const copyMax = 2 << 10

// encrypt makes the frame in dst except for its tags, and returns the two
// ciphertexts that they are made from.
func (out *writeHalf) encrypt(dst []byte, code uint64, payload []byte, size int) (header, body []byte) {
	body = dst[headerWire : headerWire+padded(size)]
	if len(payload) > copyMax {
		head := out.encryptHead(dst, code, payload, size)
		out.encryptRest(body[blockSize:], payload[head:])
	} else {
		n := len(rlp.AppendUint64(body[:0], code))
		clear(body[n+copy(body[n:], payload):])
		out.encryptWithHeader(dst, size, len(body))
	}
	return dst[:headerSize], body
}

// encryptHead makes the header and the first block of frame data, the code and as
// much of the payload as fits, and returns how much that is. It is apart because
// from there on payload and ciphertext are aligned to blocks.
func (out *writeHalf) encryptHead(dst []byte, code uint64, payload []byte, size int) int {
	block := dst[headerWire : headerWire+blockSize]
	n := len(rlp.AppendUint64(block[:0], code))
	head := copy(block[n:], payload)
	clear(block[n+head:])
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

// putTags completes a frame that encrypt made in dst, which is just as long.
func putTags(dst []byte, headerMAC, frameMAC mac.Tag) {
	copy(dst[headerSize:], headerMAC[:])
	copy(dst[len(dst)-mac.Size:], frameMAC[:])
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
