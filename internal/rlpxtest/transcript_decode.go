package rlpxtest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/rlp"
	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/handshake"
)

// Decoded is a transcript that was opened. Frames are opened by this package's own Session.
type Decoded struct {
	Auth, Ack []byte           // whole packets, size prefix included
	Messages  []DecodedMessage // of both directions, in the order in which they were complete
	Snappy    bool             // messages after Hello are compressed
}

// Handshake returns the packet of the handshake that went the given way.
func (d *Decoded) Handshake(t *Transcript, way Way) []byte {
	if (t.Role == Initiator) == (way == Out) {
		return d.Auth
	}
	return d.Ack
}

// Of returns the messages of one direction.
func (d *Decoded) Of(way Way) []DecodedMessage {
	var of []DecodedMessage
	for _, m := range d.Messages {
		if m.Way == way {
			of = append(of, m)
		}
	}
	return of
}

// DecodedMessage is a message with all that is known of it.
type DecodedMessage struct {
	Message
	Data       []byte // after decompression
	Payload    []byte // as on the wire
	Compressed bool
	Header     Header
	End        int // offset of the end of its frame within its direction
}

// The messages that this package understands, of the base protocol.
const (
	helloCode      = 0
	disconnectCode = 1
	pingCode       = 2
	pongCode       = 3

	snappyVersion = 5 // the first version of Hello that asks for compression
)

// maxPlain is the most that a payload may declare as its size after decompression.
const maxPlain = 1<<24 - 1

// OpenTranscript parses and decodes a transcript, and checks that it has the messages that it
// claims.
func OpenTranscript(text []byte) (*Transcript, *Decoded, error) {
	t, err := ParseTranscript(text)
	if err != nil {
		return nil, nil, err
	}
	d, err := t.Decode()
	if err != nil {
		return nil, nil, err
	}
	for i := range min(len(d.Messages), len(t.Messages)) {
		if is, claimed := d.Messages[i].Message, t.Messages[i]; is != claimed {
			return nil, nil, fmt.Errorf("rlpxtest: message %d is %q, and the transcript claims %q", i, is, claimed)
		}
	}
	if len(d.Messages) != len(t.Messages) {
		return nil, nil, fmt.Errorf("rlpxtest: the transcript claims %d messages and has %d", len(t.Messages), len(d.Messages))
	}
	return t, d, nil
}

// Decode performs the recorded handshake again, checks that our packet comes out as it was
// recorded, and opens all frames of both directions. There must be nothing but whole frames.
//
// Snappy is on after the first message of each direction if both are a Hello that asks for it. A
// Disconnect that does not decompress is taken as it is, which some peers need.
func (t *Transcript) Decode() (*Decoded, error) {
	h, err := t.handshake()
	if err != nil {
		return nil, err
	}
	d := &Decoded{Auth: h.auth, Ack: h.ack}
	for way, direction := range h.directions() {
		frames, err := direction.OpenAll(t.Bytes(way)[direction.offset:])
		if err != nil {
			return nil, fmt.Errorf("frames %c: %w", way, err)
		}
		end := direction.offset
		for i, f := range frames {
			m := DecodedMessage{Header: f.Header}
			m.Way = way
			if m.Code, m.Payload, err = rlp.SplitUint64(f.Data); err != nil {
				return nil, fmt.Errorf("rlpxtest: frame %c %d: %w", way, i, err)
			}
			end += f.Wire
			m.End = end
			d.Messages = append(d.Messages, m)
		}
	}
	// Neither direction knows of the other; the chunks say what was complete first.
	slices.SortStableFunc(d.Messages, func(a, b DecodedMessage) int {
		return cmp.Compare(t.chunkOf(a.Way, a.End), t.chunkOf(b.Way, b.End))
	})
	if err := d.readMessages(); err != nil {
		return nil, err
	}
	return d, nil
}

// chunkOf returns the index of the chunk with byte end-1 of a direction.
func (t *Transcript) chunkOf(way Way, end int) int {
	for i, chunk := range t.Chunks {
		if chunk.Way == way {
			if end -= len(chunk.Data); end <= 0 {
				return i
			}
		}
	}
	return len(t.Chunks)
}

// readMessages decompresses and describes the messages.
func (d *Decoded) readMessages() error {
	first := map[Way]*DecodedMessage{}
	d.Snappy = true
	for i := range d.Messages {
		if m := &d.Messages[i]; first[m.Way] == nil {
			first[m.Way] = m
			version, err := helloVersion(m.Payload)
			d.Snappy = d.Snappy && m.Code == helloCode && err == nil && version >= snappyVersion
		}
	}
	d.Snappy = d.Snappy && first[In] != nil && first[Out] != nil
	for i := range d.Messages {
		m := &d.Messages[i]
		m.Data = m.Payload
		if d.Snappy && first[m.Way] != m {
			plain, err := decompress(m.Payload)
			if err == nil {
				m.Data, m.Compressed = plain, true
			} else if m.Code != disconnectCode {
				return fmt.Errorf("rlpxtest: message %d: %w", i, err)
			}
		}
		m.Size, m.Wire = len(m.Data), len(m.Payload)
		digest := sha256.Sum256(m.Data)
		copy(m.Digest[:], digest[:])
		m.Words = describe(m)
	}
	return nil
}

func decompress(payload []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(payload)
	if err != nil {
		return nil, err
	}
	if n > maxPlain {
		return nil, fmt.Errorf("%d bytes after decompression", n)
	}
	return snappy.Decode(nil, payload)
}

// hello is the payload of a Hello, written down from the specification.
type hello struct {
	Version    uint64
	Name       string
	Caps       []capability
	ListenPort uint64
	ID         []byte
	Rest       []rlp.RawValue `rlp:"tail"`
}

type capability struct {
	Name    string
	Version uint64
}

func helloVersion(payload []byte) (uint64, error) {
	var h hello
	err := rlp.DecodeBytes(payload, &h)
	return h.Version, err
}

// describe puts a message of the base protocol into words.
func describe(m *DecodedMessage) string {
	switch m.Code {
	case helloCode:
		var h hello
		if err := rlp.DecodeBytes(m.Data, &h); err != nil {
			return "Hello: " + err.Error()
		}
		words := fmt.Sprintf("Hello version %d, name %q, capabilities", h.Version, h.Name)
		for _, c := range h.Caps {
			words += fmt.Sprintf(" %s/%d", c.Name, c.Version)
		}
		words += fmt.Sprintf(", port %d, id of %d bytes", h.ListenPort, len(h.ID))
		if len(h.Rest) > 0 {
			words += fmt.Sprintf(", %d more", len(h.Rest))
		}
		return words
	case disconnectCode:
		return "Disconnect " + describeDisconnect(m)
	case pingCode:
		return "Ping"
	case pongCode:
		return "Pong"
	default:
		return ""
	}
}

// describeDisconnect gives the reason and the form in which it came.
func describeDisconnect(m *DecodedMessage) string {
	form := "not compressed"
	if m.Compressed {
		form = "compressed"
	}
	kind, content, _, err := rlp.Split(m.Data)
	shape := "a bare byte"
	if err == nil && kind == rlp.List {
		shape = "a list"
		kind, content, _, err = rlp.Split(content)
	}
	if err != nil || kind == rlp.List || len(content) > 1 {
		return "without a reason, " + form
	}
	var reason byte
	if len(content) == 1 {
		reason = content[0]
	}
	return fmt.Sprintf("reason %#02x, %s, %s", reason, shape, form)
}

// transcriptHandshake is the handshake of a transcript, performed again.
type transcriptHandshake struct {
	auth, ack []byte
	role      Role
	secrets   handshake.Secrets
}

// handshake derives the secrets from the recorded packets, our key and our randomness.
func (t *Transcript) handshake() (*transcriptHandshake, error) {
	random := bytes.NewReader(t.Rand)
	sent, err := handshakePacket(t.Bytes(Out))
	if err != nil {
		return nil, fmt.Errorf("rlpxtest: our handshake packet: %w", err)
	}
	received, err := handshakePacket(t.Bytes(In))
	if err != nil {
		return nil, fmt.Errorf("rlpxtest: the peer's handshake packet: %w", err)
	}
	h := &transcriptHandshake{role: t.Role}
	var made []byte
	if t.Role == Initiator {
		h.auth, h.ack = sent, received
		initiator, err := handshake.NewInitiator(t.Key, t.Remote, random)
		if err != nil {
			return nil, err
		}
		if made, err = initiator.WriteAuth(nil); err != nil {
			return nil, err
		}
		if h.secrets, err = initiator.ReadAck(bytes.Clone(received)); err != nil {
			return nil, err
		}
	} else {
		h.auth, h.ack = received, sent
		responder, err := handshake.NewResponder(t.Key, random)
		if err != nil {
			return nil, err
		}
		if _, err := responder.ReadAuth(bytes.Clone(received)); err != nil {
			return nil, err
		}
		if made, h.secrets, err = responder.WriteAck(nil); err != nil {
			return nil, err
		}
	}
	if !bytes.Equal(made, sent) {
		return nil, errors.New("rlpxtest: our handshake packet does not follow from the recorded key and randomness")
	}
	if random.Len() > 0 {
		return nil, fmt.Errorf("rlpxtest: %d bytes of randomness are left", random.Len())
	}
	if t.Remote != nil && !t.Remote.Equal(h.secrets.Remote) {
		return nil, errors.New("rlpxtest: auth has another key than the transcript")
	}
	return h, nil
}

// handshakePacket returns the packet at the beginning of a direction.
func handshakePacket(wire []byte) ([]byte, error) {
	const prefix = 2
	if len(wire) < prefix {
		return nil, fmt.Errorf("%d bytes", len(wire))
	}
	size := prefix + int(binary.BigEndian.Uint16(wire))
	if len(wire) < size {
		return nil, fmt.Errorf("%d of %d bytes", len(wire), size)
	}
	return wire[:size:size], nil
}

// framesDirection is a direction after its handshake packet.
type framesDirection struct {
	*Direction
	offset int // of the first frame
}

// directions starts both directions. It serves once: they take the MAC states over.
func (h *transcriptHandshake) directions() map[Way]framesDirection {
	session := NewSession(Secrets{h.secrets.AES, h.secrets.MAC, h.secrets.EgressMAC, h.secrets.IngressMAC})
	sent, received := len(h.auth), len(h.ack)
	if h.role == Recipient {
		sent, received = received, sent
	}
	return map[Way]framesDirection{Out: {session.Egress, sent}, In: {session.Ingress, received}}
}

// frames returns how much of a direction's bytes the handshake and whole frames are.
func (d framesDirection) frames(way Way, wire []byte) (int, error) {
	end := d.offset
	for {
		rest := wire[end:]
		if len(rest) < HeaderSize {
			return end, nil
		}
		header, err := d.OpenHeader(rest[:HeaderSize])
		if err != nil {
			return end, err
		}
		size := HeaderSize + Padded(header.Size()) + MACSize
		if len(rest) < size {
			return end, nil
		}
		if _, err := d.OpenData(rest[HeaderSize:size], header.Size()); err != nil {
			return end, err
		}
		end += size
	}
}
