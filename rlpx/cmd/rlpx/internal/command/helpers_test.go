package command

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// buffer is a stream that is written and read side by side.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// result is what a run of the command left behind.
type result struct {
	status         int
	stdout, stderr string
}

// run runs the command to its end.
func run(t *testing.T, args ...string) result {
	t.Helper()
	return runContext(t, t.Context(), args...)
}

func runContext(t *testing.T, ctx context.Context, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // a test that hangs says so sooner
	defer cancel()
	var stdout, stderr buffer
	status := Run(ctx, args, &stdout, &stderr)
	r := result{status, stdout.String(), stderr.String()}
	for _, text := range []string{r.stdout, r.stderr} {
		if strings.Contains(text, "goroutine ") || strings.Contains(text, "panic") {
			t.Errorf("%q: stack trace in the output:\n%s", args, text)
		}
	}
	return r
}

// wantError checks that a run failed with one line that contains the texts.
func (r result) wantError(t *testing.T, status int, texts ...string) {
	t.Helper()
	if r.status != status {
		t.Errorf("exit status %d, want %d", r.status, status)
	}
	if !strings.HasPrefix(r.stderr, "rlpx: ") || strings.Count(r.stderr, "\n") != 1 || !strings.HasSuffix(r.stderr, "\n") {
		t.Errorf("want one line on stderr, got %q", r.stderr)
	}
	if strings.Count(r.stderr, "rlpx: ") > 1 || strings.Contains(r.stderr, "p2p: ") {
		t.Errorf("package prefixes are left in %q", r.stderr)
	}
	for _, text := range texts {
		if !strings.Contains(r.stderr, text) {
			t.Errorf("stderr %q does not contain %q", r.stderr, text)
		}
	}
}

// atEnd is r without what stands on stderr before the error: progress, or a warning.
func (r result) atEnd() result {
	if at := strings.LastIndex(r.stderr, "rlpx: "); at >= 0 {
		r.stderr = r.stderr[at:]
	}
	return r
}

// wantSuccess checks that a run succeeded and that its output contains the texts.
func (r result) wantSuccess(t *testing.T, texts ...string) {
	t.Helper()
	if r.status != statusOK {
		t.Errorf("exit status %d, stderr %q", r.status, r.stderr)
	}
	wantAll(t, r.stdout, texts...)
}

func wantAll(t *testing.T, output string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(output, text) {
			t.Errorf("no %q in:\n%s", text, output)
		}
	}
}
