package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/measure"
	"github.com/go-rlpx/transport/rlpx/p2p"
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
		"broadcast    alice -> 48 peers: ", " messages of 128.0 KiB in ", "iB/s to all, every byte as sent\n",
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
	ends := map[string]int{} // by line
	for line := range strings.Lines(string(log)) {
		ends[line]++
		if !strings.HasPrefix(line, "RLPX ") || strings.Count(line, " ") != 5 {
			t.Errorf("key log line %q", line)
		}
	}
	for line, n := range ends {
		if n != 2 {
			t.Errorf("want a key log line from each end, and the same one: there are %d of %q", n, line)
		}
	}
	if sessions := 1 + demoPeers; len(ends) != sessions {
		t.Errorf("%d sessions in the key log, want %d", len(ends), sessions)
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

// Whatever happens to one message of a broadcast is noticed by the peer.
func TestCrowdPeerMismatch(t *testing.T) {
	sent := newTraffic(2)
	packets := func() (q queue) {
		for i := range 5 {
			id, data := sent.block(i)
			q = append(q, packet{id, slices.Clone(data)})
		}
		return append(q, packet{endID, endOf(5)})
	}
	for _, tc := range []struct {
		name   string
		damage func(q queue) queue
		ok     bool
	}{
		{"as sent", func(q queue) queue { return q }, true},
		{"one bit", func(q queue) queue { q[3].data[blockSize-1] ^= 0x80; return q }, false},
		{"shorter", func(q queue) queue { q[3].data = q[3].data[1:]; return q }, false},
		{"other id", func(q queue) queue { q[3].id ^= 3; return q }, false},
		{"swapped", func(q queue) queue { q[1], q[3] = q[3], q[1]; return q }, false},
		{"lost", func(q queue) queue { return slices.Delete(q, 3, 4) }, false},
		{"last lost", func(q queue) queue { return slices.Delete(q, 4, 5) }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got tally
			var failed error
			p := &crowdPeer{traffic: newTraffic(2), got: &got, fail: func(err error) { failed = err }, over: make(chan struct{})}
			var err error
			for _, m := range tc.damage(packets()) {
				if err = p.handle(nil, m.id, m.data); err != nil {
					break
				}
			}
			if err != failed || tc.ok != (err == nil) || err != nil && !errors.Is(err, measure.ErrMismatch) {
				t.Errorf("got %v, reported %v", err, failed)
			}
			select {
			case <-p.over:
				if !tc.ok || got.bytes.Load() != 5*blockSize {
					t.Errorf("over after %d bytes", got.bytes.Load())
				}
			default:
				if tc.ok {
					t.Error("not over")
				}
			}
		})
	}
}

// A peer that leaves ends a broadcast, and is named.
func TestBroadcastToPeerThatLeaves(t *testing.T) {
	var channels []*p2p.Channel
	for i := range 3 {
		cap, n := demoCap, 0
		cap.Handle = func(ch *p2p.Channel, _ uint64, _ []byte) error {
			if n++; i == 1 && n == 5 {
				return p2p.DiscTooManyPeers
			}
			return nil
		}
		ours, theirs, err := p2p.Pipe(&p2p.SessionConfig{Capabilities: p2p.Capabilities{demoCap}}, &p2p.SessionConfig{Capabilities: p2p.Capabilities{cap}})
		if err != nil {
			t.Fatal(err)
		}
		defer ours.Close()
		defer theirs.Close()
		channels = append(channels, ours.Capability(demoCap.Name))
	}
	n, err := newTraffic(2).sendAll(t.Context(), channels, 10*time.Minute)
	if n < 4 || !errors.Is(err, p2p.DiscTooManyPeers) || !strings.Contains(err.Error(), " to peer 1: ") {
		t.Errorf("%d messages, %v", n, err)
	}
}
