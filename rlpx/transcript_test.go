package rlpx_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// Recorded sessions with foreign peers, replayed: testdata/transcripts/README.md says how they are
// made.

// Bounds of the files, so that they stay something to read.
const (
	maxTranscriptFile  = 64 << 10
	maxTranscriptFiles = 500 << 10
)

// TestTranscripts replays each recorded session with our end as it was, and the recorded bytes in
// place of the peer. What our end does must be the recorded bytes again, and what it reads what an
// independent decoder makes of them.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("there are no transcripts")
	}
	total := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > maxTranscriptFile {
			t.Errorf("%s has %d bytes, limit %d", file, len(text), maxTranscriptFile)
		}
		total += len(text)
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			s, err := openTranscript(text)
			if err != nil {
				t.Fatal(err)
			}
			t.Run("claims", s.checkClaims)
			for _, feed := range feeds {
				t.Run(feed.name, func(t *testing.T) { s.replay(t, feed.conn(s, rlpxtest.NewScript(s.Bytes(rlpxtest.In)))) })
			}
			t.Run("damaged handshake", s.replayDamagedHandshake)
			t.Run("damaged frame", s.replayDamagedFrames)
			t.Run("cut", s.replayCut)
		})
	}
	if total > maxTranscriptFiles {
		t.Errorf("all transcripts together have %d bytes, limit %d", total, maxTranscriptFiles)
	}
}

// recordedSession is a transcript that was opened.
type recordedSession struct {
	*rlpxtest.Transcript
	*rlpxtest.Decoded
}

func openTranscript(text []byte) (recordedSession, error) {
	t, d, err := rlpxtest.OpenTranscript(text)
	return recordedSession{t, d}, err
}

// checkClaims compares what the transcript says of the base protocol's messages with what package
// p2p makes of them. That it has these messages was checked when it was opened.
func (s recordedSession) checkClaims(t *testing.T) {
	for i, m := range s.Decoded.Messages {
		words := ""
		switch m.Code {
		case p2p.HelloCode:
			hello, err := p2p.DecodeHello(m.Data)
			if err != nil {
				t.Errorf("message %d: %v", i, err)
				continue
			}
			words = fmt.Sprintf("Hello version %d, name %q, capabilities", hello.Version, hello.Name)
			for _, c := range hello.Caps {
				words += " " + c.String()
			}
			if m.Way == rlpxtest.Out {
				if again, err := p2p.AppendHello(nil, hello); err != nil || !bytes.Equal(again, m.Data) {
					t.Errorf("our Hello is %x, error %v; recorded %x", again, err, m.Data)
				}
			}
		case p2p.DisconnectCode:
			reason := p2p.DecodeWireDisconnect(m.Payload, s.Snappy && i > 0)
			words = fmt.Sprintf("Disconnect reason %#02x,", uint16(reason))
		case p2p.PingCode:
			words = "Ping"
		case p2p.PongCode:
			words = "Pong"
		}
		if !strings.HasPrefix(m.Words, words) {
			t.Errorf("message %d: %q, want %q", i, m.Words, words)
		}
	}
}

// feeds are the ways in which the peer's bytes come.
var feeds = []struct {
	name string
	conn func(recordedSession, net.Conn) net.Conn
}{
	{"at once", func(_ recordedSession, c net.Conn) net.Conn { return c }},
	{"as they came", func(s recordedSession, c net.Conn) net.Conn { return s.inChunks(c) }},
	{"byte by byte", func(_ recordedSession, c net.Conn) net.Conn { return rlpxtest.OneByte(c) }},
}

// inChunks ends a Read where one ended when the session was recorded.
func (s recordedSession) inChunks(conn net.Conn) net.Conn {
	var left []int
	for _, chunk := range s.Chunks {
		if chunk.Way == rlpxtest.In {
			left = append(left, len(chunk.Data))
		}
	}
	return &rlpxtest.Filter{Conn: conn, OnRead: func(inner net.Conn, p []byte) (int, error) {
		if len(left) > 0 {
			p = p[:min(len(p), left[0])]
		}
		n, err := inner.Read(p)
		if len(left) > 0 {
			if left[0] -= n; left[0] == 0 {
				left = left[1:]
			}
		}
		return n, err
	}}
}

// connect performs the recorded handshake over conn.
func (s recordedSession) connect(t *testing.T, conn net.Conn) (*rlpx.Conn, error) {
	cfg := &rlpx.Config{Key: s.Key, Rand: bytes.NewReader(s.Rand)}
	c := rlpx.Server(conn, cfg)
	if s.Role == rlpxtest.Initiator {
		c = rlpx.Client(conn, s.Remote, cfg)
	}
	remote, err := c.HandshakeContext(t.Context())
	if err == nil && !remote.Equal(s.Remote) {
		t.Errorf("the handshake gives another key than was recorded")
	}
	return c, err
}

// inOrder has the first message of either side in front, since both sides know what to compress
// only after these.
func (s recordedSession) inOrder() []rlpxtest.DecodedMessage {
	var first, rest []rlpxtest.DecodedMessage
	there := map[rlpxtest.Way]bool{}
	for _, m := range s.Decoded.Messages {
		if there[m.Way] {
			rest = append(rest, m)
		} else {
			first = append(first, m)
		}
		there[m.Way] = true
	}
	return append(first, rest...)
}

// replay does the session again over conn, which delivers what the peer sent.
func (s recordedSession) replay(t *testing.T, conn net.Conn) {
	written := new(bytes.Buffer)
	c, err := s.connect(t, &rlpxtest.Filter{Conn: conn, OnWrite: func(_ net.Conn, p []byte) (int, error) { return written.Write(p) }})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(written.Bytes(), s.Handshake(s.Transcript, rlpxtest.Out)) {
		t.Fatal("our handshake packet is not what was recorded")
	}
	sent := s.Bytes(rlpxtest.Out)
	for i, m := range s.inOrder() {
		c.SetSnappy(s.Snappy && i >= 2)
		if m.Way == rlpxtest.In {
			if err := expectRecorded(c, m); err != nil {
				t.Fatalf("message %d, %v: %v", i, m.Message, err)
			}
			continue
		}
		if m.Compressed {
			// Then what follows could not be the recorded bytes, whatever we do.
			if block := snappy.Encode(nil, m.Data); !bytes.Equal(block, m.Payload) {
				t.Fatalf("message %d, %v: the snappy encoder's output is not what it was; record again", i, m.Message)
			}
		}
		start := written.Len()
		if n, err := c.Write(m.Code, m.Data); err != nil || int(n) != len(m.Payload) {
			t.Fatalf("message %d, %v: wrote %d bytes, error %v", i, m.Message, n, err)
		}
		if !bytes.Equal(written.Bytes()[start:], sent[start:m.End]) {
			t.Fatalf("message %d, %v: our frame is not what was recorded", i, m.Message)
		}
	}
	if written.Len() != len(sent) {
		t.Errorf("wrote %d bytes, recorded %d", written.Len(), len(sent))
	}
	if s.endsInPayload() {
		return // the last message ended reading
	}
	if code, _, _, err := c.Read(); err != io.EOF {
		t.Errorf("after the last message: code %#x, error %v", code, err)
	}
}

// endsInPayload reports whether the last message of the peer is one that Read cannot decompress.
func (s recordedSession) endsInPayload() bool {
	in := s.Of(rlpxtest.In)
	return s.Snappy && !in[len(in)-1].Compressed
}

// expectRecorded reads a message, which may be a Disconnect that is not compressed where it should
// be.
func expectRecorded(c *rlpx.Conn, m rlpxtest.DecodedMessage) error {
	code, data, size, err := c.Read()
	if payload, ok := errors.AsType[*rlpx.PayloadError](err); ok && m.Code == p2p.DisconnectCode && !m.Compressed {
		if payload.Code != m.Code {
			return fmt.Errorf("payload of code %#x", payload.Code)
		}
		data, size, err = payload.Payload, len(payload.Payload), nil
	}
	switch {
	case err != nil:
		return err
	case code != m.Code || size != len(m.Payload):
		return fmt.Errorf("read code %#x, %d bytes on the wire", code, size)
	case !bytes.Equal(data, m.Data):
		return fmt.Errorf("read %d bytes that are not those of the independent decoder", len(data))
	}
	return nil
}

// replayDamagedHandshake flips a bit of the peer's handshake packet.
func (s recordedSession) replayDamagedHandshake(t *testing.T) {
	packet := len(s.Handshake(s.Transcript, rlpxtest.In))
	for _, at := range []int{2, 2 + 64, 2 + 65, packet / 2, packet - 32, packet - 1} {
		conn := rlpxtest.Damage(rlpxtest.NewScript(s.Bytes(rlpxtest.In)), at, 1)
		if _, err := s.connect(t, conn); !errors.Is(err, rlpx.ErrHandshake) {
			t.Errorf("byte %d of %d: %v", at, packet, err)
		}
	}
}

// replayDamagedFrames flips a bit in each frame of the peer: in each of its four parts.
func (s recordedSession) replayDamagedFrames(t *testing.T) {
	in := s.Of(rlpxtest.In)
	start := len(s.Handshake(s.Transcript, rlpxtest.In))
	for i, m := range in {
		for _, at := range []int{start, start + 16, start + rlpxtest.HeaderSize, m.End - 1} {
			err := s.readUntil(t, rlpxtest.Damage(rlpxtest.NewScript(s.Bytes(rlpxtest.In)), at, 1), i)
			if !errors.Is(err, rlpx.ErrAuthentication) {
				t.Errorf("byte %d, of message %d: %v", at, i, err)
			}
		}
		start = m.End
	}
}

// replayCut ends the connection within each frame of the peer.
func (s recordedSession) replayCut(t *testing.T) {
	wire := s.Bytes(rlpxtest.In)
	start := len(s.Handshake(s.Transcript, rlpxtest.In))
	for i, m := range s.Of(rlpxtest.In) {
		for cut, want := range map[int]error{start: io.EOF, start + 1: io.ErrUnexpectedEOF, m.End - 1: io.ErrUnexpectedEOF} {
			if err := s.readUntil(t, rlpxtest.NewScript(wire[:cut:cut]), i); err != want {
				t.Errorf("cut at %d, in message %d: %v, want %v", cut, i, err, want)
			}
		}
		start = m.End
	}
}

// readUntil reads the first n messages of the peer, which must come, and returns the error of the
// next Read.
func (s recordedSession) readUntil(t *testing.T, conn net.Conn, n int) error {
	t.Helper()
	c, err := s.connect(t, conn)
	if err != nil {
		t.Fatal(err)
	}
	in := s.Of(rlpxtest.In)
	for i, m := range in[:n] {
		if err := expectRecorded(c, m); err != nil {
			t.Fatalf("message %d of %d: %v", i, n, err)
		}
		c.SetSnappy(s.Snappy)
	}
	_, data, _, err := c.Read()
	if data != nil {
		t.Errorf("message %d: data with error %v", n, err)
	}
	if _, _, _, again := c.Read(); again != err {
		t.Errorf("message %d: %v, and then %v", n, err, again)
	}
	return err
}

// TestTranscriptsMalformed shows that a damaged file is told, and how.
func TestTranscriptsMalformed(t *testing.T) {
	const file = "testdata/transcripts/ethereumjs-it-dials-hello5.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	line := func(prefix string) string {
		at := bytes.Index(text, []byte("\n"+prefix))
		if at < 0 {
			t.Fatalf("%s has no line that begins with %q", file, prefix)
		}
		rest, _, _ := strings.Cut(string(text[at+1:]), "\n")
		return rest
	}
	for _, tc := range []struct{ name, old, now, want string }{
		{"empty", string(text), "", "line 0"},
		{"title", "rlpx transcript 1", "rlpx transcript 2", "line 1"},
		{"missing field", line("peer: ") + "\n", "", `line 2: no "peer: "`},
		{"empty field", line("story: "), "story: ", "line 5: story: empty"},
		{"role", line("role: "), "role: spectator", "line 6: role"},
		{"end", line("end: "), "end: unknown", "line 7: end"},
		{"key", line("key: "), "key: 00", "line 8: key"},
		{"another key", line("key: "), "key: " + strings.Repeat("11", 32), ""},
		{"remote", line("remote: "), "remote: " + strings.Repeat("11", 64), "line 9: remote"},
		{"rand", line("rand: "), "rand: xy", "line 10: rand"},
		{"short rand", line("rand: "), line("rand: ")[:100], ""},
		{"long rand", line("rand: "), line("rand: ") + "00", "1 bytes of randomness are left"},
		{"message", line("> 0x0"), "> 0x0 1 2", "is no message"},
		{"digest", line("> 0x0"), "> 0x0 1 2 abcd", "digest"},
		{"no wire", "\nwire:", "", "is no message"},
		{"hex", "\nwire:\n< ", "\nwire:\n< x", "encoding/hex"},
		{"first line indented", "\nwire:\n<", "\nwire:\n ", "direction"},
		{"cut", string(text[len(text)-10:]), "", ""},
		{"cut at a line", string(text[bytes.LastIndexByte(text[:len(text)-1], '\n')+1:]), "", ""},
		{"claim", " Ping\n", " Pong\n", "claims"},
		{"claim too much", "\nwire:", "\n> 0x1 1 1 00000000000000000000000000000000\nwire:", "claims"},
		{"upper case", line("key: "), "key: " + strings.ToUpper(line("key: ")[5:]), "not in the form"},
		{"more", string(text[len(text)-10:]), string(text[len(text)-10:]) + "\n", "no line of the wire"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			damaged := strings.Replace(string(text), tc.old, tc.now, 1)
			if damaged == string(text) {
				t.Fatal("not damaged")
			}
			_, err := openTranscript([]byte(damaged))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}
