package capture

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	ct "github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capturetest"
)

// recorder is a Handler that keeps everything.
type recorder struct {
	conns  []*recorded
	refuse bool // do not take connections
}

type recorded struct {
	Conn
	data   [2]bytes.Buffer
	gaps   [2][]Gap
	closed int
	how    Ending
	done   func(*recorded) bool
	last   Point
}

func (r *recorder) Open(c *Conn) Stream {
	rec := &recorded{Conn: *c}
	r.conns = append(r.conns, rec)
	if r.refuse || !c.FromStart {
		return nil
	}
	return rec
}

func (r *recorded) Data(d Direction, p []byte, at Point) { r.data[d].Write(p); r.last = at }
func (r *recorded) Gap(d Direction, g Gap, at Point)     { r.gaps[d] = append(r.gaps[d], g); r.last = at }
func (r *recorded) Done() bool                           { return r.done != nil && r.done(r) }
func (r *recorded) Close(how Ending, _ Point)            { r.closed++; r.how = how }

// read reads a whole capture.
func read(file []byte) (*recorder, Stats, error) { return readFrom(bytes.NewReader(file)) }

func readFrom(r io.Reader) (*recorder, Stats, error) {
	rec := new(recorder)
	rd, err := NewReader(r, rec)
	if err != nil {
		return rec, Stats{}, err
	}
	for err == nil {
		err = rd.Next()
	}
	rd.Finish()
	if err == io.EOF {
		err = nil
	}
	return rec, rd.Stats(), err
}

// mustRead reads a capture that is well formed.
func mustRead(t *testing.T, file []byte) (*recorder, Stats) {
	t.Helper()
	rec, stats, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	return rec, stats
}

// talk is a conversation of random bytes.
func talk(rng *rand.Rand, chunks, size int) []ct.Chunk {
	var list []ct.Chunk
	for range chunks {
		data := make([]byte, 1+rng.IntN(size))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		list = append(list, ct.Chunk{FromClient: rng.IntN(2) == 0, Data: data})
	}
	return list
}

// said is what one side says in a conversation.
func said(chunks []ct.Chunk, fromClient bool) []byte {
	var all []byte
	for _, c := range chunks {
		if c.FromClient == fromClient {
			all = append(all, c.Data...)
		}
	}
	return all
}

// want checks that a connection has all of a conversation and nothing else.
func (r *recorded) want(chunks []ct.Chunk) error {
	for d, fromClient := range []bool{true, false} {
		if want := said(chunks, fromClient); !bytes.Equal(r.data[d].Bytes(), want) {
			return fmt.Errorf("direction %d: %d bytes differ from the %d that were sent", d, r.data[d].Len(), len(want))
		}
		if len(r.gaps[d]) > 0 {
			return fmt.Errorf("direction %d: gaps %+v", d, r.gaps[d])
		}
	}
	if r.closed != 1 {
		return fmt.Errorf("closed %d times", r.closed)
	}
	return nil
}

// only returns the only connection.
func (r *recorder) only(t *testing.T) *recorded {
	t.Helper()
	if len(r.conns) != 1 {
		t.Fatalf("%d connections", len(r.conns))
	}
	return r.conns[0]
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// shuffle moves segments by less than distance places.
func shuffle(rng *rand.Rand, segments []ct.Segment, distance int) []ct.Segment {
	type placed struct {
		at int
		s  ct.Segment
	}
	list := make([]placed, len(segments))
	for i, s := range segments {
		list[i] = placed{i + rng.IntN(distance), s}
	}
	slices.SortStableFunc(list, func(a, b placed) int { return a.at - b.at })
	out := make([]ct.Segment, len(list))
	for i := range list {
		out[i] = list[i].s
	}
	return out
}
