package command

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/measure"
)

// The messages of the demo. Both nodes work out message i of a direction by themselves, so
// the receiver knows every byte that must come without being told.

// Message ids.
const (
	endID      = iota // the last message of a direction: how many came before
	randomID          // random bytes, as blobs and signatures are
	structID          // bytes that compress well, as headers and receipts do
	demoLength        // of the capability
)

const kib, mib = 1 << 10, 1 << 20

// sizes of messages, in bytes: around the borders of the cipher's block and of
// the hash's rate, and up to blocks of transactions.
var sizes = [...]int{
	0, 1, 15, 16, 17, 100, 135, 136, 137, kib, 4*kib + 1, 16 * kib, 64*kib - 1,
	128 * kib, 256 * kib, mib, 2*mib + 3, 4 * mib,
}

// roundLength is the number of messages in which every size came once in both kinds.
const roundLength = 2 * len(sizes)

// maxSlide is how far into the source a message may start. It makes messages of the same size
// differ.
const maxSlide = 64 * kib

// traffic is one direction's messages.
type traffic struct {
	random, structured []byte
}

// newTraffic makes the messages of the direction that seed stands for.
func newTraffic(seed uint64) *traffic {
	n := sizes[len(sizes)-1] + maxSlide
	t := &traffic{random: make([]byte, n), structured: make([]byte, 0, n)}
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	rng := rand.NewChaCha8(key)
	_, _ = rng.Read(t.random) // never fails
	for i := 0; len(t.structured) < n; i++ {
		t.structured = fmt.Appendf(t.structured, `{"block":%d,"nonce":"%016x","gasLimit":"0x1c9c380"},`, i, rng.Uint64())
	}
	t.structured = t.structured[:n]
	return t
}

// message returns message i. The data is not to be modified.
func (t *traffic) message(i int) (id uint64, data []byte) {
	return t.piece(i, sizes[i/2%len(sizes)])
}

// blockSize is the size of messages to many peers, in bytes: that of a usual block.
const blockSize = 128 * kib

// block returns message i of those to many peers. The data is not to be modified.
func (t *traffic) block(i int) (id uint64, data []byte) { return t.piece(i, blockSize) }

func (t *traffic) piece(i, size int) (id uint64, data []byte) {
	id, source := uint64(randomID), t.random
	if i%2 == 1 {
		id, source = structID, t.structured
	}
	slide := i % maxSlide * 7919 % maxSlide
	return id, source[slide:][:size]
}

// channel is the side of a capability that the demo uses.
type channel interface {
	Read(ctx context.Context) (id uint64, data []byte, err error)
	Write(id uint64, data []byte) error
}

// tally counts what arrived intact.
type tally struct {
	messages, bytes atomic.Int64
}

// send sends whole rounds of messages until the time is over, one at least, then the end message.
func (t *traffic) send(ctx context.Context, ch channel, duration time.Duration) error {
	start, n := time.Now(), 0
	for n == 0 || time.Since(start) < duration {
		for range roundLength {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := ch.Write(t.message(n)); err != nil {
				return fmt.Errorf("sending message %d: %w", n, err)
			}
			n++
		}
	}
	return ch.Write(endID, endOf(n))
}

// endOf is the data of the end message after n others.
func endOf(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// receive reads up to the end message, and fails at the first message that is not the one that was
// sent.
func (t *traffic) receive(ctx context.Context, ch channel, got *tally) error {
	for i := 0; ; i++ {
		id, data, err := ch.Read(ctx)
		if err != nil {
			return fmt.Errorf("waiting for message %d: %w", i, err)
		}
		if id == endID {
			return checkEnd(data, i)
		}
		wantID, want := t.message(i)
		if err := measure.Compare(i, wantID, want, id, data); err != nil {
			return err
		}
		got.messages.Add(1)
		got.bytes.Add(int64(len(data)))
	}
}

func checkEnd(data []byte, received int) error {
	if len(data) != 8 || binary.BigEndian.Uint64(data) != uint64(received) {
		return fmt.Errorf("%w: the end message is %x, want a count of %d", measure.ErrMismatch, data, received)
	}
	return nil
}
