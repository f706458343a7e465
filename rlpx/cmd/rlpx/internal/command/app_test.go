package command

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{}, {"-h"}, {"-help"}, {"--help"}, {"help"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			r := run(t, args...)
			r.wantSuccess(t, "rlpx demo", "   demo ", "   ping ", "   serve ", "   key ")
			if r.stderr != "" {
				t.Errorf("stderr %q", r.stderr)
			}
		})
	}
	for name, texts := range map[string][]string{
		"demo":  {"-for", "-keylog"},
		"ping":  {"ENODE", "-c", "-i", "-timeout", "-key", "-cap", "-keylog"},
		"serve": {"-addr", "-key", "-cap", "LENGTH", "256", "-v", "-maxpeers", "-json", "-for", "-n"},
		"key":   {"FILE", "-new", "-addr", "never overwritten"},
	} {
		for _, args := range [][]string{{name, "-h"}, {name, "--help"}, {"help", name}} {
			t.Run(strings.Join(args, " "), func(t *testing.T) {
				run(t, args...).wantSuccess(t, append(texts, "rlpx "+name)...)
			})
		}
	}
}

func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"-version"}, {"--version"}, {"-v"}} {
		r := run(t, args...)
		r.wantSuccess(t, version().String())
		if strings.Count(r.stdout, "\n") != 1 {
			t.Errorf("%q prints %q", args, r.stdout)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	keyFile := filepath.Join(t.TempDir(), "node.key")
	run(t, "key", "-new", keyFile).wantSuccess(t)
	for _, tc := range []struct {
		name  string
		args  []string
		texts []string
	}{
		{"no such command", []string{"pong"}, []string{`no command "pong"`}},
		{"mistyped command", []string{"srve"}, []string{`no command "srve", did you mean "serve"?`}},
		{"help for a mistyped command", []string{"help", "pign"}, []string{`did you mean "ping"?`}},
		{"mistyped flag", []string{"bench", "-conn", "1"}, []string{"no flag -conn, did you mean --conns?"}},
		{"no such command, unprintable", []string{"po\n\x1b[2Jng"}, []string{"no command"}},
		{"help for no such command", []string{"help", "pong"}, []string{`no command "pong"`, "rlpx -help"}},
		{"no such flag", []string{"ping", "-x", "enode"}, []string{"-x", "rlpx ping -help"}},
		{"no such flag of the root", []string{"-x"}, []string{"-x"}},
		{"flag without value", []string{"ping", "-c"}, []string{"-c"}},
		{"count no number", []string{"ping", "-c", "many", "enode"}, []string{"many"}},
		{"negative count", []string{"ping", "-c", "-1", "enode"}, []string{"-c"}},
		{"negative interval", []string{"ping", "-i", "-1s", "enode"}, []string{"-i"}},
		{"zero timeout", []string{"ping", "-timeout", "0", "enode"}, []string{"-timeout"}},
		{"duration without unit", []string{"ping", "-timeout", "5", "enode"}, []string{"5"}},
		{"-help for no such command", []string{"-help", "pong"}, []string{"pong"}},
		{"-help for no such command of a command", []string{"decode", "-help", "x"}, []string{"x"}},
		{"help, no such flag of it", []string{"help", "decode", "-x"}, []string{"-x", "rlpx help -help"}},
		{"help with two", []string{"help", "ping", "serve"}, []string{"one argument"}},
		{"ping without enode", []string{"ping"}, []string{"ENODE", "rlpx ping -help"}},
		{"ping with two", []string{"ping", "a", "b"}, []string{"one argument"}},
		{"ping, no enode", []string{"ping", "nobody"}, []string{`"nobody" is no node`, "rlpx ping -help"}},
		{"bench, no enode", []string{"bench", "-to", "nobody"}, []string{`-to: "nobody" is no node`, "rlpx bench -help"}},
		{"ping, bad capability", []string{"ping", "-cap", "eth", "enode"}, []string{`"eth"`, "NAME/VERSION"}},
		{"ping, capability name too long", []string{"ping", "-cap", "ethereumm/1", "enode"}, []string{"ethereumm/1"}},
		{"serve with argument", []string{"serve", "x"}, []string{`"x"`}},
		{"serve, no port", []string{"serve", "-addr", "localhost"}, []string{"-addr", "port"}},
		{"serve, port too large", []string{"serve", "-addr", "127.0.0.1:65536"}, []string{"-addr", "65536"}},
		{"serve, no room", []string{"serve", "-maxpeers", "0"}, []string{"-maxpeers"}},
		{"serve, negative limit", []string{"serve", "-n", "-1"}, []string{"-n"}},
		{"serve, negative duration", []string{"serve", "-for", "-1s"}, []string{"-for"}},
		{"serve, bad capability length", []string{"serve", "-cap", "x/1:y"}, []string{"x/1:y"}},
		{"serve, capability of length 0", []string{"serve", "-cap", "x/1:0"}, []string{"x/1", "length 0"}},
		{"demo with argument", []string{"demo", "now"}, []string{`"now"`}},
		{"demo, negative duration", []string{"demo", "-for", "-1s"}, []string{"-for"}},
		{"key without file", []string{"key"}, []string{"FILE"}},
		{"new key without file", []string{"key", "-new"}, []string{"FILE"}},
		{"key with two files", []string{"key", "a", "b"}, []string{"one argument"}},
		{"key, bad address", []string{"key", "-addr", "1.2.3.4", "a"}, []string{"-addr"}},
		{"key, port 0", []string{"key", "-addr", "1.2.3.4:0", keyFile}, []string{"-addr", "port 0"}},
		{"key, impossible host", []string{"key", "-addr", "a b:1", keyFile}, []string{"-addr"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := run(t, tc.args...)
			r.wantError(t, statusUsage, tc.texts...)
			if r.stdout != "" {
				t.Errorf("stdout %q", r.stdout)
			}
		})
	}
}

// failingWriter is a standard output that takes n writes.
type failingWriter struct{ n int }

var errNoSpace = errors.New("no space left on device")

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.n--; w.n < 0 {
		return 0, errNoSpace
	}
	return len(p), nil
}

func TestOutputThatCannotBeWritten(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"-h"}, {"demo", "-for", "1ms"}} {
		for n := range 2 {
			w := &failingWriter{n}
			var stderr buffer
			status := Run(t.Context(), args, w, &stderr)
			if failed := w.n < 0; !failed {
				continue
			}
			if status != statusFailed || !strings.Contains(stderr.String(), errNoSpace.Error()) {
				t.Errorf("%q, %d writes: status %d, stderr %q", args, n, status, stderr.String())
			}
		}
	}
}

func TestMessageIsOnePrintableLine(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"plain", "it failed", "it failed"},
		{"prefixes", "rlpx: dialing: rlpx: handshake: p2p: no", "dialing: handshake: no"},
		{"control characters", "a\nb\x1b[31mc\r\x00\u202e", `a\nb\x1b[31mc\r\x00\u202e`},
		{"invalid UTF-8", "a\xffb", `a\ufffdb`},
		{"other scripts", "Schlüssel 鍵", "Schlüssel 鍵"},
		{"long", strings.Repeat("x", 5000), strings.Repeat("x", maxMessage) + "..."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := message(errors.New(tc.text)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestBuildString(t *testing.T) {
	got := build{version: "v1.2.3", revision: "abc+"}.String()
	if !strings.HasPrefix(got, "v1.2.3 (abc+), go") {
		t.Error(got)
	}
	if name := clientName(); strings.Count(name, "/") != 3 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		t.Errorf("client name %q", name)
	}
}
