package capture

import (
	"net/netip"
	"time"
)

// A Direction of a TCP connection.
type Direction int

const (
	FromClient Direction = iota // from the side that opened the connection
	FromServer
)

// Reverse returns the other direction.
func (d Direction) Reverse() Direction { return 1 - d }

// A Point is a place in a capture.
type Point struct {
	Packet int       // counted from 1
	Time   time.Time // zero where the capture has no times
}

// A Conn is a TCP connection of the capture.
type Conn struct {
	// Client opened the connection. Where FromStart is false, nobody knows who did, and Client is
	// who was seen first.
	Client, Server netip.AddrPort

	// FromStart is false if the capture begins in the middle of the connection.
	FromStart bool

	Start Point // its first packet
}

// An Ending says how a connection ended.
type Ending int

const (
	Closed     Ending = iota // by both sides
	Reset                    // by one side
	Idle                     // nothing came for a long time
	Superseded               // a connection between the same ports began
	StillOpen                // the capture ended
)

func (e Ending) String() string {
	return [...]string{"closed", "reset", "silent for long", "replaced by a new connection", "open at the end of the capture"}[e]
}

// A Gap is where bytes of a direction are missing.
type Gap struct {
	Offset  uint64 // bytes of the direction before it
	Missing int    // bytes; 0: not known
	Snaplen bool   // packets were captured in part only
}

// A Handler decides about connections.
type Handler interface {
	// Open is called once for each connection that carries data. Without a Stream, nothing more is
	// reported about it.
	Open(*Conn) Stream
}

// A Stream takes the data of a connection.
type Stream interface {
	// Data takes the next bytes of a direction. They are valid during the call. at is the packet
	// that completed them.
	Data(d Direction, p []byte, at Point)

	// Gap reports that bytes are missing. The direction ends there.
	Gap(d Direction, gap Gap, at Point)

	// Done reports that no more data is wanted.
	Done() bool

	// Close reports the end of the connection. It is the last call.
	Close(how Ending, at Point)
}
