package decode

import (
	"net/netip"

	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capture"
	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/keylog"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// A Sink takes what a Decoder finds, in the order of the capture.
type Sink interface {
	// Session begins a session whose secrets are known.
	Session(s *Session, at capture.Point)

	// Packet reports a handshake packet of a session: auth or ack, by direction, and its size.
	Packet(s *Session, d capture.Direction, size int, at capture.Point)

	Message(m *Message)
	Note(n *Note)

	// End ends a session.
	End(s *Session, how capture.Ending, at capture.Point)
}

// A Session is an RLPx session whose secrets are known.
type Session struct {
	Number               int // counted from 1
	Initiator, Recipient netip.AddrPort
	Keys                 *keylog.Session

	// Of each direction, FromClient being what the initiator sent.
	Messages [2]int
	Plain    [2]int64 // payloads before compression
	Wire     [2]int64 // payloads as they travelled
	Damaged  [2]bool  // the direction ended because of lost bytes or a wrong MAC, or its ack is missing
}

// A Message is one message, which fills one frame.
type Message struct {
	Session   *Session
	Direction capture.Direction
	At        capture.Point // the packet that completed it

	Code uint64 // in the frame

	// Cap is the capability that the code belongs to, and ID the message id within it: of p2p,
	// whose Version is 0, the code itself. Name is empty where no capability is known for the code.
	Cap  p2p.Cap
	ID   uint64
	Name string // of the message, or empty

	Plain  int  // size of the payload; that of the message as it travelled where it cannot be decompressed
	Wire   int  // size of the payload as it travelled
	Frame  int  // size of the frame, with header, padding and MACs
	Snappy bool // it was compressed

	Hello      *p2p.Hello     // of a Hello; nil if it cannot be read
	Disconnect p2p.DiscReason // of a Disconnect

	// Payload is the plain payload. It is nil where there was no room for it, or where it cannot be
	// decompressed.
	Payload []byte

	// Problem says what is wrong with the message, although its MAC is right. It is empty if
	// nothing is.
	Problem string
}

// Kind tells notes apart.
type Kind string

const (
	NoKeys     Kind = "no-keys"    // a session that is not in the key log
	Middle     Kind = "middle"     // a connection that began before the capture
	Unfinished Kind = "unfinished" // a handshake that did not finish
	Lost       Kind = "lost"       // bytes are missing
	BadMAC     Kind = "bad-mac"    // a MAC is wrong
	Breach     Kind = "breach"     // a peer did what the protocol does not allow
	Hint       Kind = "hint"       // something that the reader should know
)

// A Note says what could not be decoded, or other things to know.
type Note struct {
	Kind    Kind
	Session *Session // nil: none whose secrets are known
	At      capture.Point

	Initiator, Recipient netip.AddrPort // valid where it is about a connection
	Direction            capture.Direction
	OneWay               bool // it is about one Direction

	Text string
}

// Stats count what a Decoder has seen.
type Stats struct {
	Sessions    int   // whose secrets are known
	Damaged     int   // of these, those with a direction that ended too early
	Messages    int   // of them
	Plain       int64 // bytes of payloads before compression
	Wire        int64 // and as they travelled
	NoKeys      int   // sessions that are not in the key log
	Unfinished  int   // handshakes that did not finish
	Middle      int   // connections that began before the capture
	Undecidable int   // connections with bytes missing before the end of a handshake
	Foreign     int   // connections that are not RLPx
	Dropped     int   // payloads for which there was no room
}
