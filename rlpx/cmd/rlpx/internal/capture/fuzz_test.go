package capture

import (
	"bytes"
	"errors"
	"io"
	"testing"

	ct "github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capturetest"
)

// checker is a Handler that checks what it is told.
type checker struct {
	t     *testing.T
	bytes int64
}

type checkedStream struct {
	*checker
	got    [2]uint64
	gone   [2]bool
	closed bool
}

func (c *checker) Open(conn *Conn) Stream {
	if conn.Client == conn.Server && conn.FromStart && conn.Start.Packet == 0 {
		c.t.Error("a connection from nowhere")
	}
	return &checkedStream{checker: c}
}

func (s *checkedStream) Data(d Direction, p []byte, at Point) {
	if len(p) == 0 || s.gone[d] || s.closed || at.Packet == 0 {
		s.t.Errorf("%d bytes after the end (%v, %v) in packet %d", len(p), s.gone[d], s.closed, at.Packet)
	}
	s.got[d] += uint64(len(p))
	s.bytes += int64(len(p))
}

func (s *checkedStream) Gap(d Direction, g Gap, _ Point) {
	if s.gone[d] || s.closed || g.Offset != s.got[d] || g.Missing < 0 {
		s.t.Errorf("gap %+v after %d bytes (%v, %v)", g, s.got[d], s.gone[d], s.closed)
	}
	s.gone[d] = true
}

func (s *checkedStream) Done() bool { return false }

func (s *checkedStream) Close(Ending, Point) {
	if s.closed {
		s.t.Error("closed twice")
	}
	s.closed = true
}

// Whatever is in a file, reading ends with a word about it, and no stream has more bytes than the
// file.
func FuzzCapture(f *testing.F) {
	_, segments := small()
	for _, n := range ct.Networks {
		f.Add(ct.Pcap(n, segments...))
	}
	f.Add(ct.Pcapng(ct.Ethernet, segments...))
	f.Add(zipped(ct.Pcap(ct.Raw, segments...)))
	f.Add(ct.Pcap(ct.Raw, ct.NewTCP(ct.Client6, ct.Server6).Conversation(talk(newRand(1), 3, 100))...))
	shuffled := shuffle(newRand(1), segments, 5)
	f.Add(ct.Pcap(ct.Raw, shuffled...))
	f.Add(ct.Pcap(ct.Raw, append(shuffled[:4:4], segments...)...))
	f.Fuzz(func(t *testing.T, file []byte) {
		c := &checker{t: t}
		rd, err := NewReader(bytes.NewReader(file), c)
		if err != nil {
			return
		}
		for err == nil {
			err = rd.Next()
		}
		rd.Finish()
		_, cut := errors.AsType[*CutError](err)
		_, bad := errors.AsType[*PacketError](err)
		if err != io.EOF && !cut && !bad {
			t.Fatalf("error %v", err)
		}
		s := rd.Stats()
		if c.bytes > s.Bytes || s.Segments+s.Other+s.Tunneled+s.Fragments+s.Unreadable+s.Link != s.Packets {
			t.Fatalf("%d bytes of %d, %+v", c.bytes, s.Bytes, s)
		}
	})
}
