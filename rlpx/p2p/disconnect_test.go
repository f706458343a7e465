package p2p

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang/snappy"
)

// disconnectForms are the payloads that peers of public networks send, or could, each with the
// reason that it means.
var disconnectForms = []struct {
	payload string
	want    DiscReason
}{
	{"c104", DiscTooManyPeers},
	{"04", DiscTooManyPeers},
	{"c110", DiscSubprotocolError},
	{"10", DiscSubprotocolError},
	{"c180", DiscRequested},
	{"80", DiscRequested},
	{"00", DiscRequested},
	{"c100", DiscRequested},
	{"c0", DiscUnspecified},
	{"", DiscUnspecified},
	{"c20410", DiscTooManyPeers},
	{"c204c0", DiscTooManyPeers},
	{"c104ffff", DiscTooManyPeers},
	{"f83804" + strings.Repeat("80", 55), DiscTooManyPeers},
	{"0b", DiscReadTimeout},
	{"7f", 0x7f},
	{"c17f", 0x7f},
	{"8180", 0x80},
	{"c28180", 0x80},
	{"81ff", 0xff},
	{"c281ff", 0xff},
	{"8104", DiscUnspecified},
	{"c28104", DiscUnspecified},
	{"820100", DiscUnspecified},
	{"c3820100", DiscUnspecified},
	{"c988ffffffffffffffff", DiscUnspecified},
	{"c3820004", DiscUnspecified},
	{"c1", DiscUnspecified},
	{"c204", DiscUnspecified},
	{"c1c0", DiscUnspecified},
	{"c2c104", DiscUnspecified},
	{"ff", DiscUnspecified},
	{"0405", DiscUnspecified},
	{"b8", DiscUnspecified},
	{"bfffffffffffffffff04", DiscUnspecified},
	{"ffffffffffffffffff04", DiscUnspecified},
	{"746f6f206d616e79207065657273", DiscUnspecified}, // "too many peers"
}

func TestCase_B1_DisconnectForms(t *testing.T) {
	for _, tt := range disconnectForms {
		if got := DecodeDisconnect(unhex(t, tt.payload)); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.payload, got, tt.want)
		}
	}
}

func TestCase_B1_OurForm(t *testing.T) {
	for reason, want := range map[DiscReason]string{
		DiscRequested: "c180", DiscTooManyPeers: "c104", DiscReadTimeout: "c10b", DiscSubprotocolError: "c110",
		0x7f: "c17f", 0x80: "c28180", 0xff: "c281ff", DiscUnspecified: "c180", 0xffff: "c180",
	} {
		got := AppendDisconnect([]byte{0xaa}, reason)
		if want := append([]byte{0xaa}, unhex(t, want)...); !bytes.Equal(got, want) {
			t.Errorf("%#x: got %x, want %x", uint16(reason), got, want)
		}
	}
	for reason := range DiscReason(0x100) {
		if got := DecodeDisconnect(AppendDisconnect(nil, reason)); got != reason {
			t.Errorf("%#x came back as %#x", uint16(reason), uint16(got))
		}
	}
}

// Any reason, whatever its number, prints.
func TestDisconnectAnyReason(t *testing.T) {
	seen := make(map[string]DiscReason)
	for i := range 1 << 16 {
		reason := DiscReason(i)
		text := reason.Error()
		checkText(t, text)
		if other, ok := seen[text]; ok {
			t.Fatalf("%#x and %#x are both %q", uint16(other), i, text)
		}
		seen[text] = reason
	}
}

func TestCase_B3_LargeDisconnect(t *testing.T) {
	big := make([]byte, 1<<20)
	copy(big, []byte{0xc1, 0x04})
	list := make([]byte, 1<<20)
	copy(list, []byte{0xfa, 0x0f, 0xff, 0xfc, 0x04})
	for _, tt := range []struct {
		name       string
		payload    []byte
		compressed bool
		want       DiscReason
	}{
		{"junk after the list", big, false, DiscTooManyPeers},
		{"junk after the list, not compressed though due", big, true, DiscTooManyPeers},
		{"reason within a large list", list, false, DiscUnspecified},
		{"compressed", snappy.Encode(nil, big), true, DiscUnspecified},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := DecodeWireDisconnect(tt.payload, tt.compressed); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if n := testing.AllocsPerRun(10, func() { DecodeWireDisconnect(tt.payload, tt.compressed) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
			// Bytes behind the part that is looked at change nothing.
			damaged := bytes.Clone(tt.payload)
			for i := disconnectLimit; i < len(damaged); i++ {
				damaged[i] ^= 0xff
			}
			if got := DecodeWireDisconnect(damaged, tt.compressed); got != tt.want {
				t.Errorf("with other bytes behind: %v", got)
			}
		})
	}
}

// wireForms are payloads as they are on a connection with compression on.
var wireForms = []struct {
	payload string
	want    DiscReason
}{
	// Not compressed though due.
	{"c104", DiscTooManyPeers},
	{"04", DiscTooManyPeers},
	{"c110", DiscSubprotocolError},
	{"10", DiscSubprotocolError},
	{"c180", DiscRequested},
	{"80", DiscRequested},
	{"c100", DiscRequested},
	{"c28180", 0x80},
	{"8180", 0x80},
	{"c20410", DiscTooManyPeers},
	{"00", DiscRequested}, // or compressed and empty: cannot be told
	{"c0", DiscUnspecified},
	{"", DiscUnspecified},
	// Compressed.
	{"0204c104", DiscTooManyPeers},
	{"010004", DiscTooManyPeers},
	{"010010", DiscSubprotocolError},
	{"010080", DiscRequested},
	{"010000", DiscRequested},
	{"0204c180", DiscRequested},
	{"0100c0", DiscUnspecified},
	{"020481ff", 0xff},
	// Neither.
	{"ff", DiscUnspecified},
	{"8080800800", DiscUnspecified}, // declares 16 MiB
	{"ffffffff0f", DiscUnspecified}, // declares 4 GiB
	{"ffffffffff", DiscUnspecified},
	{"0204c1", DiscUnspecified},
	{"0100", DiscUnspecified},
}

func TestCase_S4_WireDisconnect(t *testing.T) {
	for _, tt := range wireForms {
		payload := unhex(t, tt.payload)
		// Whichever is tried first, the result is the same.
		for _, compressed := range []bool{true, false} {
			if got := DecodeWireDisconnect(payload, compressed); got != tt.want {
				t.Errorf("%s, compressed=%v: got %v, want %v", tt.payload, compressed, got, tt.want)
			}
		}
		if n := testing.AllocsPerRun(10, func() { DecodeWireDisconnect(payload, true) }); n != 0 {
			t.Errorf("%s: %v allocations", tt.payload, n)
		}
	}
}

// All forms mean the same when they come compressed.
func TestCase_I2_FormsCompressed(t *testing.T) {
	for _, tt := range disconnectForms {
		want := tt.want
		if tt.payload == "" {
			want = DiscRequested // one zero byte on the wire
		}
		wire := snappy.Encode(nil, unhex(t, tt.payload))
		for _, compressed := range []bool{true, false} {
			if got := DecodeWireDisconnect(wire, compressed); got != want {
				t.Errorf("%s, on the wire %x, compressed=%v: got %v, want %v", tt.payload, wire, compressed, got, want)
			}
		}
	}
}

// Frame data seen on the network, code included.
func TestCase_I1_FrameData(t *testing.T) {
	for frame, want := range map[string]DiscReason{
		"01010004": DiscTooManyPeers, "01010010": DiscSubprotocolError,
		"010204c104": DiscTooManyPeers, "01010080": DiscRequested,
	} {
		data := unhex(t, frame)
		if uint64(data[0]) != DisconnectCode {
			t.Fatalf("%s is no Disconnect", frame)
		}
		if got := DecodeWireDisconnect(data[1:], true); got != want {
			t.Errorf("%s: got %v, want %v", frame, got, want)
		}
	}
	if got := snappy.Encode(nil, AppendDisconnect(nil, DiscTooManyPeers)); !bytes.Equal(got, unhex(t, "0204c104")) {
		t.Errorf("ours, compressed: %x", got)
	}
}

// The largest plain size that is decompressed, and one more.
func TestWireDisconnectSizeLimit(t *testing.T) {
	for _, tt := range []struct {
		size int
		want DiscReason
	}{{disconnectLimit, DiscTooManyPeers}, {disconnectLimit + 1, DiscUnspecified}} {
		plain := make([]byte, tt.size) // compresses well: the wire size is not what is tested
		copy(plain, []byte{0xc1, 0x04})
		if got := DecodeWireDisconnect(snappy.Encode(nil, plain), true); got != tt.want {
			t.Errorf("%d bytes: got %v, want %v", tt.size, got, tt.want)
		}
	}

	// A block of few plain bytes in as many as the format can be made to take.
	plain := []byte{0xc1, 0x04, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	block := []byte{byte(len(plain))}
	for _, b := range plain {
		block = append(block, 63<<2, 0, 0, 0, 0, b) // a literal of one byte, its length in four
	}
	if got, err := snappy.Decode(nil, block); err != nil || !bytes.Equal(got, plain) || len(block) <= disconnectLimit {
		t.Fatalf("the block is no test: %x, %v", got, err)
	}
	if got := DecodeWireDisconnect(block, true); got != DiscUnspecified {
		t.Errorf("block of %d bytes: got %v", len(block), got)
	}
}

func TestCase_B18_OurPingPong(t *testing.T) {
	for name, payload := range map[string][]byte{"Ping": AppendPing([]byte{9}), "Pong": AppendPong([]byte{9})} {
		if !bytes.Equal(payload, []byte{9, 0xc0}) {
			t.Errorf("%s: %x", name, payload)
		}
		if got := snappy.Encode(nil, payload[1:]); !bytes.Equal(got, []byte{0x01, 0x00, 0xc0}) { // S5
			t.Errorf("%s, compressed: %x", name, got)
		}
	}
}

func TestDisconnectError(t *testing.T) {
	remote := &DisconnectError{Reason: DiscTooManyPeers, Remote: true}
	err := fmt.Errorf("session: %w", remote)
	if !errors.Is(err, DiscTooManyPeers) || errors.Is(err, DiscUselessPeer) || errors.Is(err, DiscRequested) {
		t.Error("errors.Is does not go by the reason")
	}
	if !errors.Is(err, &DisconnectError{Reason: DiscTooManyPeers, Remote: true}) ||
		errors.Is(err, &DisconnectError{Reason: DiscTooManyPeers}) ||
		errors.Is(err, (*DisconnectError)(nil)) {
		t.Error("errors.Is does not go by reason and side")
	}
	if got, ok := errors.AsType[*DisconnectError](err); !ok || got != remote {
		t.Error("errors.As does not find it")
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{remote, "p2p: disconnected by peer: too many peers"},
		{&DisconnectError{Reason: DiscQuitting}, "p2p: disconnected by us: client quitting"},
		{&DisconnectError{Reason: DiscUnspecified, Remote: true}, "p2p: disconnected by peer: no reason given"},
		// What made us say it, and the reason once.
		{&breachError{&DisconnectError{Reason: DiscProtocolError}, ErrInvalidCode}, "p2p: disconnected by us: breach of protocol: p2p: invalid message code"},
		{&breachError{&DisconnectError{Reason: DiscReadTimeout}, ErrReadTimeout}, "p2p: disconnected by us: p2p: peer is silent: read timeout"},
		{&breachError{&DisconnectError{Reason: DiscUselessPeer}, DiscUselessPeer}, "p2p: disconnected by us: useless peer"},
		{&breachError{&DisconnectError{Reason: DiscUselessPeer}, fmt.Errorf("another chain: %w", DiscUselessPeer)}, "p2p: disconnected by us: another chain: useless peer"},
		{&DisconnectError{Reason: 0x0c, Remote: true}, "p2p: disconnected by peer: unknown disconnect reason 0x0c"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
	// What we closed is closed.
	if !errors.Is(&DisconnectError{Reason: DiscQuitting}, net.ErrClosed) || errors.Is(remote, net.ErrClosed) {
		t.Error("net.ErrClosed does not go by the side")
	}
	// A reason that was not given is no reason 0, nor the reverse.
	if errors.Is(&DisconnectError{Reason: DiscUnspecified}, DiscRequested) || errors.Is(&DisconnectError{}, DiscUnspecified) {
		t.Error("unspecified passes for requested")
	}
}

// Random bytes give a reason or none, never anything else.
func TestDecodeDisconnectRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	buf := make([]byte, 300)
	for range 20000 {
		payload := buf[:rng.IntN(len(buf)+1)]
		for i := range payload {
			payload[i] = byte(rng.Uint32())
		}
		for _, compressed := range []bool{true, false} {
			if got := DecodeWireDisconnect(payload, compressed); got > 0xff && got != DiscUnspecified {
				t.Fatalf("%x: %v", payload, got)
			}
		}
	}
}

func FuzzDecodeDisconnect(f *testing.F) {
	for _, tt := range disconnectForms {
		f.Add(unhex(f, tt.payload))
	}
	for _, tt := range wireForms {
		f.Add(unhex(f, tt.payload))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		before := bytes.Clone(payload)
		plain := DecodeDisconnect(payload)
		wire, raw := DecodeWireDisconnect(payload, true), DecodeWireDisconnect(payload, false)
		for _, got := range []DiscReason{plain, wire, raw} {
			if got > 0xff && got != DiscUnspecified {
				t.Errorf("%v", got)
			}
			checkText(t, got.String())
		}
		if plain != DiscUnspecified && raw != plain {
			t.Errorf("%v on a plain connection, %v as a payload", raw, plain)
		}
		if !bytes.Equal(payload, before) {
			t.Error("input changed")
		}
		if n := testing.AllocsPerRun(10, func() {
			DecodeDisconnect(payload)
			DecodeWireDisconnect(payload, true)
			DecodeWireDisconnect(payload, false)
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
		// What was read survives being written by us and read again.
		if plain != DiscUnspecified {
			if got := DecodeDisconnect(AppendDisconnect(nil, plain)); got != plain {
				t.Errorf("%v became %v", plain, got)
			}
		}
	})
}

// A peer that is refused for what it said may take its time for our Hello: a part of it may be on
// the wire, and the Disconnect comes behind it.
func TestRefusalWaitsForOurHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, p := pipe.peer(t, nil)
		result := make(chan error, 1)
		go func() {
			_, err := Handshake(t.Context(), conn, &Hello{Name: "ours"})
			result <- err
		}()
		if err := p.send(BaseLength, nil); err != nil { // which is no Hello
			t.Fatal(err)
		}
		time.Sleep(disconnectTimeout / 2)
		if code, _ := p.read(); code != HelloCode {
			t.Fatalf("got code %#x, want our Hello", code)
		}
		p.wantFarewell(DiscProtocolError)
		if err := <-result; !errors.Is(err, ErrUnexpectedMessage) {
			t.Error(err)
		}
	})
}
