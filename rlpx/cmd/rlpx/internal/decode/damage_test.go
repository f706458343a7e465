package decode

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/rlp"

	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capture"
	ct "github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capturetest"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// foreignHello puts any capabilities into a Hello.
func foreignHello(hello []byte, caps []p2p.Cap) []byte {
	var fields []rlp.RawValue
	if err := rlp.DecodeBytes(hello, &fields); err != nil {
		panic(err)
	}
	list, err := rlp.EncodeToBytes(caps)
	if err != nil {
		panic(err)
	}
	fields[2] = list
	out, err := rlp.EncodeToBytes(fields)
	if err != nil {
		panic(err)
	}
	return out
}

// Whichever byte of a frame is changed, its direction ends there, what was before it stands, and
// the other direction goes on.
func TestChangedByte(t *testing.T) {
	s := newScript(t)
	s.greet(eth68)
	s.packed(true, 0x10, 1, 2, 3)
	s.packed(true, 2, 0xc0)
	s.packed(false, 2, 0xc0)
	frame := 4 // the first message of the initiator
	offset := len(s.chunks[0].Data) + len(s.chunks[2].Data)
	for i := range s.chunks[frame].Data {
		chunks := slices.Clone(s.chunks)
		chunks[frame].Data = bytes.Clone(chunks[frame].Data)
		chunks[frame].Data[i] ^= 0x10
		which := "header"
		if i >= headerWire {
			which = "frame"
		}
		e, d := play(t, s.keyLog, 0, chunks)
		wantAfterHello(t, e,
			fmt.Sprintf("note bad-mac: bad %s MAC in frame 2 at byte %d of this direction (packet 5): the stream was damaged or changed on the way. This direction ends here", which, offset),
			"1 <- p2p/0 0x2 Ping 1/3")
		if st := d.Stats(); st.Damaged != 1 || !e.notes[0].Session.Damaged[0] || e.notes[0].Session.Damaged[1] {
			t.Errorf("byte %d: %+v, %v", i, st, e.notes[0].Session.Damaged)
		}
	}
}

// Secrets that do not fit show in the first frame, with the line that they are from.
func TestWrongSecrets(t *testing.T) {
	s := newScript(t)
	s.greet(eth68)
	fields := strings.Fields(s.keyLog)
	for i := 2; i < len(fields); i++ {
		wrong := slices.Clone(fields)
		wrong[i] = strings.Repeat("5", 64)
		e, d := play(t, "# one\n"+strings.Join(wrong, " "), 0, s.chunks)
		if d.Stats().Damaged != 1 || len(e.notes) == 0 {
			t.Errorf("field %d: %v", i, e.lines)
			continue
		}
		for _, n := range e.notes {
			if n.Kind != BadMAC && n.Kind != Breach || n.Kind == BadMAC && !strings.Contains(n.Text, "line 2 of the key log") {
				t.Errorf("field %d: %s", i, n.Text)
			}
		}
	}
}

func TestNoKeys(t *testing.T) {
	s, other := newScript(t), newScript(t)
	s.greet(eth68)
	s.packed(true, 2, 0xc0)
	for _, size := range []int{0, 1} {
		e, d := play(t, other.keyLog, size, s.chunks)
		e.wantLines(t, fmt.Sprintf("note no-keys: an RLPx session that is not in the key log: it has no line that begins with RLPX %x", s.keys.X))
		if st := d.Stats(); st.NoKeys != 1 || st.Sessions != 0 || st.Unfinished != 0 {
			t.Errorf("%+v", st)
		}
		if n := e.notes[0]; n.Initiator != client || n.Recipient != server || n.Session != nil {
			t.Errorf("%+v", n)
		}
	}
}

func TestUnfinishedHandshakes(t *testing.T) {
	s, other := newScript(t), newScript(t)
	auth, ack := s.chunks[0], s.chunks[1]
	cut := func(c ct.Chunk, n int) ct.Chunk { return ct.Chunk{FromClient: c.FromClient, Data: c.Data[:n]} }
	for _, tc := range []struct {
		name   string
		keyLog string
		chunks []ct.Chunk
		want   string
	}{
		{"no ack", other.keyLog, []ct.Chunk{auth}, "the recipient sent no ack"},
		{"a part of the ack", other.keyLog, []ct.Chunk{auth, cut(ack, 100)}, "100 bytes of the ack are there"},
		{"a part of auth", other.keyLog, []ct.Chunk{cut(auth, 150)}, "150 bytes of the auth packet are there"},
		{"no ack, with keys", s.keyLog, []ct.Chunk{auth}, "there is no ack in the capture"},
		{"answer in another protocol", other.keyLog, []ct.Chunk{auth, {FromClient: false, Data: []byte("HTTP/1.1 400")}}, "not an ack"},
		{"answer in another protocol, with keys", s.keyLog, []ct.Chunk{auth, {FromClient: false, Data: []byte("HTTP/1.1 400")}}, "not an ack"},
		{"ack with a point off the curve", s.keyLog, []ct.Chunk{auth, {FromClient: false, Data: append(bytes.Clone(ack.Data[:40]), make([]byte, len(ack.Data)-40)...)}}, "not an ack"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, size := range []int{0, 1} {
				e, d := play(t, tc.keyLog, size, tc.chunks)
				damaged := 0 // a session of the key log, which had an ack
				if tc.keyLog == s.keyLog {
					damaged = 1
				}
				if d.Stats().Damaged != damaged {
					t.Errorf("pieces of %d: %+v", size, d.Stats())
				}
				if len(e.notes) != 1 || e.notes[0].Kind != Unfinished || !strings.Contains(e.notes[0].Text, tc.want) || d.Stats().Unfinished != 1 {
					t.Errorf("pieces of %d: %q, %+v", size, e.lines, d.Stats())
				}
			}
		})
	}
}

// The initiator's direction can be read without the recipient's.
func TestOneDirectionOnly(t *testing.T) {
	s := newScript(t)
	s.greet(eth68)
	s.packed(true, 0x10, 1, 2, 3)
	var chunks []ct.Chunk
	for _, c := range s.chunks {
		if c.FromClient {
			chunks = append(chunks, c)
		}
	}
	e, d := play(t, s.keyLog, 0, chunks)
	if d.Stats().Messages != 2 || e.messages[1].Code != 0x10 || !bytes.Equal(e.messages[1].Payload, []byte{1, 2, 3}) {
		t.Errorf("%q", e.lines)
	}
	if len(e.notes) != 1 || !strings.Contains(e.notes[0].Text, "what the recipient sent cannot be decoded") || d.Stats().Damaged != 1 {
		t.Errorf("%q, %+v", e.lines, d.Stats())
	}
	// A capture that ends before the ack has all that it can have; one that goes on after it has
	// not.
	for n, damaged := range map[int]int{1: 0, 2: 1} {
		d, e, stream := open(t, s.keyLog)
		at := point(0)
		for _, c := range chunks[:n] {
			at = feed(stream, at, 0, c)
		}
		stream.Close(capture.StillOpen, at)
		if st := d.Stats(); st.Unfinished != 1 || st.Damaged != damaged {
			t.Errorf("%d chunks: %+v, %q", n, st, e.lines)
		}
	}
}

func TestOtherProtocols(t *testing.T) {
	for name, chunks := range map[string][]ct.Chunk{
		"HTTP":                 {{FromClient: true, Data: []byte("GET / HTTP/1.1\r\n\r\n")}, {FromClient: false, Data: []byte("HTTP/1.1 200 OK")}},
		"TLS":                  {{FromClient: true, Data: []byte{0x16, 3, 1, 2, 0, 1, 0}}},
		"SSH, server first":    {{FromClient: false, Data: []byte("SSH-2.0-x\r\n")}, {FromClient: true, Data: []byte("SSH-2.0-y\r\n")}},
		"server speaks alone":  {{FromClient: false, Data: make([]byte, 2*maxPending)}},
		"one byte":             {{FromClient: true, Data: []byte{1}}},
		"zeros":                {{FromClient: true, Data: make([]byte, 4096)}},
		"auth with no point":   {{FromClient: true, Data: append([]byte{1, 100, 4}, make([]byte, 4096)...)}},
		"the handshake before": {{FromClient: true, Data: append([]byte{4, 0x8c}, make([]byte, 307)...)}}, // EIP-8
	} {
		for _, size := range []int{0, 1} {
			e, d := play(t, "", size, chunks)
			if st := d.Stats(); st.Foreign != 1 || len(e.lines) > 0 {
				t.Errorf("%s: %q, %+v", name, e.lines, st)
			}
		}
	}
}

func TestGaps(t *testing.T) {
	s := newScript(t)
	s.greet(eth68)
	s.packed(true, 2, 0xc0)
	lost := func(before int, d capture.Direction, gap capture.Gap) (*events, *Decoder) {
		dec, e, stream := open(t, s.keyLog)
		at := point(0)
		for _, c := range s.chunks[:before] {
			at = feed(stream, at, 0, c)
		}
		stream.Gap(d, gap, at)
		for _, c := range s.chunks[before:] {
			if c.FromClient != (d == capture.FromClient) {
				at = feed(stream, at, 0, c)
			}
		}
		stream.Close(capture.Closed, at)
		if dec.held != 0 {
			t.Errorf("%d bytes are held", dec.held)
		}
		return e, dec
	}
	e, d := lost(4, capture.FromClient, capture.Gap{Offset: 600, Missing: 1448})
	wantAfterHello(t, e, "note lost: lost: 1448 bytes are missing after byte 600 of this direction (noticed in packet 4). The MACs that follow cover them, so this direction ends here")
	if d.Stats().Damaged != 1 {
		t.Errorf("%+v", d.Stats())
	}
	e, _ = lost(4, capture.FromClient, capture.Gap{Offset: 600, Missing: 1})
	if !strings.Contains(e.notes[0].Text, "lost: 1 byte missing after") {
		t.Error(e.notes[0].Text)
	}
	e, _ = lost(4, capture.FromServer, capture.Gap{Offset: 600, Snaplen: true})
	if n := e.notes[0]; !strings.Contains(n.Text, "lost: bytes are missing after byte 600") || !strings.Contains(n.Text, "tcpdump -s 0") || n.Direction != capture.FromServer {
		t.Error(n.Text)
	}
	if got := e.lines[len(e.lines)-2]; got != "1 -> p2p/0 0x2 Ping 1/3" {
		t.Errorf("the other direction ends with %q", got)
	}
	// Before a Hello that the other side waits for.
	e, d = lost(2, capture.FromServer, capture.Gap{Offset: 400})
	if d.Stats().Messages != 2 || d.Stats().Damaged != 1 {
		t.Errorf("%q", e.lines)
	}
	// In the ack: the initiator's direction can be read.
	e, d = lost(1, capture.FromServer, capture.Gap{Offset: 0})
	if d.Stats().Messages != 2 || d.Stats().Damaged != 1 {
		t.Errorf("%q", e.lines)
	}
	// In auth: nothing is known about the connection.
	e, d = lost(0, capture.FromClient, capture.Gap{Offset: 0})
	if d.Stats().Undecidable != 1 || d.Stats().Sessions != 0 || len(e.notes) != 1 || !strings.Contains(e.notes[0].Text, "before the end of a handshake") {
		t.Errorf("%q %+v", e.lines, d.Stats())
	}
}

// A gap after bytes that wait for a Hello takes nothing of them.
func TestGapWhileWaiting(t *testing.T) {
	s := newScript(t)
	s.hello(true, 5, eth68)
	s.packed(true, 0x10, 1)
	s.packed(true, 0x11, 1)
	d, e, stream := open(t, s.keyLog)
	at := point(0)
	for _, c := range s.chunks {
		at = feed(stream, at, 0, c)
	}
	stream.Gap(capture.FromClient, capture.Gap{Offset: 1}, at)
	stream.Close(capture.Closed, at)
	if d.Stats().Messages != 3 || d.held != 0 {
		t.Errorf("%q", e.lines)
	}
}

// Frames for which there is no room are verified, and have their sizes.
func TestNoRoom(t *testing.T) {
	const size = 15 << 20 // which takes one of the largest buffers
	payload := make([]byte, size)
	rand.NewChaCha8([32]byte{}).Read(payload)
	log := ""
	var scripts []*script
	for range 3 {
		s := newScript(t)
		s.greet(eth68)
		s.packed(true, 0x10, payload...)
		s.packed(true, 2, 0xc0)
		log += s.keyLog
		scripts = append(scripts, s)
	}
	d, e, _ := open(t, log)
	var streams []capture.Stream
	for _, s := range scripts {
		stream := d.Open(&capture.Conn{Client: client, Server: server, FromStart: true, Start: point(1)})
		for _, c := range s.chunks[:4] {
			feed(stream, point(1), 0, c)
		}
		streams = append(streams, stream)
	}
	before := len(e.messages)
	for i, s := range scripts {
		data := s.chunks[4].Data
		for part := range slices.Chunk(data[:len(data)-1], 60000) {
			streams[i].Data(capture.FromClient, part, point(100))
			if d.held > maxHeld {
				t.Fatalf("%d bytes are held", d.held)
			}
		}
	}
	for i, s := range scripts {
		data := s.chunks[4].Data
		streams[i].Data(capture.FromClient, data[len(data)-1:], point(101))
	}
	kept := 0
	for _, m := range e.messages[before:] {
		if m.Plain != size || m.Code != 0x10 || m.Name != "Status" || m.Problem != "" || m.Wire < size {
			t.Errorf("plain %d, wire %d, code %#x %s: %s", m.Plain, m.Wire, m.Code, m.Name, m.Problem)
		}
		if m.Payload != nil {
			kept++
			if !bytes.Equal(m.Payload, payload) {
				t.Error("the payload is another one")
			}
		}
	}
	if n := len(e.messages) - before; n != len(scripts) || kept == 0 || kept == n || d.Stats().Dropped != n-kept {
		t.Errorf("%d messages, %d kept, %+v", n, kept, d.Stats())
	}
	before = len(e.messages)
	for i, s := range scripts {
		feed(streams[i], point(102), 0, s.chunks[5]) // the MAC chain goes on
		streams[i].Close(capture.Closed, point(103))
	}
	if n := len(e.messages) - before; n != len(scripts) || d.held != 0 || len(e.notes) > 0 {
		t.Errorf("%d messages after them, %d bytes held, %d notes", n, d.held, len(e.notes))
	}
}
