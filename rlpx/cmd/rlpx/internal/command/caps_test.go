package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

func TestParseCap(t *testing.T) {
	for _, tc := range []struct {
		text string
		want p2p.Capability
	}{
		{"eth/68", capability("eth", 68, 17)},
		{"eth/72", capability("eth", 72, 22)},
		{"snap/2", capability("snap", 2, 10)},
		{"eth/68:30", capability("eth", 68, 30)},
		{"eth/99", capability("eth", 99, defaultLength)},
		{"wit/0", capability("wit", 0, defaultLength)},
		{"x/18446744073709551615:1", capability("x", 1<<64-1, 1)},
	} {
		if got, err := parseCap(tc.text); err != nil || got.Cap != tc.want.Cap || got.Length != tc.want.Length {
			t.Errorf("%q: got %v, %v, want %v", tc.text, got, err, tc.want)
		}
	}
	for _, text := range []string{"", "eth", "eth/", "eth/x", "eth/-1", "eth/68:", "eth/68:x", "eth/68/17", "eth/18446744073709551616", "p2p/5"} {
		if got, err := parseCap(text); err == nil {
			t.Errorf("%q gives %v", text, got)
		}
	}
}

func TestPublicCapsAreValid(t *testing.T) {
	if err := append(publicCaps(), echoCap).Validate(); err != nil {
		t.Error(err)
	}
	if err := (p2p.Capabilities{demoCap}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestMirroredCaps(t *testing.T) {
	theirs := []p2p.Cap{
		{Name: "wit", Version: 0}, {Name: "", Version: 1}, {Name: "les", Version: 4}, {Name: "morethan8", Version: 1},
		{Name: "wit", Version: 0}, {Name: "\x1b[2J", Version: 1}, {Name: "eth", Version: 68},
	}
	want := p2p.Capabilities{capability("wit", 0, defaultLength), capability("les", 4, defaultLength), capability("eth", 68, 17)}
	if got := mirrored(theirs); !slices.EqualFunc(got, want, func(a, b p2p.Capability) bool { return a.Cap == b.Cap && a.Length == b.Length }) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := mirrored(theirs[1:2]); len(got) > 0 {
		t.Errorf("got %v from a name that nobody can announce", got)
	}
}

func TestList(t *testing.T) {
	caps := []p2p.Cap{{Name: "\n", Version: 1}}
	if got := list(caps); got != `\x0a/1` {
		t.Errorf("got %q", got)
	}
	if got := list(nil); got != "none" {
		t.Errorf("got %q", got)
	}
	for len(caps) < p2p.MaxCaps {
		caps = append(caps, p2p.Cap{Name: "x", Version: 2})
	}
	if got := list(caps); strings.Count(got, "/") != maxListed || !strings.HasSuffix(got, "x/2, ...") {
		t.Errorf("got %q", got)
	}
}
