package decode

import (
	"fmt"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capture"
	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/keylog"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// The layout of a handshake packet (rlpx.md, "Initial Handshake", and EIP-8): a size, then an ECIES
// message, which begins with an uncompressed point.
const (
	sizePrefix    = 2
	offsetX       = sizePrefix + 1
	coordinate    = 32
	pointEnd      = offsetX + 2*coordinate
	uncompressed  = 0x04
	eciesOverhead = 65 + 16 + 32      // point, IV, tag
	maxPacket     = sizePrefix + 2048 // as clients accept
)

// connection is a TCP connection that may be an RLPx session.
type connection struct {
	d     *Decoder
	conn  *capture.Conn
	state state

	auth    bool // auth is there in full
	keys    *keylog.Session
	session *Session // nil without keys
	halves  [2]half

	matched *p2p.Matched // nil before both Hellos, or if nothing is shared
	closing bool         // nothing more comes
}

type state int

const (
	handshaking state = iota
	established       // both handshake packets are there
	foreign           // not RLPx
	unknown           // RLPx, but without keys
	undecidable       // bytes of the handshake are missing
)

func newConnection(d *Decoder, conn *capture.Conn) *connection {
	c := &connection{d: d, conn: conn}
	for i := range c.halves {
		c.halves[i] = half{c: c, dir: capture.Direction(i)}
	}
	return c
}

// Data takes the next bytes of a direction.
func (c *connection) Data(dir capture.Direction, p []byte, at capture.Point) {
	c.halves[dir].at = at
	c.halves[dir].feed(p)
	c.settle()
}

// settle lets directions go on that waited for something that may have come.
func (c *connection) settle() {
	for progress := true; progress; {
		progress = false
		for i := range c.halves {
			if c.halves[i].resume() {
				progress = true
			}
		}
	}
}

// Gap ends a direction where bytes are missing.
func (c *connection) Gap(dir capture.Direction, gap capture.Gap, at capture.Point) {
	h := &c.halves[dir]
	h.at = at
	if h.ended {
		return
	}
	missing := "bytes are missing"
	if gap.Missing > 0 {
		missing = count(gap.Missing, "byte") + " missing"
		if gap.Missing > 1 {
			missing = count(gap.Missing, "byte") + " are missing"
		}
	}
	text := fmt.Sprintf("lost: %s after byte %d of this direction (noticed in packet %d)", missing, gap.Offset, at.Packet)
	if gap.Snaplen {
		text += ", because packets were captured in part only (tcpdump -s 0 takes them whole)"
	}
	if h.stuck != nil {
		h.force()
	}
	h.end()
	switch {
	case c.state == handshaking && c.session == nil:
		c.state = undecidable
		c.d.stats.Undecidable++
		c.note(Lost, text+", before the end of a handshake: the connection cannot be decoded", h)
	case c.session != nil:
		c.damaged(h)
		c.note(Lost, text+". The MACs that follow cover them, so this direction ends here", h)
	}
	c.settle()
}

// Done reports whether nothing more is of interest.
func (c *connection) Done() bool {
	switch c.state {
	case foreign, unknown, undecidable:
		return true
	default:
		return c.halves[0].ended && c.halves[1].ended
	}
}

// Close ends the connection.
func (c *connection) Close(how capture.Ending, at capture.Point) {
	c.closing = true
	c.settle()
	if c.state == handshaking {
		c.unfinished(how, at)
	}
	for i := range c.halves {
		h := &c.halves[i]
		if c.session != nil && !h.ended && h.inFrame() && how != capture.StillOpen {
			h.at = at
			c.note(Hint, "the connection ended in the middle of a frame", h)
		}
		h.end()
	}
	if c.session != nil {
		c.d.sink.End(c.session, how, at)
	}
}

// unfinished says how far a handshake came.
func (c *connection) unfinished(how capture.Ending, at capture.Point) {
	auth, ack := &c.halves[capture.FromClient], &c.halves[capture.FromServer]
	var text string
	switch {
	case c.session != nil && len(ack.packet) == 0:
		text = "there is no ack in the capture: what the recipient sent cannot be decoded"
	case c.auth && len(ack.packet) == 0 && how == capture.StillOpen:
		text = "the handshake did not finish: there is no ack in the capture"
	case c.auth && len(ack.packet) == 0:
		text = "the handshake did not finish: the recipient sent no ack (it has another node key, or no room for peers)"
	case c.auth:
		text = fmt.Sprintf("the handshake did not finish: %d bytes of the ack are there", len(ack.packet))
	case len(auth.packet) >= pointEnd && onCurve(auth.packet):
		text = fmt.Sprintf("the handshake did not finish: %d bytes of the auth packet are there", len(auth.packet))
	default:
		c.state = foreign
		c.d.stats.Foreign++
		return
	}
	c.d.stats.Unfinished++
	if c.session != nil && (how != capture.StillOpen || c.session.Messages[capture.FromClient] > 0) {
		c.damaged(ack) // there was one: the key log has the session
	}
	auth.at = at
	c.note(Unfinished, text, nil)
}

// damaged notes that a direction ended because of the capture or a wrong MAC.
func (c *connection) damaged(h *half) {
	s := c.session
	if !s.Damaged[0] && !s.Damaged[1] {
		c.d.stats.Damaged++
	}
	s.Damaged[h.dir] = true
}

// note reports something about the connection, or about a direction of it.
func (c *connection) note(kind Kind, text string, h *half) {
	n := &Note{Kind: kind, Session: c.session, Initiator: c.conn.Client, Recipient: c.conn.Server, Text: text}
	if h != nil {
		n.At, n.Direction, n.OneWay = h.at, h.dir, true
	} else {
		n.At = c.halves[0].at
		if c.halves[1].at.Packet > n.At.Packet {
			n.At = c.halves[1].at
		}
	}
	c.d.sink.Note(n)
}

// checkPrefix reports whether the first bytes of a packet can be those of a handshake packet.
func checkPrefix(p []byte) bool {
	if len(p) >= sizePrefix {
		if n := packetSize(p); n < sizePrefix+eciesOverhead || n > maxPacket {
			return false
		}
	}
	return len(p) <= sizePrefix || p[sizePrefix] == uncompressed
}

func packetSize(p []byte) int { return sizePrefix + int(p[0])<<8 + int(p[1]) }

// onCurve reports whether the point of a handshake packet is one. Random bytes never are.
func onCurve(p []byte) bool {
	_, err := crypto.UnmarshalPubkey(p[sizePrefix:pointEnd])
	return err == nil
}

// packetDone is called when a handshake packet is there in full.
func (c *connection) packetDone(h *half) {
	if !onCurve(h.packet) {
		c.isForeign()
		return
	}
	if h.dir == capture.FromServer {
		if c.keys == nil {
			c.state = unknown
			c.d.stats.NoKeys++
			c.note(NoKeys, fmt.Sprintf("an RLPx session that is not in the key log: it has no line that begins with RLPX %x", c.halves[0].packet[offsetX:][:coordinate]), nil)
			return
		}
		c.state = established
		c.d.sink.Packet(c.session, h.dir, len(h.packet), h.at)
		h.begin(c.keys, &c.keys.InitiatorNonce)
		return
	}
	c.auth = true
	if c.keys = c.d.log.Find([coordinate]byte(h.packet[offsetX:])); c.keys == nil {
		return
	}
	c.d.stats.Sessions++
	c.session = &Session{Number: c.d.stats.Sessions, Initiator: c.conn.Client, Recipient: c.conn.Server, Keys: c.keys}
	c.d.sink.Session(c.session, h.at)
	c.d.sink.Packet(c.session, h.dir, len(h.packet), h.at)
	h.begin(c.keys, &c.keys.RecipientNonce)
}

// isForeign ends a connection that is not RLPx after all.
func (c *connection) isForeign() {
	if c.auth {
		c.state = undecidable
		c.d.stats.Unfinished++
		if c.session != nil {
			c.damaged(&c.halves[capture.FromServer])
		}
		c.note(Unfinished, "the handshake did not finish: the answer to the auth packet is not an ack", nil)
	} else {
		c.state = foreign
		c.d.stats.Foreign++
	}
	for i := range c.halves {
		c.halves[i].end()
	}
}
