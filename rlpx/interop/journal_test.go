package interop

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"testing"
)

// journalLimit bounds what is kept of a peer's log, far above what any test needs.
const journalLimit = 64 << 20

// journal keeps what a peer logs, so that a test can wait for a line of it, and shows it if the
// test fails.
type journal struct {
	of      string // who logs
	mu      sync.Mutex
	text    []byte
	changed chan struct{} // closed at the next write
}

func newJournal(t *testing.T, of string) *journal {
	j := &journal{of: of, changed: make(chan struct{})}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of %s:\n%s", j.of, j)
		}
	})
	return j
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.text) < journalLimit {
		j.text = append(j.text, p...)
	}
	close(j.changed)
	j.changed = make(chan struct{})
	return len(p), nil
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return string(j.text)
}

// wait returns the first match of the pattern with its groups, as soon as there is one.
func (j *journal) wait(ctx context.Context, pattern *regexp.Regexp) ([]string, error) {
	for {
		j.mu.Lock()
		match := pattern.FindSubmatch(j.text)
		changed := j.changed
		j.mu.Unlock()
		if match != nil {
			groups := make([]string, len(match))
			for i, group := range match {
				groups[i] = string(group)
			}
			return groups, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("no line that matches %q: %w", pattern, context.Cause(ctx))
		}
	}
}
