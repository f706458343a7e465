package p2p

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestPrinting(t *testing.T) {
	evil := "\x1b[2J\r\n\x00\u202e\xff"
	for _, tt := range []struct{ got, want string }{
		{Cap{"eth", 68}.String(), "eth/68"},
		{Cap{"", 0}.String(), "/0"},
		{Cap{"a\nb", 1}.String(), `a\x0ab/1`},
		{Cap{`a\x0ab`, 1}.String(), `a\\x0ab/1`},
		{Cap{strings.Repeat("x", 1000), math.MaxUint64}.String(), "xxxxxxxxxxxxxxxx.../18446744073709551615"},
		{Hello{Name: "Geth/v1.17.10/linux-amd64"}.PrintableName(), "Geth/v1.17.10/linux-amd64"},
		{Hello{Name: evil}.PrintableName(), `\x1b[2J\x0d\x0a\x00\xe2\x80\xae\xff`},
		{Hello{Name: strings.Repeat("n", 128)}.PrintableName(), strings.Repeat("n", 128)},
		{Hello{Name: strings.Repeat("n", 129)}.PrintableName(), strings.Repeat("n", 128) + "..."},
		{Hello{Name: strings.Repeat("\n", 33)}.PrintableName(), strings.Repeat(`\x0a`, 32) + "..."},
		{Hello{Version: 5, Name: "c", Caps: []Cap{{"eth", 68}, {"snap", 1}}}.String(),
			"c, p2p/5, capabilities eth/68, snap/1, id 0000000000000000..."},
		{printableCaps(nil), "none"},
	} {
		if tt.got != tt.want {
			t.Errorf("got  %q\nwant %q", tt.got, tt.want)
		}
	}
	h := Hello{Version: math.MaxUint64, Name: strings.Repeat(evil, 100),
		Caps: slices.Repeat([]Cap{{strings.Repeat(evil, 10), math.MaxUint64}}, MaxCaps)}
	checkText(t, h.String())
	checkText(t, fmt.Sprintf("%v", &h))
	checkText(t, newUselessPeerError(h.Caps).Error())
	if text := printableCaps(h.Caps); !strings.Contains(text, " more") {
		t.Errorf("cut without saying so: %s", text)
	}
}

// A session is printed by those who log it, from any goroutine.
func TestPrintingSessions(t *testing.T) {
	offer := Capabilities{{Cap: Cap{"echo", 1}, Length: 4}, {Cap: Cap{"upper", 1}, Length: 1}}
	a, b := tcp.sessions(t, &SessionConfig{Name: "a", Capabilities: offer}, &SessionConfig{Name: "b", Capabilities: offer})
	peer := a.RemoteAddr().String()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			_ = a.Capability("echo").Write(0, []byte("x"))
		}
	}()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d"} {
		if got, want := fmt.Sprintf(verb, a), "p2p.Session{peer "+peer+", echo/1, upper/1}"; got != want {
			t.Errorf("%s: %s, want %s", verb, got, want)
		}
		if got, want := fmt.Sprintf(verb, a.Capability("upper")), "p2p.Channel{upper/1, peer "+peer+"}"; got != want {
			t.Errorf("%s: %s, want %s", verb, got, want)
		}
	}
	<-done
	b.Close()
}
