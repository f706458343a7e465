package command

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/measure"
)

type packet struct {
	id   uint64
	data []byte
}

// queue is a channel in memory.
type queue []packet

func (q *queue) Write(id uint64, data []byte) error {
	*q = append(*q, packet{id, slices.Clone(data)})
	return nil
}

func (q *queue) Read(context.Context) (uint64, []byte, error) {
	if len(*q) == 0 {
		return 0, nil, io.EOF
	}
	p := (*q)[0]
	*q = (*q)[1:]
	return p.id, p.data, nil
}

func TestTrafficRound(t *testing.T) {
	sent := newTraffic(7)
	var q queue
	if err := sent.send(t.Context(), &q, 0); err != nil {
		t.Fatal(err)
	}
	if len(q) != roundLength+1 {
		t.Fatalf("%d messages in a round, want %d and the end", len(q), roundLength)
	}
	total := 0
	var random, structured []int
	for i, p := range q[:roundLength] {
		total += len(p.data)
		for _, earlier := range q[:i] {
			if len(p.data) > 1 && bytes.Equal(p.data, earlier.data) {
				t.Errorf("message %d of %d bytes is there twice", i, len(p.data))
			}
		}
		compressed := len(snappy.Encode(nil, p.data))
		switch p.id {
		case randomID:
			random = append(random, len(p.data))
			if compressed < len(p.data) {
				t.Errorf("message %d: %d random bytes compress to %d", i, len(p.data), compressed)
			}
		case structID:
			structured = append(structured, len(p.data))
			if len(p.data) >= kib && compressed > len(p.data)*3/4 {
				t.Errorf("message %d: %d structured bytes compress to %d only", i, len(p.data), compressed)
			}
		default:
			t.Errorf("message %d has id %d", i, p.id)
		}
	}
	if !slices.Equal(random, sizes[:]) || !slices.Equal(structured, sizes[:]) {
		t.Errorf("sizes %v and %v, want each of %v in both kinds", random, structured, sizes)
	}
	var got tally
	if err := newTraffic(7).receive(t.Context(), &q, &got); err != nil {
		t.Fatal(err)
	}
	if got.messages.Load() != int64(roundLength) || got.bytes.Load() != int64(total) {
		t.Errorf("received %d messages, %d bytes; want %d, %d", got.messages.Load(), got.bytes.Load(), roundLength, total)
	}
}

// Whatever happens to one message of a round is noticed.
func TestTrafficMismatch(t *testing.T) {
	const at = 21
	for _, tc := range []struct {
		name   string
		damage func(q queue) queue
		text   string
	}{
		{"one bit", func(q queue) queue { q[at].data[len(q[at].data)-1] ^= 0x80; return q }, "differs from byte"},
		{"first bit", func(q queue) queue { q[at].data[0] ^= 1; return q }, "differs from byte 0 on"},
		{"shorter", func(q queue) queue { q[at].data = q[at].data[1:]; return q }, "bytes, want"},
		{"longer", func(q queue) queue { q[at].data = append(q[at].data, 0); return q }, "bytes, want"},
		{"other id", func(q queue) queue { q[at].id ^= 3; return q }, "has id"},
		{"lost", func(q queue) queue { return slices.Delete(q, at, at+1) }, "message 21"},
		{"twice", func(q queue) queue { return slices.Insert(q, at, q[at]) }, "message 22"},
		{"swapped", func(q queue) queue { q[at], q[at+2] = q[at+2], q[at]; return q }, "message 21"},
		{"last lost", func(q queue) queue { return slices.Delete(q, len(q)-2, len(q)-1) }, "end message"},
		{"end without count", func(q queue) queue { q[len(q)-1].data = nil; return q }, "end message"},
		{"end count", func(q queue) queue { binary.BigEndian.PutUint64(q[len(q)-1].data, 1); return q }, "end message"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var q queue
			if err := newTraffic(7).send(t.Context(), &q, 0); err != nil {
				t.Fatal(err)
			}
			q = tc.damage(q)
			var got tally
			err := newTraffic(7).receive(t.Context(), &q, &got)
			if !errors.Is(err, measure.ErrMismatch) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %v, want a mismatch with %q", err, tc.text)
			}
		})
	}
	t.Run("end of the session", func(t *testing.T) {
		var got tally
		if err := newTraffic(7).receive(t.Context(), new(queue), &got); !errors.Is(err, io.EOF) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the other direction's", func(t *testing.T) {
		var q queue
		if err := newTraffic(7).send(t.Context(), &q, 0); err != nil {
			t.Fatal(err)
		}
		var got tally
		if err := newTraffic(8).receive(t.Context(), &q, &got); !errors.Is(err, measure.ErrMismatch) {
			t.Errorf("got %v", err)
		}
	})
}

// Message numbers stay in range however long a run is.
func TestTrafficNumbers(t *testing.T) {
	traffic := newTraffic(7)
	for _, i := range []int{1 << 20, 1<<31 - 2, 1<<31 - 1} {
		if _, data := traffic.message(i); len(data) != sizes[i/2%len(sizes)] {
			t.Errorf("message %d has %d bytes", i, len(data))
		}
	}
}
