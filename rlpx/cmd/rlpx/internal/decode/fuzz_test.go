package decode

import (
	"bytes"
	"strings"
	"testing"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capture"
	ct "github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capturetest"
)

// Whatever a peer puts into frames whose MACs are right, each frame gives a message, its texts are
// printable, and the frame after it is decoded.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{0x80, 0xc0}, []byte{0x01, 0x04}, true)
	f.Add([]byte{0x01, 0xc1, 0x04}, []byte{0x10, 0x00}, true)
	f.Add([]byte{0x10, 0xff, 0xff, 0xff, 0x07}, []byte{0x82, 0x01, 0x00, 0x00}, false)
	f.Add(append([]byte{0x10}, snappy.Encode(nil, []byte("block"))...), []byte{0xc0}, true)
	f.Fuzz(func(t *testing.T, first, second []byte, greeted bool) {
		s := newScript(t)
		if hello := s.inner.Hello(true, 5, eth68); bytes.Equal(first[:min(1, len(first))], []byte{0x80}) && len(first)%2 == 0 {
			first = append(append([]byte{0x80}, hello[:len(hello)/2]...), first[1:]...)
		}
		if greeted {
			s.greet(eth68)
		}
		frames := 0
		for _, data := range [][]byte{first, second, {0x02, 0x01, 0x00, 0xc0}} {
			if len(data) > 0 {
				s.frame(true, data...)
				frames++
			}
		}
		e, d := s.play(0)
		got := 0
		for _, m := range e.messages {
			if m.Direction == capture.FromClient {
				got++
			}
		}
		if greeted {
			frames++
		}
		if got != frames || d.Stats().Damaged > 0 {
			t.Fatalf("%d messages of %d frames: %q", got, frames, e.lines)
		}
		for _, m := range e.messages {
			if strings.ContainsFunc(m.Problem+m.Name+m.Cap.String(), func(r rune) bool { return r < ' ' || r > '~' }) || m.Plain > maxMessage {
				t.Fatalf("%+v", m)
			}
		}
	})
}

// Whatever a connection carries, decoding it ends, and holds nothing after that.
func FuzzStreams(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), []byte("HTTP/1.1 400\r\n\r\n"), uint8(3))
	f.Add(append([]byte{1, 100, 4}, make([]byte, 400)...), append([]byte{1, 100, 4}, make([]byte, 400)...), uint8(0))
	f.Fuzz(func(t *testing.T, a, b []byte, size uint8) {
		s := newScript(t)
		for _, chunks := range [][]ct.Chunk{
			{{FromClient: true, Data: a}, {FromClient: false, Data: b}},
			{s.chunks[0], {FromClient: false, Data: b}, {FromClient: true, Data: a}},
			{s.chunks[0], s.chunks[1], {FromClient: true, Data: a}, {FromClient: false, Data: b}},
		} {
			_, d := play(t, s.keyLog, int(size), chunks)
			if st := d.Stats(); st.Messages > 0 {
				t.Fatalf("%+v", st)
			}
		}
	})
}
