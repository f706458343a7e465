package decode

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capture"
	ct "github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capturetest"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// wantAfterHello checks what comes after two Hellos.
func wantAfterHello(t *testing.T, e *events, want ...string) {
	t.Helper()
	lines := e.lines
	if len(lines) < 6 || !slices.Equal(lines[:3], opening) ||
		!strings.HasPrefix(lines[3], "1 -> p2p/0 0x0 Hello initiator/1.0 ") || !strings.HasPrefix(lines[4], "1 <- p2p/0 0x0 Hello recipient/1.0 ") {
		t.Fatalf("the session begins with\n\t%s", strings.Join(lines, "\n\t"))
	}
	(&events{lines: lines[5:]}).wantLines(t, append(want, "end 1: closed")...)
}

func TestMessages(t *testing.T) {
	s := newScript(t)
	s.greet(eth68, eth69, snap1)
	s.packed(true, 2, 0xc0)
	s.packed(false, 3, 0xc0)
	s.packed(false, 0x10, bytes.Repeat([]byte{7}, 1000)...)
	s.packed(true, 0x13, 1, 2, 3)
	s.packed(true, 0x21)     // eth/69 has 18
	s.packed(false, 0x22, 5) // snap/1
	s.packed(false, 0x29, 5) // its last
	s.packed(true, 5, 5)     // reserved
	s.message(true, 1, 2, 4, 0xc1, 8)
	for _, size := range []int{0, 1, 7, 16, 33, 1000} {
		e, d := s.play(size)
		wantAfterHello(t, e,
			"1 -> p2p/0 0x2 Ping 1/3",
			"1 <- p2p/0 0x3 Pong 1/3",
			fmt.Sprintf("1 <- eth/69 0x0 Status 1000/%d", len(snappy.Encode(nil, bytes.Repeat([]byte{7}, 1000)))),
			"1 -> eth/69 0x3 GetBlockHeaders 3/5",
			"1 -> eth/69 0x11 BlockRangeUpdate 0/1",
			"1 <- snap/1 0x0 GetAccountRange 1/3",
			"1 <- snap/1 0x7 TrieNodes 1/3",
			"1 -> p2p/0 0x5  1/3",
			"1 -> p2p/0 0x1 Disconnect client quitting 2/4")
		if got := e.messages[4].Payload; !bytes.Equal(got, bytes.Repeat([]byte{7}, 1000)) {
			t.Errorf("the Status has %d bytes", len(got))
		}
		if m := e.messages[2]; m.Frame != 32+16+16 || !m.Snappy || m.Code != 2 {
			t.Errorf("the Ping is %+v", m)
		}
		if m := e.messages[8]; m.Code != 0x29 {
			t.Errorf("the last of snap/1 is %+v", m)
		}
		if st := d.Stats(); st.Sessions != 1 || st.Messages != 11 || st.Damaged != 0 {
			t.Errorf("%+v", st)
		}
	}
}

// Compression follows the versions of the two Hellos, and nothing else.
func TestVersions(t *testing.T) {
	for _, versions := range [][2]uint64{{4, 4}, {4, 5}, {5, 4}, {5, 5}, {5, 55}} {
		s := newScript(t)
		s.hello(true, versions[0], eth68)
		s.hello(false, versions[1], eth68)
		on := min(versions[0], versions[1]) >= 5
		want := "1 -> eth/68 0x0 Status 3/3"
		if on {
			s.packed(true, 0x10, 1, 2, 3)
			want = "1 -> eth/68 0x0 Status 3/5"
		} else {
			s.message(true, 0x10, 1, 2, 3)
		}
		e, _ := s.play(0)
		wantAfterHello(t, e, want)
		if m := e.messages[2]; m.Snappy != on || !bytes.Equal(m.Payload, []byte{1, 2, 3}) {
			t.Errorf("versions %d: %+v", versions, m)
		}
	}
}

// The forms of Disconnect that are seen on public networks, before and after Hello, compressed or
// not.
func TestDisconnect(t *testing.T) {
	for _, tc := range []struct {
		payload []byte
		want    string
	}{
		{[]byte{0xc1, 0x04}, "too many peers"},
		{[]byte{0x04}, "too many peers"},
		{[]byte{0xc1, 0x10}, "subprotocol error"},
		{[]byte{0x10}, "subprotocol error"},
		{[]byte{0xc1, 0x80}, "disconnect requested"},
		{[]byte{0x80}, "disconnect requested"},
		{[]byte{0x00}, "disconnect requested"},
		{[]byte{0xc0}, "no reason given"},
		{nil, "no reason given"},
		{[]byte{0xc2, 0x81, 0x80}, "unknown disconnect reason 0x80"},
		{[]byte{0xc2, 0x04, 0x10}, "too many peers"},
		{[]byte{0xff, 0xff}, "no reason given"},
	} {
		for _, compressed := range []bool{true, false} {
			wire := tc.payload
			if compressed {
				wire = snappy.Encode(nil, wire)
			}
			if compressed && len(tc.payload) == 0 {
				continue // looks like a bare 0
			}
			for _, after := range []string{"handshake", "own Hello", "other's Hello", "Hello"} {
				t.Run(fmt.Sprintf("%x after %s", wire, after), func(t *testing.T) {
					s := newScript(t)
					switch after {
					case "own Hello":
						s.hello(false, 5, eth68)
					case "other's Hello":
						s.hello(true, 5, eth68)
					case "Hello":
						s.greet(eth68)
					}
					s.message(false, 1, wire...)
					e, _ := s.play(0)
					m := e.messages[len(e.messages)-1]
					if m.Name != "Disconnect" || m.Disconnect.String() != tc.want || m.Problem != "" {
						t.Errorf("got %v, %+v", m.Disconnect, m)
					}
				})
			}
		}
	}
}

// A Disconnect in place of Hello leaves the other side's messages without capabilities, not without
// a line.
func TestDisconnectInsteadOfHello(t *testing.T) {
	s := newScript(t)
	s.hello(true, 5, eth68)
	s.message(false, 1, 0xc1, 0x04)
	s.packed(true, 2, 0xc0)
	e, _ := s.play(0)
	e.wantLines(t, inSession(e.lines[3], "1 <- p2p/0 0x1 Disconnect too many peers 2/2", "1 -> p2p/0 0x2 Ping 1/3")...)
}

func TestBreaches(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(s *script)
		want []string
	}{
		{"second Hello", func(s *script) { s.hello(true, 5, eth68) }, []string{"1 -> p2p/0 0x0 Hello initiator/1.0 %d/%d !! a second Hello, or one that is not the first message"}},
		{"code of nobody", func(s *script) { s.packed(true, 0x50, 1) }, []string{"1 -> /0 0x0  1/3 !! its code belongs to no shared capability"}},
		{"no code", func(s *script) { s.frame(true, 0xc0, 1) }, []string{"1 -> /0 0x0  2/2 !! it does not begin with a message code"}},
		{"code with zeros before it", func(s *script) { s.frame(true, 0, 1) }, []string{"1 -> /0 0x0  2/2 !! it does not begin with a message code"}},
		{"code of nine bytes", func(s *script) { s.frame(true, append([]byte{0x89}, bytes.Repeat([]byte{1}, 9)...)...) }, []string{"1 -> /0 0x0  10/10 !! it does not begin with a message code"}},
		{"no snappy block", func(s *script) { s.message(true, 0x10, 0xff, 1, 2) }, []string{"1 -> eth/68 0x0 Status 3/3 !! its payload is not a snappy block"}},
		{"empty snappy block", func(s *script) { s.message(true, 2) }, []string{"1 -> p2p/0 0x2 Ping 0/0 !! its payload is not a snappy block"}},
		{"4 GiB declared", func(s *script) { s.message(true, 0x10, 0xff, 0xff, 0xff, 0xff, 0x0f) }, []string{"1 -> eth/68 0x0 Status 5/5 !! it declares more than the 16777215 bytes that the protocol allows"}},
		{"16 MiB declared", func(s *script) { s.message(true, 0x10, 0x80, 0x80, 0x80, 0x08) }, []string{"1 -> eth/68 0x0 Status 4/4 !! it declares more than the 16777215 bytes that the protocol allows"}},
		{"16 MiB - 1 declared", func(s *script) { s.message(true, 0x10, 0xff, 0xff, 0xff, 0x07) }, []string{"1 -> eth/68 0x0 Status 4/4 !! its payload is not a snappy block"}},
		{"raw Disconnect read as snappy", func(s *script) { s.message(true, 1, 0xc1, 4) }, []string{"1 -> p2p/0 0x1 Disconnect too many peers 2/2"}},
		{"frame without data", func(s *script) {
			s.bytes(true, s.egress[0].SealHeader(rlpxtest.MakeHeader(0, rlpxtest.HeaderData)))
			s.packed(true, 2, 0xc0) // is not read
		}, []string{"note breach: frame 2 at byte %d announces no data, which no client accepts: this direction ends here"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScript(t)
			s.greet(eth68)
			offset := len(s.chunks[0].Data) + len(s.chunks[2].Data)
			tc.do(s)
			s.packed(false, 2, 0xc0) // the other direction goes on
			e, d := s.play(0)
			hello := len(s.inner.Hello(true, 5, eth68))
			for i := range tc.want {
				switch strings.Count(tc.want[i], "%d") {
				case 1:
					tc.want[i] = fmt.Sprintf(tc.want[i], offset)
				case 2:
					tc.want[i] = fmt.Sprintf(tc.want[i], hello, hello)
				}
			}
			wantAfterHello(t, e, append(tc.want, "1 <- p2p/0 0x2 Ping 1/3")...)
			if d.Stats().Damaged != 0 {
				t.Error("what a peer does passes for damage")
			}
			if cap(d.plain) > 1<<16 {
				t.Errorf("%d bytes for a payload that was only announced", cap(d.plain))
			}
		})
	}
}

func TestBadHellos(t *testing.T) {
	for name, payload := range map[string][]byte{"empty": nil, "no list": {1}, "too big": append([]byte{0xf9, 0x10, 0x00}, make([]byte, 0x1000)...)} {
		s := newScript(t)
		s.message(true, 0, payload...)
		s.hello(false, 5, eth68)
		s.packed(true, 0x10, 1)
		e, _ := s.play(0)
		if len(e.messages) != 3 {
			t.Fatalf("%s: %d messages", name, len(e.messages))
		}
		if m := e.messages[0]; m.Hello != nil || m.Problem == "" || m.Name != "Hello" {
			t.Errorf("%s: %+v", name, m)
		}
		if m := e.messages[2]; m.Cap.Name != "" || m.Problem == "" || m.Code != 0x10 {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// Which capabilities are shared is found as nodes do, whatever else is announced.
func TestCapabilities(t *testing.T) {
	long := p2p.Cap{Name: "a-name-too-long", Version: 1}
	for _, tc := range []struct {
		name         string
		ours, theirs []p2p.Cap
		code         uint64
		want         string
		hint         bool
	}{
		{"highest version", []p2p.Cap{eth68, eth69}, []p2p.Cap{eth68, eth69}, 0x21, "eth/69 0x11 BlockRangeUpdate", false},
		{"shared version", []p2p.Cap{eth68, eth69, snap1}, []p2p.Cap{eth68, snap1}, 0x21, "snap/1 0x0 GetAccountRange", false},
		{"not shared", []p2p.Cap{eth68}, []p2p.Cap{snap1}, 0x10, "/0 0x0 ", false},
		{"nobody knows it", []p2p.Cap{odd}, []p2p.Cap{odd}, 0x10 + 255, "odd/1 0xff ", false},
		{"after one that nobody knows", []p2p.Cap{odd, snap1}, []p2p.Cap{odd, snap1}, 0x110, "snap/1 0x0 GetAccountRange", true},
		{"before one that nobody knows", []p2p.Cap{eth68, odd}, []p2p.Cap{eth68, odd}, 0x10, "eth/68 0x0 Status", false},
		{"name that no node uses", []p2p.Cap{long, eth68, eth68}, []p2p.Cap{long, eth68}, 0x10, "eth/68 0x0 Status", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScript(t)
			for i, caps := range [][]p2p.Cap{tc.ours, tc.theirs} {
				s.message(i == 0, 0, foreignHello(s.inner.Hello(i == 0, 5), caps)...)
			}
			s.packed(true, tc.code, 1)
			e, _ := s.play(0)
			m := e.messages[2]
			if got := fmt.Sprintf("%v %#x %s", m.Cap, m.ID, m.Name); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if len(e.notes) > 0 != tc.hint {
				t.Errorf("notes %q", e.lines)
			}
		})
	}
}

// A direction that is captured late waits for nothing but what it depends on, and nothing is lost.
func TestHelloCapturedLate(t *testing.T) {
	s := newScript(t)
	s.greet(eth68)
	s.packed(true, 0x10, 1, 2, 3)
	s.packed(true, 2, 0xc0)
	s.packed(false, 0x10, 1, 2)
	c := s.chunks
	for name, order := range map[string][]int{
		"recipient first":          {1, 3, 6, 0, 2, 4, 5},
		"recipient after auth":     {0, 1, 3, 6, 2, 4, 5},
		"recipient's Hello last":   {0, 1, 2, 4, 5, 3, 6},
		"recipient's ack last":     {0, 2, 4, 5, 1, 3, 6},
		"initiator's Hello last":   {0, 1, 3, 6, 2, 4, 5},
		"all of initiator, then r": {0, 2, 4, 5, 1, 3, 6},
	} {
		for _, size := range []int{0, 1, 50} {
			var chunks []ct.Chunk
			for _, i := range order {
				chunks = append(chunks, c[i])
			}
			e, d := play(t, s.keyLog, size, chunks)
			slices.Sort(e.lines)
			all := strings.Join(e.lines, "\n")
			for _, want := range []string{"1 -> eth/68 0x0 Status 3/5", "1 -> p2p/0 0x2 Ping 1/3", "1 <- eth/68 0x0 Status 2/4"} {
				if !strings.Contains(all, want) {
					t.Errorf("%s, pieces of %d: no %q in\n%s", name, size, want, all)
				}
			}
			if d.Stats().Messages != 5 || len(e.notes) > 0 {
				t.Errorf("%s, pieces of %d: %+v\n%s", name, size, d.Stats(), all)
			}
		}
	}
}

// A side whose Hello is not in the capture does not hold the other one back for ever.
func TestHelloMissing(t *testing.T) {
	s := newScript(t)
	s.hello(true, 5, eth68)
	const n = 40
	for range n {
		s.packed(true, 0x10, rlpxtest.Random(rand.New(rand.NewPCG(1, 1)), 10<<10)...)
	}
	e, d := s.play(0)
	if d.Stats().Messages != 1+n {
		t.Errorf("%d messages", d.Stats().Messages)
	}
	if len(e.notes) != 1 || e.notes[0].Kind != Breach || e.notes[0].Direction != capture.FromServer {
		t.Errorf("notes %+v", e.notes)
	}
	if m := e.messages[n]; m.Plain != 10<<10 || m.Cap.Name != "" || m.Code != 0x10 {
		t.Errorf("%+v", m)
	}
	if m := e.messages[1]; m.At.Packet >= 40 {
		t.Error("the message has the time of what it waited for")
	}
}
