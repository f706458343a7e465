package decode

import (
	"fmt"

	"github.com/ethereum/go-ethereum/rlp"
	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/mac"
	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capture"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

const (
	// maxMessage bounds a message before compression (EIP-706).
	maxMessage = 1<<24 - 1

	// No element of a snappy block makes more than 64 bytes of 3. What declares more is corrupt,
	// and no memory is found for it.
	maxCopy     = 64
	maxCopyCost = 3
)

// frame is a verified frame.
type frame struct {
	data []byte // its data, or the first maxPrefix bytes of it
	size int    // of its data
	at   capture.Point
}

// code returns the message code, or one that no message of the base protocol has if there is none.
func (f *frame) code() uint64 {
	code, _, err := rlp.SplitUint64(f.data)
	if err != nil {
		return p2p.BaseLength
	}
	return code
}

// mustWait reports whether what a message means depends on a Hello of the other side that may still
// come.
func (h *half) mustWait() bool {
	other := h.other()
	return h.greeted && !other.greeted && !other.ended && !h.c.closing
}

// hold keeps a frame until the other side's Hello.
func (h *half) hold(f *frame) {
	kept := *f
	if !h.c.d.hold(len(f.data)) {
		kept.data = f.data[:min(len(f.data), maxPrefix)]
		h.c.d.held += len(kept.data) // bounded by the number of connections
		h.c.d.stats.Dropped++
	}
	kept.data = append([]byte(nil), kept.data...)
	h.stuck = &kept
}

// message decodes a frame and gives it to the Sink.
func (h *half) message(f *frame) {
	c := h.c
	m := &Message{
		Session:   c.session,
		Direction: h.dir,
		At:        f.at,
		Frame:     headerWire + (f.size+blockSize-1)&^(blockSize-1) + mac.Size,
	}
	first := !h.greeted
	h.greeted = true
	code, payload, err := rlp.SplitUint64(f.data)
	if err != nil {
		m.Wire, m.Plain = f.size, f.size
		m.Problem = "it does not begin with a message code"
	} else {
		m.Code = code
		m.Wire = f.size - (len(f.data) - len(payload))
		h.decode(m, payload, len(payload) == m.Wire, first)
	}
	s := c.session
	s.Messages[h.dir]++
	s.Plain[h.dir] += int64(m.Plain)
	s.Wire[h.dir] += int64(m.Wire)
	c.d.stats.Messages++
	c.d.stats.Plain += int64(m.Plain)
	c.d.stats.Wire += int64(m.Wire)
	c.d.sink.Message(m)
}

// decode fills in what follows from the payload as it travelled, which may be there in part only,
// and from the place of the message in its direction.
func (h *half) decode(m *Message, payload []byte, whole, first bool) {
	m.Plain = m.Wire
	if m.Code < p2p.BaseLength {
		m.Cap, m.ID, m.Name = p2p.Cap{Name: "p2p"}, m.Code, baseNames[m.Code]
	}
	switch {
	case m.Code == p2p.HelloCode:
		h.decodeHello(m, payload, whole, first)
		return
	case m.Code == p2p.DisconnectCode:
		h.decodeDisconnect(m, payload, whole)
		return
	case h.hello == nil:
		m.Problem = "it comes before Hello"
	}
	if m.Code >= p2p.BaseLength {
		h.findCapability(m)
	}
	h.decompress(m, payload, whole)
}

func (h *half) decodeHello(m *Message, payload []byte, whole, first bool) {
	if whole {
		m.Payload = payload // never compressed
	}
	hello, err := p2p.DecodeHello(payload[:min(len(payload), p2p.HelloLimit+1)])
	switch {
	case !first:
		m.Problem = "a second Hello, or one that is not the first message"
	case err != nil:
		m.Problem = err.Error()
	default:
		h.hello = hello
		h.c.match()
	}
	m.Hello = hello
}

func (h *half) decodeDisconnect(m *Message, payload []byte, whole bool) {
	compressed := h.compressed()
	m.Disconnect = p2p.DecodeWireDisconnect(payload, compressed)
	if !whole {
		return
	}
	m.Payload = payload
	// Peers compress it or not as they please. What is printed is what the reason was read from.
	if data, err := h.c.d.inflate(payload); err == nil && (p2p.DecodeDisconnect(payload) != m.Disconnect || compressed) &&
		p2p.DecodeDisconnect(data) == m.Disconnect {
		m.Payload, m.Plain, m.Snappy = data, len(data), true
	}
}

// compressed reports whether messages after Hello are compressed: if both sides speak a version
// that does it.
func (h *half) compressed() bool {
	ours, theirs := h.hello, h.other().hello
	return ours != nil && ours.Snappy() && (theirs == nil || theirs.Snappy())
}

func (h *half) decompress(m *Message, payload []byte, whole bool) {
	if !h.compressed() {
		if whole {
			m.Payload = nonNil(payload)
		}
		return
	}
	m.Snappy = true
	if !whole {
		if n, err := snappy.DecodedLen(payload); err == nil && n <= maxMessage {
			m.Plain = n
		}
		return
	}
	data, err := h.c.d.inflate(payload)
	if err != nil {
		m.Problem = err.Error()
		return
	}
	m.Payload, m.Plain = nonNil(data), len(data)
}

// nonNil tells an empty payload from one that is not there.
func nonNil(p []byte) []byte {
	if p == nil {
		return []byte{}
	}
	return p
}

// inflate decompresses a payload. The result is valid until the next call.
func (d *Decoder) inflate(payload []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(payload)
	switch {
	case err == snappy.ErrTooLarge || err == nil && n > maxMessage:
		return nil, fmt.Errorf("it declares more than the %d bytes that the protocol allows", maxMessage)
	case err != nil || n > len(payload)*maxCopy/maxCopyCost:
		return nil, fmt.Errorf("its payload is not a snappy block")
	}
	if cap(d.plain) < n {
		d.plain = make([]byte, max(n, min(2*cap(d.plain), maxMessage)))
	}
	data, err := snappy.Decode(d.plain[:n], payload)
	if err != nil {
		return nil, fmt.Errorf("its payload is not a snappy block")
	}
	return data, nil
}
