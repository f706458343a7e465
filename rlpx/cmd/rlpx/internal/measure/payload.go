package measure

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-rlpx/transport/internal/txdata"
)

// MaxSize is the largest message: with one byte of code it fills the 24 bits of a frame's size.
const MaxSize = 1<<24 - 2

// slide is how far into the source a message may start, which makes messages of one size
// differ; stride is how much further each starts than the one before, a prime.
const slide, stride = 64 << 10, 7919

// Payload is what is sent: lists of transactions, which snappy compresses to some 0.63. A Payload
// is not modified and may serve any number of measurements.
type Payload struct{ source []byte }

// NewPayload makes the payload for messages of up to size bytes.
func NewPayload(size int) *Payload { return &Payload{txdata.Make(size + slide)} }

// message returns the data of message i of those with size bytes.
func (p *Payload) message(i, size int) []byte {
	return p.source[i%slide*stride%slide:][:size:size]
}

// ErrMismatch is in the chain of the error when what arrived is not what was sent.
var ErrMismatch = errors.New("content mismatch")

// check compares message i with what arrived.
func (p *Payload) check(i, size int, wantID, id uint64, data []byte) error {
	return Compare(i, wantID, p.message(i, size), id, data)
}

// Compare compares the message that was sent as number i with what arrived. The error, if they
// differ, is ErrMismatch.
func Compare(i int, wantID uint64, want []byte, id uint64, data []byte) error {
	switch {
	case id != wantID:
		return fmt.Errorf("%w: message %d has id %d, want %d", ErrMismatch, i, id, wantID)
	case len(data) != len(want):
		return fmt.Errorf("%w: message %d has %d bytes, want %d", ErrMismatch, i, len(data), len(want))
	case !bytes.Equal(data, want):
		at := 0
		for data[at] == want[at] {
			at++
		}
		return fmt.Errorf("%w: message %d of %d bytes differs from byte %d on", ErrMismatch, i, len(want), at)
	}
	return nil
}
