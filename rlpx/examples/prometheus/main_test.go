package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// metric returns a value of what /metrics says, 0 if there is none.
func metric(t *testing.T, body, name string) (value float64) {
	t.Helper()
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if _, err := fmt.Sscan(rest, &value); err != nil {
				t.Fatal(err)
			}
		}
	}
	return value
}

// The demo as a user sees it: it says where, its metrics move, and it ends when asked to.
func TestRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	pr, pw := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", pw) }()
	line, err := bufio.NewReader(pr).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(line[strings.Index(line, "http://"):])
	var body string
	moved := func() bool {
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		all, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v\n%s", resp.Status, err, all)
		}
		body = string(all)
		return metric(t, body, `rlpx_messages_total{direction="read",node="alice"}`) >= 10 &&
			metric(t, body, `rlpx_handshakes_total{node="bob",result="failed",role="recipient"}`) >= 1
	}
	if !eventually(moved) {
		t.Fatalf("nothing moves:\n%s", body)
	}
	for _, name := range []string{
		`rlpx_handshakes_total{node="alice",result="ok",role="initiator"}`,
		`rlpx_handshakes_total{node="bob",result="ok",role="recipient"}`,
		`rlpx_connections{node="alice"}`,
		`rlpx_permutations_total{direction="written",node="bob"}`,
		`rlpx_handshake_duration_seconds_count{node="alice",role="initiator"}`,
		`go_goroutines`,
	} {
		if metric(t, body, name) == 0 {
			t.Errorf("%s is zero:\n%s", name, body)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestRunWithoutAPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := run(t.Context(), l.Addr().String(), io.Discard); err == nil {
		t.Error("no error")
	}
}
