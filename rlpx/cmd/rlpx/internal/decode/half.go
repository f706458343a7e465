package decode

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"fmt"

	"golang.org/x/crypto/sha3"

	"github.com/go-rlpx/transport/internal/bufpool"
	"github.com/go-rlpx/transport/mac"
	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capture"
	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/keylog"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// The layout of a frame (rlpx.md, "Framing"): header, its MAC, frame data padded to the cipher's
// block, its MAC.
const (
	headerSize = 16
	headerWire = headerSize + mac.Size
	blockSize  = 16
)

// half is one direction of a connection.
type half struct {
	c     *connection
	dir   capture.Direction
	at    capture.Point // of the bytes that came last
	ended bool          // nothing more is decoded

	packet []byte // the handshake packet, as far as it is there
	whole  bool   // it is there in full
	frames bool   // and the secrets are known

	stream cipher.Stream
	mac    *mac.MAC
	offset uint64 // of the frame under way, in bytes of the direction
	number int    // of the frame under way, counted from 1

	// The frame under way. Of its body, got bytes are there; first its ciphertext, then its MAC.
	header [headerWire]byte
	nhead  int
	size   int // of the frame data
	got    int
	buf    bufpool.Buffer // the plaintext
	lack   bool           // no room for it: only prefix is kept
	prefix [maxPrefix]byte
	tag    mac.Tag
	sum    mac.Tag

	hello   *p2p.Hello
	greeted bool // the first message was there

	// What waits for the other side.
	stuck   *frame
	pending []byte
}

// begin makes the direction ready for frames. Its MAC is seeded with the nonce of the other side
// and its own handshake packet.
func (h *half) begin(keys *keylog.Session, nonce *[keylog.FieldSize]byte) {
	block, err := aes.NewCipher(keys.AES[:])
	if err != nil {
		panic(err) // 32 bytes are a key
	}
	macBlock, err := aes.NewCipher(keys.MAC[:])
	if err != nil {
		panic(err)
	}
	var iv [blockSize]byte
	h.stream = cipher.NewCTR(block, iv[:])
	var seed [keylog.FieldSize]byte
	subtle.XORBytes(seed[:], keys.MAC[:], nonce[:])
	state := sha3.NewLegacyKeccak256()
	state.Write(seed[:])
	state.Write(h.packet)
	h.mac = mac.New(macBlock, state)
	h.offset, h.number = uint64(len(h.packet)), 1
	h.frames = true
}

// end ends the direction. What it holds is given back.
func (h *half) end() {
	h.ended = true
	h.release()
	h.c.d.held -= len(h.pending)
	h.pending = nil
	if h.stuck != nil {
		h.c.d.held -= len(h.stuck.data)
		h.stuck = nil
	}
}

func (h *half) release() {
	if h.buf.Held() {
		h.c.d.held -= len(h.buf.B)
		h.buf.Release(0)
	}
}

func (h *half) other() *half { return &h.c.halves[h.dir.Reverse()] }

// inFrame reports whether a part of a frame is there.
func (h *half) inFrame() bool { return h.frames && h.nhead > 0 }

// waits reports whether the direction depends on something of the other one.
func (h *half) waits() bool {
	return h.stuck != nil || h.dir == capture.FromServer && !h.c.auth
}

// feed takes the next bytes.
func (h *half) feed(p []byte) {
	for len(p) > 0 && !h.ended && !h.c.Done() {
		switch {
		case h.waits():
			h.delay(p)
			return
		case h.whole && !h.frames:
			return // no secrets for it
		case !h.whole:
			p = h.takePacket(p)
		case h.nhead < headerWire:
			n := copy(h.header[h.nhead:], p)
			p = p[n:]
			if h.nhead += n; h.nhead == headerWire {
				h.openHeader()
			}
		default:
			p = h.takeBody(p)
		}
	}
}

// delay keeps bytes until the other direction has caught up.
func (h *half) delay(p []byte) {
	if len(h.pending)+len(p) <= maxPending && h.c.d.hold(len(p)) {
		h.pending = append(h.pending, p...)
		return
	}
	if h.stuck == nil {
		h.c.isForeign() // who listens speaks first, and at length
		return
	}
	h.force()
	h.feed(p)
}

// force makes the direction go on without the Hello that it waits for.
func (h *half) force() {
	other := h.other()
	other.greeted = true
	h.c.note(Breach, "there is no Hello of this direction in time: what the other one sends is listed without capabilities", other)
	for h.resume() {
	}
}

// resume goes on with what waited, and reports whether it did.
func (h *half) resume() bool {
	switch f := h.stuck; {
	case f == nil && len(h.pending) == 0:
		return false
	case f != nil && h.mustWait():
		return false
	case f != nil:
		h.stuck = nil
		h.c.d.held -= len(f.data)
		h.message(f)
	case h.waits():
		return false
	}
	p := h.pending
	h.pending = nil
	h.c.d.held -= len(p)
	h.feed(p)
	return true
}

// takePacket takes bytes of the handshake packet and returns the rest.
func (h *half) takePacket(p []byte) []byte {
	for len(p) > 0 {
		want := sizePrefix + 1
		if len(h.packet) >= want {
			want = packetSize(h.packet)
		}
		n := min(want-len(h.packet), len(p))
		h.packet = append(h.packet, p[:n]...)
		p = p[n:]
		if !checkPrefix(h.packet) {
			h.c.isForeign()
			return nil
		}
		if len(h.packet) > sizePrefix && len(h.packet) == packetSize(h.packet) {
			h.whole = true
			h.c.packetDone(h)
			return p
		}
	}
	return p
}

// openHeader verifies and decrypts a header.
func (h *half) openHeader() {
	ct := h.header[:headerSize]
	tag := h.mac.Header(ct)
	if subtle.ConstantTimeCompare(tag[:], h.header[headerSize:]) != 1 {
		h.badMAC("header")
		return
	}
	h.stream.XORKeyStream(ct, ct)
	if h.number == 1 && !plausibleHeader(ct) {
		h.c.damaged(h)
		h.end()
		h.c.note(BadMAC, fmt.Sprintf("the first header does not decrypt, although its MAC is right: line %d of the key log has a wrong aes-secret", h.c.keys.Line), h)
		return
	}
	h.size, h.got, h.lack = int(ct[0])<<16|int(ct[1])<<8|int(ct[2]), 0, false
	if h.size == 0 {
		h.c.note(Breach, fmt.Sprintf("frame %d at byte %d announces no data, which no client accepts: this direction ends here", h.number, h.offset), h)
		h.end()
	}
}

// plausibleHeader reports whether some client would write such a header. Whatever follows the size
// is to be ignored, and clients differ in it, but none fills it: a list of two zeros or less comes
// first, and zeros after it.
func plausibleHeader(h []byte) bool {
	return [headerSize - 6]byte(h[6:]) == [headerSize - 6]byte{} || [3]byte(h[3:]) == [3]byte{0xc2, 0x80, 0x80}
}

func (h *half) badMAC(which string) {
	text := fmt.Sprintf("bad %s MAC in frame %d at byte %d of this direction (packet %d): ", which, h.number, h.offset, h.at.Packet)
	if h.number == 1 {
		text += fmt.Sprintf("line %d of the key log has wrong secrets for this session, or the capture was changed", h.c.keys.Line)
	} else {
		text += "the stream was damaged or changed on the way. This direction ends here"
	}
	h.c.damaged(h)
	h.end()
	h.c.note(BadMAC, text, h)
}

// padded is the size of the ciphertext of the frame under way.
func (h *half) padded() int { return (h.size + blockSize - 1) &^ (blockSize - 1) }

// takeBody takes bytes of what follows the header, and returns the rest.
func (h *half) takeBody(p []byte) []byte {
	padded := h.padded()
	if n := min(padded-h.got, len(p)); n > 0 {
		ct := p[:n]
		p = p[n:]
		h.mac.Absorb(ct)
		h.decrypt(ct)
		h.got += n
	}
	if h.got < padded {
		return p
	}
	n := copy(h.tag[h.got-padded:], p)
	p = p[n:]
	if h.got += n; h.got < padded+mac.Size {
		return p
	}
	h.sum = h.mac.Frame(nil)
	if subtle.ConstantTimeCompare(h.sum[:], h.tag[:]) != 1 {
		h.badMAC("frame")
		return nil
	}
	f := frame{size: h.size, at: h.at}
	if h.lack {
		f.data = h.prefix[:min(h.size, maxPrefix)]
	} else {
		f.data = h.buf.B[:h.size]
	}
	h.nhead = 0
	if f.code() != p2p.DisconnectCode && h.mustWait() {
		h.hold(&f)
	} else {
		h.message(&f)
	}
	h.release()
	h.offset += uint64(headerWire + padded + mac.Size)
	h.number++
	return p
}

// decrypt decrypts the next part of the body.
func (h *half) decrypt(ct []byte) {
	if !h.lack && h.room(h.got+len(ct)) {
		h.stream.XORKeyStream(h.buf.B[h.got:], ct)
		return
	}
	scratch := h.c.d.scratch
	for at := h.got; len(ct) > 0; {
		n := min(len(ct), len(scratch))
		h.stream.XORKeyStream(scratch[:n], ct[:n])
		if at < maxPrefix {
			copy(h.prefix[at:], scratch[:n])
		}
		at += n
		ct = ct[n:]
	}
}

// room makes room for n bytes of plaintext, or reports that there is none. The buffer grows with
// what came, at most twice as far as that.
func (h *half) room(n int) bool {
	if h.buf.Held() && len(h.buf.B) >= n {
		return true
	}
	size := bufpool.ClassSize(min(max(n, 2*len(h.buf.B)), h.padded()))
	if !h.c.d.hold(size) {
		copy(h.prefix[:], h.buf.B[:min(h.got, len(h.buf.B))])
		h.lack = true
		h.release()
		h.c.d.stats.Dropped++
		return false
	}
	old := h.buf
	h.buf = bufpool.Get(size)
	if old.Held() {
		copy(h.buf.B, old.B[:h.got])
		h.c.d.held -= len(old.B)
		old.Release(0)
	}
	return true
}
