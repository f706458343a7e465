package p2p

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/rlp"
)

func capability(name string, version, length uint64) Capability {
	return Capability{Cap: Cap{name, version}, Length: length}
}

// same and sameCapability compare all but Handle, since functions cannot be compared.
func same(a, b Shared) bool {
	return sameCapability(a.Capability, b.Capability) && a.Index == b.Index && a.Offset == b.Offset
}

func sameCapability(a, b Capability) bool {
	return a.Cap == b.Cap && a.Length == b.Length && a.MaxMessageSize == b.MaxMessageSize
}

// layout writes what is shared as "aaa/1 10-13, eth/68 14-24".
func layout(m *Matched) string {
	var parts []string
	for i, s := range m.All() {
		if !same(s, m.At(i)) || s.Index != i {
			return fmt.Sprintf("All and At differ at %d", i)
		}
		parts = append(parts, fmt.Sprintf("%s %x-%x", s.Cap, s.Offset, s.Offset+s.Length-1))
	}
	return strings.Join(parts, ", ")
}

// checkCodes holds Resolve and Code against the ranges, at every edge.
func checkCodes(t *testing.T, m *Matched) {
	t.Helper()
	next := BaseLength
	for i, s := range m.All() {
		if s.Offset != next {
			t.Errorf("%s starts at %#x, want %#x", s.Cap, s.Offset, next)
		}
		next += s.Length
		for _, id := range []uint64{0, s.Length / 2, s.Length - 1} {
			code, err := s.Code(id)
			if err != nil || code != s.Offset+id {
				t.Errorf("%s: Code(%#x) = %#x, %v", s.Cap, id, code, err)
			}
			got, gotID, err := m.Resolve(code)
			if err != nil || !same(got, m.At(i)) || gotID != id {
				t.Errorf("Resolve(%#x) = %s, %#x, %v; want %s, %#x", code, got.Cap, gotID, err, s.Cap, id)
			}
		}
		if found, ok := m.Find(s.Name); !ok || !same(found, s) {
			t.Errorf("Find(%q) = %v, %v", s.Name, found, ok)
		}
	}
}

func TestCase_M1_FirstCode(t *testing.T) {
	m, err := Match(Capabilities{capability("eth", 68, 17)}, []Cap{{"eth", 68}})
	if err != nil {
		t.Fatal(err)
	}
	s, ok := m.Find("eth")
	if !ok {
		t.Fatal("eth is not shared")
	}
	if code, err := s.Code(0); err != nil || code != 0x10 {
		t.Errorf("message 0 has code %#x, %v", code, err)
	}
	if s, id, err := m.Resolve(0x10); err != nil || id != 0 || s.Name != "eth" {
		t.Errorf("code 0x10 is %v %d, %v", s, id, err)
	}
}

// permutations calls f with every order of s.
func permutations[T any](s []T, f func([]T)) {
	var rec func(int)
	rec = func(k int) {
		if k == len(s) {
			f(slices.Clone(s))
			return
		}
		for i := k; i < len(s); i++ {
			s[k], s[i] = s[i], s[k]
			rec(k + 1)
			s[k], s[i] = s[i], s[k]
		}
	}
	rec(0)
}

func TestCase_M2_OrderOfNames(t *testing.T) {
	ours := Capabilities{capability("eth", 68, 17), capability("snap", 1, 8), capability("aaa", 1, 4)}
	runs := 0
	permutations([]Cap{{"eth", 68}, {"snap", 1}, {"aaa", 1}}, func(theirs []Cap) {
		permutations(ours, func(ours []Capability) {
			runs++
			before := slices.Clone(ours)
			m, err := Match(ours, theirs)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := layout(m), "aaa/1 10-13, eth/68 14-24, snap/1 25-2c"; got != want {
				t.Errorf("%v: got %s, want %s", theirs, got, want)
			}
			checkCodes(t, m)
			if !slices.EqualFunc(ours, before, sameCapability) {
				t.Errorf("Match changed its input to %v", ours)
			}
		})
	})
	if runs != 36 {
		t.Fatalf("%d orders tried", runs)
	}

	// Bytes decide: capitals before small letters, digits before both, and they are different
	// names.
	m, err := Match(Capabilities{capability("eth", 1, 1), capability("ETH", 1, 1), capability("_eth", 1, 1), capability("1eth", 1, 1)},
		[]Cap{{"eth", 1}, {"ETH", 1}, {"_eth", 1}, {"1eth", 1}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := layout(m), "1eth/1 10-10, ETH/1 11-11, _eth/1 12-12, eth/1 13-13"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := Match(Capabilities{capability("eth", 1, 1)}, []Cap{{"ETH", 1}}); !errors.Is(err, DiscUselessPeer) {
		t.Errorf("eth matched ETH: %v", err)
	}
}

func TestCase_M4_HighestSharedVersion(t *testing.T) {
	ours := Capabilities{capability("eth", 66, 10), capability("eth", 68, 17), capability("eth", 67, 13), capability("snap", 1, 8)}
	for _, tt := range []struct {
		name   string
		theirs []Cap
		want   string
	}{
		{"same", []Cap{{"eth", 66}, {"eth", 67}, {"eth", 68}, {"snap", 1}}, "eth/68 10-20, snap/1 21-28"},
		{"other order", []Cap{{"snap", 1}, {"eth", 68}, {"eth", 66}}, "eth/68 10-20, snap/1 21-28"},
		{"highest is theirs alone", []Cap{{"eth", 69}, {"eth", 67}, {"snap", 1}}, "eth/67 10-1c, snap/1 1d-24"},
		{"highest is ours alone", []Cap{{"eth", 65}, {"eth", 66}, {"snap", 1}}, "eth/66 10-19, snap/1 1a-21"},
		{"only another name", []Cap{{"eth", 69}, {"snap", 1}}, "snap/1 10-17"},
		{"duplicates", []Cap{{"eth", 68}, {"snap", 1}, {"eth", 68}, {"eth", 67}, {"eth", 67}, {"snap", 1}}, "eth/68 10-20, snap/1 21-28"},
		{"huge version", []Cap{{"eth", math.MaxUint64}, {"eth", 1<<32 + 68}, {"eth", 66}}, "eth/66 10-19"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Match(ours, tt.theirs)
			if err != nil {
				t.Fatal(err)
			}
			if got := layout(m); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			checkCodes(t, m)
		})
	}
}

func TestCase_M5_LengthFromCaller(t *testing.T) {
	// A capability with ids 0, 1 and 16 reserves 17.
	m, err := Match(Capabilities{capability("aaa", 1, 17), capability("bbb", 1, 1)}, []Cap{{"aaa", 1}, {"bbb", 1}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := layout(m), "aaa/1 10-20, bbb/1 21-21"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := (Capabilities{capability("aaa", 1, 0)}).Validate(); !errors.Is(err, ErrInvalidCapability) {
		t.Errorf("length 0: %v", err)
	}
}

func TestCase_M6_LargeLengths(t *testing.T) {
	ours := Capabilities{capability("a", 1, 128), capability("b", 1, 128), capability("c", 1, 1000)}
	m, err := Match(ours, ours.Caps())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := layout(m), "a/1 10-8f, b/1 90-10f, c/1 110-4f7"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	checkCodes(t, m)
	for code, want := range map[uint64]string{0xff: "b/1 6f", 0x100: "b/1 70", 0x4f7: "c/1 3e7"} {
		s, id, err := m.Resolve(code)
		if got := fmt.Sprintf("%s %x", s.Cap, id); err != nil || got != want {
			t.Errorf("%#x: got %s, %v, want %s", code, got, err, want)
		}
	}

	const rest = math.MaxUint64 - 0x10 // lengths that fit above the base protocol
	for _, tt := range []struct {
		name string
		caps Capabilities
		ok   bool
	}{
		{"one, exact", Capabilities{capability("a", 1, rest)}, true},
		{"one too many", Capabilities{capability("a", 1, rest+1)}, false},
		{"largest", Capabilities{capability("a", 1, math.MaxUint64)}, false},
		{"two, exact", Capabilities{capability("a", 1, rest-5), capability("b", 1, 5)}, true},
		{"two, one too many", Capabilities{capability("a", 1, rest-5), capability("b", 1, 6)}, false},
		{"versions do not add up", Capabilities{capability("a", 1, rest), capability("a", 2, rest)}, true},
		{"longest version counts", Capabilities{capability("a", 1, rest), capability("a", 2, 1), capability("b", 1, 1)}, false},
	} {
		err := tt.caps.Validate()
		if tt.ok && err != nil || !tt.ok && !errors.Is(err, ErrInvalidCapability) {
			t.Errorf("%s: %v", tt.name, err)
		}
		m, err := Match(tt.caps, tt.caps.Caps())
		if (err == nil) != tt.ok {
			t.Errorf("%s: Match: %v", tt.name, err)
		}
		if m != nil {
			checkCodes(t, m)
			for _, code := range []uint64{0, 0xf, m.end(), math.MaxUint64} {
				if _, _, err := m.Resolve(code); !errors.Is(err, ErrInvalidCode) {
					t.Errorf("%s: code %#x: %v", tt.name, code, err)
				}
			}
		}
	}
}

func TestCase_M7_InvalidCodes(t *testing.T) {
	ours := Capabilities{capability("eth", 68, 17), capability("snap", 1, 8)}
	m, err := Match(ours, ours.Caps())
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []uint64{0x29, 0x2a, 0x7fff, 1 << 32, 1<<64 - 1, 0, 3, 4, 0xf} {
		s, id, err := m.Resolve(code)
		if !errors.Is(err, ErrInvalidCode) || !same(s, Shared{}) || id != 0 {
			t.Errorf("%#x: got %v %d, %v", code, s, id, err)
			continue
		}
		if got := ReasonFor(err); got != DiscProtocolError {
			t.Errorf("%#x: reason %v", code, got)
		}
		checkText(t, err.Error())
		if !strings.Contains(err.Error(), "invalid message code") {
			t.Errorf("text: %v", err)
		}
	}
}

func TestCase_M9_CodesOverOneByte(t *testing.T) {
	ours := Capabilities{capability("big", 1, 230), capability("next", 1, 20)}
	m, err := Match(ours, ours.Caps())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := layout(m), "big/1 10-f5, next/1 f6-109"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for code, want := range map[uint64]string{0x7f: "7f", 0x80: "8180", 0xf5: "81f5", 0xf6: "81f6", 0x100: "820100"} {
		s, id, err := m.Resolve(code)
		if err != nil {
			t.Fatal(err)
		}
		back, err := s.Code(id)
		if err != nil || back != code {
			t.Errorf("%#x came back as %#x, %v", code, back, err)
		}
		if got := fmt.Sprintf("%x", rlp.AppendUint64(nil, back)); got != want {
			t.Errorf("%#x is %s on the wire, want %s", code, got, want)
		}
	}
}

func TestCase_M12_DependentCapability(t *testing.T) {
	ours := Capabilities{capability("snap", 1, 8), capability("eth", 68, 17), capability("les", 4, 24)}
	m, err := Match(ours, ours.Caps())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := layout(m), "eth/68 10-20, les/4 21-38, snap/1 39-40"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, s := range m.All() {
		for _, id := range []uint64{s.Length, s.Length + 1, math.MaxUint64, math.MaxUint64 - s.Offset + 1} {
			code, err := s.Code(id)
			if !errors.Is(err, ErrInvalidMessageID) || errors.Is(err, ErrInvalidCode) || code != 0 {
				t.Errorf("%s: Code(%#x) = %#x, %v", s.Cap, id, code, err)
			}
			checkText(t, err.Error())
		}
	}
	if s, ok := m.Find("par"); ok || !same(s, Shared{}) {
		t.Errorf("found %v", s)
	}
}

func TestCase_M13_NothingShared(t *testing.T) {
	eth := Capabilities{capability("eth", 68, 17)}
	for _, tt := range []struct {
		name   string
		ours   Capabilities
		theirs []Cap
		text   string
	}{
		{"disjoint", eth, []Cap{{"les", 2}, {"eth", 69}}, "p2p: no shared capability, peer has les/2, eth/69"},
		{"peer has none", eth, nil, "p2p: no shared capability, peer has none"},
		{"we have none", nil, []Cap{{"eth", 68}}, "p2p: no shared capability, peer has eth/68"},
		{"names that we cannot have", eth, []Cap{{"", 68}, {"\xff", 7}, {strings.Repeat("e", 13), 1}},
			`p2p: no shared capability, peer has /68, \xff/7, eeeeeeeeeeeee/1`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Match(tt.ours, tt.theirs)
			if m != nil {
				t.Errorf("matched %s", layout(m))
			}
			useless, ok := errors.AsType[*UselessPeerError](err)
			if !ok || !slices.Equal(useless.Caps, tt.theirs) {
				t.Fatalf("got %v, want a UselessPeerError with %v", err, tt.theirs)
			}
			if !errors.Is(err, DiscUselessPeer) || ReasonFor(err) != DiscUselessPeer {
				t.Errorf("reason %v", ReasonFor(err))
			}
			if err.Error() != tt.text {
				t.Errorf("got  %s\nwant %s", err, tt.text)
			}
		})
	}
}

func TestCapabilitiesValidate(t *testing.T) {
	for _, tt := range []struct {
		name string
		caps Capabilities
		want string
	}{
		{"none", nil, ""},
		{"two versions", Capabilities{capability("eth", 68, 17), capability("eth", 67, 17)}, ""},
		{"twice", Capabilities{capability("eth", 68, 17), capability("a", 1, 1), capability("eth", 68, 18)}, "eth/68 is there twice"},
		{"no length", Capabilities{capability("eth", 68, 17), capability("a", 1, 0)}, "a/1 has length 0"},
		{"too many", make(Capabilities, MaxCaps+1), "101 of them"},
	} {
		err := tt.caps.Validate()
		if tt.want == "" && err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if tt.want != "" && (!errors.Is(err, ErrInvalidCapability) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := AppendHello(nil, &Hello{Caps: []Cap{{"eth", 68}, {"eth", 68}}, ID: testID(t)}); !errors.Is(err, ErrInvalidCapability) {
		t.Errorf("twice in Hello: %v", err)
	}
}

// Lookups are on the path of every message.
func TestLookupAllocs(t *testing.T) {
	ours := Capabilities{capability("eth", 68, 17), capability("les", 4, 24), capability("snap", 1, 8)}
	m, err := Match(ours, ours.Caps())
	if err != nil {
		t.Fatal(err)
	}
	var sum uint64
	if n := testing.AllocsPerRun(100, func() {
		s, id, _ := m.Resolve(0x3a)
		code, _ := s.Code(id)
		snap, _ := m.Find("snap")
		sum += code + snap.Offset
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if want := uint64(101 * (0x3a + 0x39)); sum != want { // AllocsPerRun calls once more to warm up
		t.Errorf("sum %d, want %d", sum, want)
	}
}

// Match agrees with the rule said another way: from the peer's list, in order, keep what is ours,
// and of a name the last.
func TestMatchAgainstOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	names := []string{"a", "B", "b", "eth", "snap"}
	for range 5000 {
		var ours Capabilities
		var theirs []Cap
		for _, name := range names {
			for version := range uint64(4) {
				if rng.IntN(3) == 0 {
					ours = append(ours, capability(name, version, 1+rng.Uint64N(300)))
				}
				for range rng.IntN(3) {
					theirs = append(theirs, Cap{name, version})
				}
			}
		}
		rng.Shuffle(len(ours), func(i, j int) { ours[i], ours[j] = ours[j], ours[i] })
		rng.Shuffle(len(theirs), func(i, j int) { theirs[i], theirs[j] = theirs[j], theirs[i] })

		best := make(map[string]Capability)
		for _, c := range slices.SortedFunc(slices.Values(theirs), Cap.Cmp) {
			if i := slices.IndexFunc(ours, func(o Capability) bool { return o.Cap == c }); i >= 0 {
				best[c.Name] = ours[i]
			}
		}
		var want []string
		next := BaseLength
		for _, name := range slices.Sorted(slices.Values(names)) {
			if c, ok := best[name]; ok {
				want = append(want, fmt.Sprintf("%s %x-%x", c.Cap, next, next+c.Length-1))
				next += c.Length
			}
		}

		m, err := Match(ours, theirs)
		if len(want) == 0 {
			if !errors.Is(err, DiscUselessPeer) {
				t.Fatalf("ours %v, theirs %v: %v", ours, theirs, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := layout(m); got != strings.Join(want, ", ") {
			t.Fatalf("ours %v, theirs %v: got %s, want %s", ours, theirs, got, want)
		}
	}
}
