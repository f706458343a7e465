package decode

import (
	"fmt"

	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capture"
	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/keylog"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

const (
	// maxHeld bounds what all frames under way hold, in bytes: one of the largest with the smaller
	// buffer that it grows out of, and many of usual size.
	maxHeld = 40 << 20

	// maxPending bounds what a direction holds back, in bytes, until something of the other
	// direction comes that it depends on.
	maxPending = 256 << 10

	// maxPrefix is how much of a payload is kept for which there is no room: enough for its code,
	// its size and a Disconnect.
	maxPrefix = 256

	// maxMiddle is how many connections are named that began before the capture. The rest is
	// counted.
	maxMiddle = 16
)

// A Decoder decodes the sessions of a capture.
type Decoder struct {
	log   *keylog.Log
	caps  p2p.Capabilities
	sink  Sink
	stats Stats

	held    int    // bytes of all frames under way and of what is held back
	scratch []byte // for plaintext that nobody keeps
	plain   []byte // for the payload that was decompressed last
}

// scratchSize is at least the size of common TCP segments, so that most are decrypted in one go.
const scratchSize = 16 << 10

// New makes a Decoder. caps are the lengths of capabilities, which the Hellos do not tell.
func New(log *keylog.Log, caps p2p.Capabilities, sink Sink) *Decoder {
	return &Decoder{log: log, caps: caps, sink: sink, scratch: make([]byte, scratchSize)}
}

// Stats returns what was counted so far.
func (d *Decoder) Stats() Stats { return d.stats }

// Open is called for each connection of the capture.
func (d *Decoder) Open(c *capture.Conn) capture.Stream {
	if c.FromStart {
		return newConnection(d, c)
	}
	d.stats.Middle++
	if d.stats.Middle > maxMiddle {
		return nil
	}
	text := "the capture begins in the middle of this connection: without its handshake it cannot be decoded"
	if d.stats.Middle == maxMiddle {
		text += "; from here on, such connections are only counted"
	}
	d.sink.Note(&Note{Kind: Middle, At: c.Start, Initiator: c.Client, Recipient: c.Server, Text: text})
	return nil
}

// hold accounts for n bytes more, if there is room for them.
func (d *Decoder) hold(n int) bool {
	if d.held+n > maxHeld {
		return false
	}
	d.held += n
	return true
}

// count prints a number of things, in the singular where it is one.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
