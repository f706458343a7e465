package command

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// records parses lines of JSON.
func records[T any](t *testing.T, text string) (all []T) {
	t.Helper()
	for line := range bytes.Lines([]byte(text)) {
		var r T
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		all = append(all, r)
	}
	return all
}

func TestBench(t *testing.T) {
	for _, tc := range []struct {
		args  []string
		title string
	}{
		{nil, "TCP on the loopback interface, snappy on\n"},
		{[]string{"-pipe", "-snappy=false"}, "net.Pipe, snappy off\n"},
	} {
		args := append([]string{"bench", "-rounds", "2", "-time", "1ms", "-sizes", "1KiB, 100", "-conns", "3,1"}, tc.args...)
		r := run(t, args...)
		r.wantSuccess(t, "go-ethereum", tc.title, "GOMAXPROCS", "below 1, this library is slower", "with Config.SharedHashing, which is off by default")
		// However wide the numbers make the columns.
		wantAll(t, strings.Join(strings.Fields(r.stdout), " "), "connections message go-ethereum this library ratio lowest highest ")
		var rows []string
		for line := range strings.Lines(r.stdout) {
			if strings.Contains(line, "iB/s") {
				rows = append(rows, strings.Join(strings.Fields(line)[:3], " "))
			}
		}
		if got, want := strings.Join(rows, ", "), "1 100 B, 1 1 KiB, 3 100 B, 3 1 KiB"; got != want {
			t.Errorf("rows %q, want %q in\n%s", got, want, r.stdout)
		}
		if strings.ContainsAny(r.stdout+r.stderr, "\x1b\r") {
			t.Errorf("nobody watches: %q, %q", r.stdout, r.stderr)
		}
		wantAll(t, r.stderr, "bench  25% ", "bench  75% ")
	}
	r := run(t, "bench", "-rounds", "1", "-time", "1ms", "-sizes", "100", "-conns", "1")
	r.wantSuccess(t, "below 1, this library is slower")
	if strings.Contains(r.stdout, "SharedHashing") {
		t.Errorf("one connection shares with nobody:\n%s", r.stdout)
	}
}

func TestBenchJSON(t *testing.T) {
	r := run(t, "bench", "-json", "-rounds", "3", "-time", "1ms", "-sizes", "100,1k", "-conns", "1,2")
	r.wantSuccess(t)
	rows := records[comparedRecord](t, r.stdout)
	if len(rows) != 4 {
		t.Fatalf("%d rows: %s", len(rows), r.stdout)
	}
	for i, got := range rows {
		conns, size := 1+i/2, []int{100, 1024}[i%2]
		if got.Network != "tcp" || !got.Snappy || got.Connections != conns || got.SharedHashing != (conns > 1) || got.Size != size || got.Rounds != 3 {
			t.Errorf("%+v", got)
		}
		for _, c := range []capacity{got.GoEthereum, got.Library} {
			if c.Bytes <= 0 || c.Messages != c.Bytes/float64(size) {
				t.Errorf("%+v", c)
			}
		}
		if got.RatioLowest <= 0 || got.RatioLowest > got.Ratio || got.Ratio > got.RatioHighest {
			t.Errorf("%+v", got)
		}
	}
}

func TestBenchUsageErrors(t *testing.T) {
	enode := enodeURL(newKey(t), 1)
	for _, tc := range []struct {
		name  string
		args  []string
		texts []string
	}{
		{"argument", []string{"enode"}, []string{`"enode"`, "rlpx bench -help"}},
		{"no size", []string{"-sizes", ""}, []string{"-sizes"}},
		{"size zero", []string{"-sizes", "0"}, []string{"-sizes"}},
		{"negative size", []string{"-sizes", "-1"}, []string{"-sizes"}},
		{"size no number", []string{"-sizes", "1k,x"}, []string{"-sizes", `"x"`}},
		{"size too large", []string{"-sizes", "16MiB"}, []string{"-sizes", "16777214"}},
		{"size far too large", []string{"-sizes", "2147483647MiB"}, []string{"-sizes", "16777214"}},
		{"size beyond all numbers", []string{"-sizes", "99999999999999999999"}, []string{"-sizes", "16777214"}},
		{"connections beyond all numbers", []string{"-conns", "-99999999999999999999"}, []string{"-conns", "2048"}},
		{"no connections", []string{"-conns", "0"}, []string{"-conns"}},
		{"connections no number", []string{"-conns", "1,,2"}, []string{"-conns"}},
		{"too many connections", []string{"-conns", "1000000"}, []string{"-conns"}},
		{"too much memory", []string{"-conns", "1000", "-sizes", "15MiB"}, []string{"1000 connections", "15 MiB", "memory"}},
		{"no rounds", []string{"-rounds", "0"}, []string{"-rounds"}},
		{"no time", []string{"-time", "0"}, []string{"-time"}},
		{"time without unit", []string{"-time", "1"}, []string{"time"}},
		{"timeout without -to", []string{"-timeout", "1s"}, []string{"-timeout", "without -to"}},
		{"key without -to", []string{"-key", "x"}, []string{"-key", "without -to"}},
		{"connections with -to", []string{"-to", enode, "-conns", "1"}, []string{"-conns", "with -to"}},
		{"pipe with -to", []string{"-to", enode, "-pipe"}, []string{"-pipe", "with -to"}},
		{"snappy with -to", []string{"-to", enode, "-snappy"}, []string{"-snappy", "with -to"}},
		{"-to with -kernels", []string{"-kernels", "-to", enode}, []string{"-to", "with -kernels"}},
		{"sizes with -kernels", []string{"-kernels", "-sizes", "1"}, []string{"-sizes", "with -kernels"}},
		{"zero timeout", []string{"-to", enode, "-timeout", "0"}, []string{"-timeout"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := run(t, append([]string{"bench"}, tc.args...)...)
			r.wantError(t, statusUsage, tc.texts...)
			if r.stdout != "" {
				t.Errorf("stdout %q", r.stdout)
			}
		})
	}
	run(t, "bench", "-help").wantSuccess(t, "rlpx bench", "-to", "-sizes", "-conns", "-rounds", "-time", "-pipe", "-snappy", "-json", "-timeout", "-key", "-kernels", "RLPX_KECCAK")
}

func TestBenchInterrupted(t *testing.T) {
	// At once: there is nothing to show.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := runContext(t, ctx, "bench")
	r.atEnd().wantError(t, statusInterrupted, "interrupted")
	if strings.Contains(r.stdout, "ratio") {
		t.Errorf("an empty table:\n%s", r.stdout)
	}

	// After some rows: they are shown.
	for _, args := range [][]string{{}, {"-json"}} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stderr := &notifier{text: "25%", notify: cancel}
		var stdout buffer
		args := append([]string{"bench", "-rounds", "4", "-time", "1ms", "-sizes", "100", "-conns", "1,2"}, args...)
		if status := Run(ctx, args, &stdout, stderr); status != statusInterrupted {
			t.Errorf("exit status %d, %s", status, stderr.String())
		}
		if len(args) > 9 {
			for _, row := range records[comparedRecord](t, stdout.String()) {
				if row.Rounds < 1 || row.Rounds > 3 {
					t.Errorf("%+v", row)
				}
			}
		} else {
			wantAll(t, stdout.String(), "iB/s", "Ended early, after 1 of 4 rounds.\n")
		}
	}
}

// notifier is a stream that calls notify when the text was written.
type notifier struct {
	buffer
	text   string
	notify func()
}

func (n *notifier) Write(p []byte) (int, error) {
	if strings.Contains(string(p), n.text) {
		n.notify()
	}
	return n.buffer.Write(p)
}

func TestBenchEcho(t *testing.T) {
	s := startServe(t)
	r := run(t, "bench", "-to", s.url, "-rounds", "2", "-time", "2ms", "-sizes", "1,16KiB,2MiB")
	r.wantSuccess(t, s.to[0].Addr()+", "+clientName()+", p2p version 5, snappy on\n", "connected in ", "handshake in ",
		"message", "round trip p50 ", "throughput", "1 B ", "16 KiB ", "2 MiB ")
	if strings.Contains(r.stdout, " - ") {
		t.Errorf("an empty cell:\n%s", r.stdout)
	}

	r = run(t, "bench", "-to", s.url, "-json", "-rounds", "3", "-time", "2ms", "-sizes", "100,5000")
	r.wantSuccess(t)
	rows := records[echoedRecord](t, r.stdout)
	if len(rows) != 2 {
		t.Fatalf("%d rows: %s", len(rows), r.stdout)
	}
	for i, size := range []int{100, 5000} {
		got := rows[i]
		if got.Peer != s.to[0].Addr() || got.Client != clientName() || !got.Snappy || got.Size != size || got.Rounds != 3 ||
			got.P50 <= 0 || got.P50 > got.P99 || got.Bytes <= 0 || got.Messages != got.Bytes/float64(size) {
			t.Errorf("%+v", got)
		}
	}
	s.await("session ended", 2)
	s.stop()
	for _, e := range s.end() {
		if e["msg"] == "session ended" && e["reason"] != "peer: client quitting" {
			t.Errorf("%v", e)
		}
	}
}

func TestBenchEchoInterrupted(t *testing.T) {
	s := startServe(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stderr := &notifier{text: "25%", notify: cancel}
	var stdout buffer
	if status := Run(ctx, []string{"bench", "-to", s.url, "-rounds", "4", "-time", "1ms", "-sizes", "100"}, &stdout, stderr); status != statusInterrupted {
		t.Errorf("exit status %d, %s", status, stderr.String())
	}
	wantAll(t, stdout.String(), "100 B ", "Ended early, after 1 of 4 rounds.\n")
	s.await("session ended", 1)
}

func TestBenchEchoFails(t *testing.T) {
	key := newKey(t)
	refused := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return enodeURL(key, uint16(l.Addr().(*net.TCPAddr).Port))
	}
	silent := listen(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 1000)); <-t.Context().Done() })
	for _, tc := range []struct {
		name, to string
		texts    []string
	}{
		{"unreachable", refused(), []string{"cannot connect to 127.0.0.1:"}},
		{"silent", enodeURL(key, silent), []string{"handshake", "no answer within 2s"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := run(t, "bench", "-to", tc.to, "-timeout", "2s")
			r.wantError(t, statusFailed, tc.texts...)
			if r.stdout != "" {
				t.Errorf("stdout %q", r.stdout)
			}
		})
	}
}

// Peers that are not rlpx serve.
func TestBenchOtherPeers(t *testing.T) {
	eth := p2p.Capabilities{capability("eth", 69, 18), capability("evil\x1b[2J", 1, 1)}[:1]
	for _, tc := range []struct {
		name  string
		serve func(ctx context.Context, conn *rlpx.Conn)
		texts []string
		waits bool // for the timeout
	}{
		{"no echo", func(ctx context.Context, conn *rlpx.Conn) {
			s, err := p2p.NewSession(ctx, conn, &p2p.SessionConfig{Capabilities: eth})
			if err == nil {
				s.Close()
			}
		}, []string{"has no capability echo/1", "rlpx serve"}, false},
		{"useless", func(_ context.Context, conn *rlpx.Conn) {
			_ = p2p.Refuse(conn, p2p.DiscUselessPeer)
		}, []string{"has no capability echo/1"}, false},
		{"too many", func(_ context.Context, conn *rlpx.Conn) {
			_ = p2p.Refuse(conn, p2p.DiscTooManyPeers)
		}, []string{"no session with ", "too many peers (reason 0x04)"}, false},
		{"contents", echoWith(func(n int, data []byte) []byte { data[0] ^= byte(n / 5); return data }),
			[]string{"echo of 100 B from ", "content mismatch: message 5 of 100 bytes differs from byte 0 on"}, false},
		{"swallows", echoWith(func(n int, data []byte) []byte {
			if n < 5 {
				return data
			}
			return nil
		}), []string{"echo of 100 B from ", "nothing came back within 2s"}, true},
		{"leaves", func(ctx context.Context, conn *rlpx.Conn) {
			s, err := p2p.NewSession(ctx, conn, &p2p.SessionConfig{Capabilities: p2p.Capabilities{echoCap}})
			if err != nil {
				return
			}
			_, _, _ = s.Capability("echo").Read(ctx)
			_ = s.Disconnect(p2p.DiscQuitting)
		}, []string{"echo of 100 B from ", "the peer said Disconnect: client quitting"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			key := newKey(t)
			l, err := rlpx.Listen("tcp", "127.0.0.1:0", &rlpx.Config{Key: key})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if conn, err := l.Accept(ctx); err == nil {
					tc.serve(ctx, conn)
					conn.Close()
				}
			}()
			timeout := "1m"
			if tc.waits {
				timeout = "2s"
			}
			r := run(t, "bench", "-to", enodeURL(key, uint16(l.Addr().(*net.TCPAddr).Port)), "-timeout", timeout, "-sizes", "100", "-time", "1m")
			r.atEnd().wantError(t, statusFailed, tc.texts...)
			cancel()
			<-ended
		})
	}
}

// echoWith is a peer that sends back what change makes of each message; nothing if that is nil.
func echoWith(change func(n int, data []byte) []byte) func(context.Context, *rlpx.Conn) {
	return func(ctx context.Context, conn *rlpx.Conn) {
		s, err := p2p.NewSession(ctx, conn, &p2p.SessionConfig{Capabilities: p2p.Capabilities{echoCap}})
		if err != nil {
			return
		}
		defer s.Close()
		ch := s.Capability("echo")
		for n := 0; ; n++ {
			id, data, err := ch.Read(ctx)
			if err != nil {
				return
			}
			if data = change(n, data); data != nil && ch.Write(id, data) != nil {
				return
			}
		}
	}
}
