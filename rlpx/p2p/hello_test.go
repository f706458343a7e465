package p2p

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/rlp"
)

func TestCase_B9_EIP8Hello(t *testing.T) {
	h, err := DecodeHello(unhex(t, eip8Hello))
	if err != nil {
		t.Fatal(err)
	}
	want := &Hello{
		Version:    55,
		Name:       "kneth/v0.91/plan9",
		Caps:       []Cap{{"eth", 61}, {"mork", 22}},
		ListenPort: 9999,
		ID:         testID(t),
	}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("got  %+v\nwant %+v", h, want)
	}
}

func TestCase_B9_ExtraElements(t *testing.T) {
	nested := []byte{0xc0}
	for range 5 {
		nested = list(nested, nested)
	}
	for _, tt := range []struct {
		name  string
		extra [][]byte
		tail  []byte // after the outer list
	}{
		{name: "integer", extra: [][]byte{num(1)}},
		{name: "empty list", extra: [][]byte{{0xc0}}},
		{name: "nested lists", extra: [][]byte{nested, nested}},
		{name: "300 bytes", extra: slices.Repeat([][]byte{{0x01}}, 300)},
		{name: "not canonical", extra: [][]byte{{0x81, 0x05}}},
		{name: "cut off", extra: [][]byte{{0x83, 0x01}}},
		{name: "trailing junk", tail: []byte{0xff, 0xb8, 0x00, 0x81}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			payload := append(list(append(helloParts(t), tt.extra...)...), tt.tail...)
			h, err := DecodeHello(payload)
			if err != nil {
				t.Fatal(err)
			}
			want := &Hello{Version: 5, Name: "peer/v1", Caps: []Cap{{"eth", 68}}, ListenPort: 30303, ID: testID(t)}
			if !reflect.DeepEqual(h, want) {
				t.Errorf("got %+v, want %+v", h, want)
			}
		})
	}
}

// Elements of the capability list that are no [name, version] are left out; the others stay.
func TestCase_B9_OddPairs(t *testing.T) {
	eth := str([]byte("eth"))
	for _, tt := range []struct {
		name string
		odd  []byte
	}{
		{"third element", list(eth, num(68), num(1))},
		{"third element is a list", list(eth, num(68), list())},
		{"no version", list(eth)},
		{"empty list", list()},
		{"string", eth},
		{"name is a list", list(list(eth), num(68))},
		{"version is a list", list(eth, list(num(68)))},
		{"version of 9 bytes", list(eth, str(bytes.Repeat([]byte{1}, 9)))},
		{"version with a leading zero", list(eth, []byte{0x82, 0x00, 0x44})},
		{"version is a zero byte", list(eth, []byte{0x00})},
		{"contents cut off", append([]byte{0xc4}, 0x83, 'e', 't', 0x88)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, err := DecodeHello(helloWith(t, partCaps, list(pair("aaa", 1), tt.odd, pair("snap", 1))))
			if err != nil {
				t.Fatal(err)
			}
			if want := []Cap{{"aaa", 1}, {"snap", 1}}; !slices.Equal(h.Caps, want) {
				t.Errorf("got %v, want %v", h.Caps, want)
			}
		})
	}
}

func TestCase_B10_Versions(t *testing.T) {
	for _, version := range []uint64{0, 3, 4, 5, 6, 22, 55, 1 << 32, math.MaxUint64} {
		h, err := DecodeHello(helloWith(t, partVersion, num(version)))
		if err != nil {
			t.Errorf("version %d: %v", version, err)
		} else if h.Version != version {
			t.Errorf("version %d decoded as %d", version, h.Version)
		}
	}
	for name, enc := range map[string][]byte{
		"9 bytes":      str(append([]byte{1}, make([]byte, 8)...)),
		"leading zero": {0x82, 0x00, 0x05},
		"zero byte":    {0x00},
		"81 05":        {0x81, 0x05},
		"list":         list(num(5)),
	} {
		if _, err := DecodeHello(helloWith(t, partVersion, enc)); !errors.Is(err, ErrMalformedHello) {
			t.Errorf("%s: got %v, want ErrMalformedHello", name, err)
		}
	}
}

// The version says whether messages are compressed and nothing else: no framing mode hangs on it.
func TestCase_M15_VersionMeansSnappyOnly(t *testing.T) {
	for version, want := range map[uint64]bool{
		0: false, 3: false, 4: false, 5: true, 6: true, 22: true, 55: true, math.MaxUint64: true,
	} {
		if got := (Hello{Version: version}).Snappy(); got != want {
			t.Errorf("version %d: Snappy() = %v", version, got)
		}
	}
}

func TestCase_B8_UnknownCapabilitiesVisible(t *testing.T) {
	want := []Cap{{"zzz", 1}, {"eth", 68}, {"\xff", 7}, {"", 0}, {"eth", math.MaxUint64}}
	var pairs [][]byte
	for _, c := range want {
		pairs = append(pairs, pair(c.Name, c.Version))
	}
	h, err := DecodeHello(helloWith(t, partCaps, list(pairs...)))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(h.Caps, want) {
		t.Errorf("got %v, want %v", h.Caps, want)
	}
	m, err := Match(Capabilities{{Cap: Cap{"eth", 68}, Length: 17}}, h.Caps)
	if err != nil {
		t.Fatal(err)
	}
	if m.Len() != 1 || m.At(0).Cap != (Cap{"eth", 68}) {
		t.Errorf("shared: %v", m)
	}
}

func TestCase_B12_LongNamesFromPeer(t *testing.T) {
	var pairs [][]byte
	var want []Cap
	for _, n := range []int{8, 9, 13, 32, 1000} {
		c := Cap{strings.Repeat("n", n), uint64(n)}
		want = append(want, c)
		pairs = append(pairs, pair(c.Name, c.Version))
	}
	want = append(want, Cap{"eth", 68})
	pairs = append(pairs, pair("eth", 68))

	h, err := DecodeHello(helloWith(t, partCaps, list(pairs...)))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(h.Caps, want) {
		t.Errorf("got %v, want %v", h.Caps, want)
	}
	m, err := Match(Capabilities{{Cap: Cap{"eth", 68}, Length: 17}}, h.Caps)
	if err != nil {
		t.Fatal(err)
	}
	if m.Len() != 1 || m.At(0).Offset != BaseLength {
		t.Errorf("shared: %+v", m)
	}
}

func TestCase_B12_OurNames(t *testing.T) {
	for _, tt := range []struct {
		name string
		ok   bool
	}{
		{"a", true}, {"eth", true}, {"12345678", true},
		{"", false}, {"123456789", false}, {strings.Repeat("x", 1000), false},
		{"\xff", false}, {"é", false}, {"a\n", false}, {"\x7f", false},
	} {
		_, helloErr := AppendHello(nil, &Hello{Caps: []Cap{{tt.name, 1}}, ID: testID(t)})
		validateErr := Capabilities{{Cap: Cap{tt.name, 1}, Length: 1}}.Validate()
		_, matchErr := Match(Capabilities{{Cap: Cap{tt.name, 1}, Length: 1}}, []Cap{{tt.name, 1}})
		for i, err := range []error{helloErr, validateErr, matchErr} {
			if tt.ok && err != nil {
				t.Errorf("%q, check %d: %v", tt.name, i, err)
			}
			if !tt.ok && !errors.Is(err, ErrInvalidCapability) {
				t.Errorf("%q, check %d: got %v, want ErrInvalidCapability", tt.name, i, err)
			}
			if err != nil {
				checkText(t, err.Error())
			}
		}
	}
}

func TestCase_B14_Identity(t *testing.T) {
	id := testID(t)
	for _, n := range []int{0, 1, 32, 63, 65, 128} {
		enc := str(bytes.Repeat(id[:], 2)[:n])
		_, err := DecodeHello(helloWith(t, partID, enc))
		if !errors.Is(err, ErrInvalidIdentity) || errors.Is(err, ErrNullIdentity) {
			t.Errorf("id of %d bytes: got %v, want ErrInvalidIdentity", n, err)
		}
		if got := ReasonFor(err); got != DiscInvalidIdentity {
			t.Errorf("id of %d bytes: reason %v", n, got)
		}
	}
	_, err := DecodeHello(helloWith(t, partID, str(make([]byte, IDLength))))
	if !errors.Is(err, ErrNullIdentity) || errors.Is(err, ErrInvalidIdentity) {
		t.Errorf("null id: got %v, want ErrNullIdentity", err)
	}
	if got := ReasonFor(err); got != DiscInvalidIdentity {
		t.Errorf("null id: reason %v", got)
	}
	if _, err := AppendHello(nil, &Hello{Version: Version}); !errors.Is(err, ErrNullIdentity) {
		t.Errorf("our own null id: got %v, want ErrNullIdentity", err)
	}
}

func TestCase_B20_GoldenHello(t *testing.T) {
	h := &Hello{
		Version:    Version,
		Name:       "go-rlpx/1",
		Caps:       []Cap{{"snap", 1}, {"eth", 69}, {"ETH", 1}, {"eth", 68}, {"aaa", 200}},
		ListenPort: 30303,
		ID:         testID(t),
	}
	before := slices.Clone(h.Caps)
	// Written out by hand from the rules of RLP and the field order of rlpx.md.
	golden := "f871" + // 113 bytes of contents
		"05" + // version
		"89 676f2d726c70782f31" + // clientId
		"e0" + // capabilities, 32 bytes
		"c5 83455448 01" + // ETH/1
		"c6 83616161 81c8" + // aaa/200
		"c5 83657468 44" + // eth/68
		"c5 83657468 45" + // eth/69
		"c6 84736e6170 01" + // snap/1
		"82765f" + // listenPort
		"b840" + eip8ID
	prefix := []byte("prefix")
	got, err := AppendHello(prefix, h)
	if err != nil {
		t.Fatal(err)
	}
	want := append([]byte("prefix"), unhex(t, golden)...)
	if !bytes.Equal(got, want) {
		t.Errorf("\ngot  %x\nwant %x", got, want)
	}
	if !slices.Equal(h.Caps, before) {
		t.Errorf("AppendHello changed Caps to %v", h.Caps)
	}
}

// Code 0 is the RLP integer zero, 0x80 on the wire.
func TestCase_B23_HelloCode(t *testing.T) {
	for code, want := range map[uint64]byte{HelloCode: 0x80, DisconnectCode: 1, PingCode: 2, PongCode: 3} {
		if got := rlp.AppendUint64(nil, code); !bytes.Equal(got, []byte{want}) {
			t.Errorf("code %d is %x on the wire, want %02x", code, got, want)
		}
	}
}

func TestDecodeHelloMalformed(t *testing.T) {
	good := list(helloParts(t)...)
	cases := map[string][]byte{
		"empty":             {},
		"string":            str([]byte("hello")),
		"empty list":        list(),
		"list in the name":  helloWith(t, partName, list()),
		"caps are a string": helloWith(t, partCaps, str([]byte("eth"))),
		"caps cut off":      helloWith(t, partCaps, []byte{0xc2, 0xc5, 0x83}),
		"port is a list":    helloWith(t, partPort, list()),
		"port of 9 bytes":   helloWith(t, partPort, str(bytes.Repeat([]byte{1}, 9))),
		"id is a list":      helloWith(t, partID, list()),
		"long size, short":  {0xf8, 0x10, 0x05},
		"size of 8 bytes":   bytes.Repeat([]byte{0xff}, 9),
	}
	for n := range 5 {
		cases[fmt.Sprintf("%d elements", n)] = list(helloParts(t)[:n]...)
	}
	for n := range len(good) {
		cases[fmt.Sprintf("first %d bytes", n)] = good[:n]
	}
	for name, payload := range cases {
		h, err := DecodeHello(payload)
		if h != nil || !errors.Is(err, ErrMalformedHello) {
			t.Errorf("%s: got %v, %v, want ErrMalformedHello", name, h, err)
			continue
		}
		if got := ReasonFor(err); got != DiscProtocolError {
			t.Errorf("%s: reason %v", name, got)
		}
		checkText(t, err.Error())
	}
}

func TestCase_D3_HelloLimit(t *testing.T) {
	if _, err := DecodeHello(helloOfSize(t, HelloLimit)); err != nil {
		t.Errorf("%d bytes: %v", HelloLimit, err)
	}
	_, err := DecodeHello(helloOfSize(t, HelloLimit+1))
	if !errors.Is(err, ErrHelloTooBig) || !strings.Contains(err.Error(), "message too big") {
		t.Errorf("%d bytes: got %v, want ErrHelloTooBig", HelloLimit+1, err)
	}
	if got := ReasonFor(err); got != DiscProtocolError {
		t.Errorf("reason %v", got)
	}

	// The same limit holds for our own, to the byte.
	h := &Hello{Version: Version, Name: strings.Repeat("n", 500), ID: testID(t)}
	small, err := AppendHello(nil, h)
	if err != nil {
		t.Fatal(err)
	}
	h.Name = strings.Repeat("n", 500+HelloLimit-len(small))
	if big, err := AppendHello([]byte("x"), h); err != nil || len(big) != 1+HelloLimit {
		t.Errorf("our own of %d bytes: %d bytes, %v", HelloLimit, len(big)-1, err)
	}
	h.Name += "n"
	if out, err := AppendHello([]byte("x"), h); !errors.Is(err, ErrHelloTooBig) || string(out) != "x" {
		t.Errorf("our own of %d bytes: %d bytes, %v", HelloLimit+1, len(out)-1, err)
	}
}

func TestCase_D9_ManyCapabilities(t *testing.T) {
	id := testID(t)
	manyOf := func(n int, item []byte) []byte {
		return list(num(5), str(nil), list(slices.Repeat([][]byte{item}, n)...), num(0), str(id[:]))
	}
	for _, tt := range []struct {
		name    string
		payload []byte
		caps    int
		err     error
	}{
		{name: "limit", payload: manyOf(MaxCaps, pair("", 0)), caps: MaxCaps},
		{name: "limit plus one", payload: manyOf(MaxCaps+1, pair("", 0)), err: ErrMalformedHello},
		{name: "600 pairs", payload: manyOf(600, pair("", 0)), err: ErrMalformedHello},
		{name: "1900 empty lists", payload: manyOf(1900, list()), err: ErrMalformedHello},
		{name: "1900 extra elements", caps: 1,
			payload: list(append(helloParts(t), slices.Repeat([][]byte{list()}, 1900)...)...)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if len(tt.payload) > HelloLimit {
				t.Fatalf("payload has %d bytes, which tests another limit", len(tt.payload))
			}
			h, err := DecodeHello(tt.payload)
			if !errors.Is(err, tt.err) {
				t.Fatalf("got %v, want %v", err, tt.err)
			}
			if err == nil && len(h.Caps) != tt.caps {
				t.Errorf("%d capabilities, want %d", len(h.Caps), tt.caps)
			}
			if n := bytesPerRun(func() { DecodeHello(tt.payload) }); n > 2*HelloLimit+MaxCaps*24 {
				t.Errorf("%d bytes allocated", n)
			}
		})
	}
	if _, err := AppendHello(nil, &Hello{Caps: make([]Cap, MaxCaps+1), ID: id}); !errors.Is(err, ErrInvalidCapability) {
		t.Errorf("our own %d: %v", MaxCaps+1, err)
	}
}

// Nesting costs nothing: what is skipped is skipped at the top level.
func TestCase_D10_Nesting(t *testing.T) {
	deep := []byte{0xc0}
	for len(deep) < 1800 {
		deep = list(deep)
	}
	flat := bytes.Repeat([]byte{0xc1}, 1800)
	if _, err := DecodeHello(list(append(helloParts(t), deep)...)); err != nil {
		t.Errorf("deep extra element: %v", err)
	}
	if _, err := DecodeHello(list(append(helloParts(t), flat)...)); err != nil {
		t.Errorf("row of c1: %v", err)
	}
	h, err := DecodeHello(helloWith(t, partCaps, list(deep, pair("eth", 68))))
	if err != nil || !slices.Equal(h.Caps, []Cap{{"eth", 68}}) {
		t.Errorf("deep capability: %v, %v", h, err)
	}
	for part := range 5 {
		if part == partCaps {
			continue
		}
		if _, err := DecodeHello(helloWith(t, part, deep)); !errors.Is(err, ErrMalformedHello) {
			t.Errorf("deep element %d: %v", part, err)
		}
	}
}

func TestHelloKeepsNoInput(t *testing.T) {
	payload := unhex(t, eip8Hello)
	h, err := DecodeHello(payload)
	if err != nil {
		t.Fatal(err)
	}
	clear(payload)
	if h.Name != "kneth/v0.91/plan9" || h.Caps[1].Name != "mork" || h.ID != testID(t) {
		t.Errorf("changed with its input: %v", h)
	}
}

// decodeByReflection decodes a Hello as go-ethereum does, by its struct decoder with the rest as
// tail. It returns nil for what that refuses, and for what is over limits that are ours alone. It
// is stricter than DecodeHello about pairs, never more tolerant.
func decodeByReflection(payload []byte) *Hello {
	var h struct {
		Version    uint64
		Name       string
		Caps       []Cap
		ListenPort uint64
		ID         []byte
		Rest       []rlp.RawValue `rlp:"tail"`
	}
	if len(payload) > HelloLimit || rlp.NewStream(bytes.NewReader(payload), uint64(len(payload))).Decode(&h) != nil {
		return nil
	}
	if len(h.ID) != IDLength || len(h.Caps) > MaxCaps || bytes.Equal(h.ID, make([]byte, IDLength)) {
		return nil
	}
	return &Hello{h.Version, h.Name, h.Caps, h.ListenPort, [IDLength]byte(h.ID)}
}

func TestHelloAgainstReflection(t *testing.T) {
	for _, ours := range []*Hello{
		{Version: Version, Name: "c", Caps: []Cap{{"aaa", 0}, {"eth", 68}, {"eth", 1 << 40}}, ListenPort: 65535, ID: testID(t)},
		{Caps: []Cap{}, ID: testID(t)},
		{Version: math.MaxUint64, Name: strings.Repeat("n", 300), Caps: []Cap{{"12345678", math.MaxUint64}}, ID: testID(t)},
	} {
		payload, err := AppendHello(nil, ours)
		if err != nil {
			t.Fatal(err)
		}
		if theirs := decodeByReflection(payload); !reflect.DeepEqual(theirs, ours) {
			t.Errorf("got  %+v\nwant %+v", theirs, ours)
		}
	}
	if h := decodeByReflection(unhex(t, eip8Hello)); h == nil || h.Version != 55 {
		t.Errorf("EIP-8 Hello: %+v", h)
	}
}

func FuzzDecodeHello(f *testing.F) {
	f.Add(unhex(f, eip8Hello))
	f.Add(list(helloParts(f)...))
	f.Add(helloWith(f, partVersion, num(math.MaxUint64)))
	f.Add(helloWith(f, partCaps, list(pair("", 0), pair("\xff", 7), str(nil), list(num(1), num(2), num(3)))))
	f.Add(helloWith(f, partID, str(make([]byte, IDLength))))
	f.Add(helloOfSize(f, HelloLimit))
	f.Fuzz(func(t *testing.T, payload []byte) {
		h, err := DecodeHello(payload)
		if want := decodeByReflection(payload); want != nil && !reflect.DeepEqual(h, want) {
			t.Errorf("got  %+v, %v\nwant %+v", h, err, want)
		}
		if err != nil {
			checkText(t, err.Error())
			if reason := ReasonFor(err); reason != DiscProtocolError && reason != DiscInvalidIdentity {
				t.Errorf("reason %v for %v", reason, err)
			}
			return
		}
		if len(h.Caps) > MaxCaps {
			t.Errorf("%d capabilities", len(h.Caps))
		}
		checkText(t, h.String())

		again := appendHello(nil, h, h.Caps)
		if len(again) > len(payload) {
			t.Errorf("%d bytes became %d", len(payload), len(again))
		}
		if h2, err := DecodeHello(again); err != nil || !reflect.DeepEqual(h, h2) {
			t.Errorf("decoded  %+v\nand then %+v, %v", h, h2, err)
		}

		// Where we would send the same ourselves, the bytes are the same but for the order.
		if ours, err := AppendHello(nil, h); err == nil {
			slices.SortFunc(h.Caps, Cap.Cmp)
			if want := appendHello(nil, h, h.Caps); !bytes.Equal(ours, want) {
				t.Errorf("got  %x\nwant %x", ours, want)
			}
		}
	})
}
