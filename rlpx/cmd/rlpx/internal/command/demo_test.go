package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestDemo(t *testing.T) {
	keyLog := filepath.Join(t.TempDir(), "keys")
	r := run(t, "demo", "-for", "50ms", "-keylog", keyLog)
	r.wantSuccess(t,
		"alice        enode://",
		"handshake    bob dialed: connected in ",
		"alice        id ", "/alice, p2p version 5",
		"bob          id ", "/bob, p2p version 5",
		"negotiated   demo/1 with message codes 0x10 to 0x12, snappy on\n",
		"ping         answered in ",
		"bob -> alice ", "alice -> bob ", "every byte as sent",
		"disconnect   bob said: client quitting\n")
	rounds := regexp.MustCompile(`(?m) (\d+) messages, \d+\.\d+ [MG]iB in .*: .*/s, .* on the wire, `).FindAllStringSubmatch(r.stdout, -1)
	if len(rounds) != 2 {
		t.Errorf("want a line for each direction:\n%s", r.stdout)
	}
	// Lines, since nobody watches.
	if strings.ContainsAny(r.stderr, "\r\033|") {
		t.Errorf("stderr %q", r.stderr)
	}

	log, err := os.ReadFile(keyLog)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(log), "\n")
	if len(lines) != 3 || lines[0] != lines[1] || !strings.HasPrefix(lines[0], "RLPX ") || strings.Count(lines[0], " ") != 5 {
		t.Errorf("want a key log line from each end, and the same one: %q", log)
	}
	if info, err := os.Stat(keyLog); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != keyFileMode {
		t.Errorf("key log: mode %v, %v", info.Mode(), err)
	}
}

func TestDemoInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	start := time.Now()
	runContext(t, ctx, "demo", "-for", "10m").atEnd().wantError(t, statusInterrupted, "interrupted")
	if took := time.Since(start); took > time.Minute {
		t.Errorf("it took %v to end", took)
	}
}

func TestBothEndsWithTheFirstError(t *testing.T) {
	boom := errors.New("boom")
	fail := func(context.Context) error { return boom }
	wait := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	succeed := func(context.Context) error { return nil }
	for _, tc := range []struct {
		name       string
		one, other func(context.Context) error
		want       error
	}{
		{"none", succeed, succeed, nil},
		{"one", fail, wait, boom},
		{"other", wait, fail, boom},
		{"one after success", fail, succeed, boom},
		{"other after success", succeed, fail, boom},
	} {
		if err := both(t.Context(), tc.one, tc.other); err != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(boom)
	if err := both(ctx, wait, wait); err != boom {
		t.Errorf("from outside: got %v", err)
	}
}
