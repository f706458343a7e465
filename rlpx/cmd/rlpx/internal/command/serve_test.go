package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gethrlpx "github.com/ethereum/go-ethereum/p2p/rlpx"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// served is a serve command that runs.
type served struct {
	t      *testing.T
	url    string
	to     target
	stdout *bufio.Reader
	stderr buffer
	stop   context.CancelFunc
	status chan int
}

// startServe starts serve on a free port, logging in JSON, and waits until it listens.
func startServe(t *testing.T, args ...string) *served {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	s := &served{t: t, stdout: bufio.NewReader(r), stop: cancel, status: make(chan int, 1)}
	go func() {
		defer w.Close()
		s.status <- Run(ctx, append([]string{"serve", "-addr", "127.0.0.1:0", "-json"}, args...), w, &s.stderr)
	}()
	t.Cleanup(func() {
		cancel()
		_, _ = io.Copy(io.Discard, r)
	})
	line, err := s.stdout.ReadString('\n')
	if err != nil {
		t.Fatalf("no first line: %v, stderr %q", err, s.stderr.String())
	}
	s.url = strings.TrimSuffix(line, "\n")
	if s.to, err = parseTarget(s.url); err != nil {
		t.Fatal(err)
	}
	return s
}

// end waits for the end of the command and returns its events.
func (s *served) end() []map[string]any {
	s.t.Helper()
	if status := <-s.status; status != statusOK {
		s.t.Errorf("exit status %d", status)
	}
	if rest, _ := io.ReadAll(s.stdout); len(rest) > 0 {
		s.t.Errorf("stdout goes on with %q", rest)
	}
	return s.events()
}

func (s *served) events() (events []map[string]any) {
	s.t.Helper()
	for line := range bytes.Lines([]byte(s.stderr.String())) {
		var event map[string]any
		if err := json.Unmarshal(line, &event); err != nil {
			s.t.Fatalf("%v in %q", err, line)
		}
		events = append(events, event)
	}
	return events
}

// await waits until there were n events with the message.
func (s *served) await(msg string, n int) {
	s.t.Helper()
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(time.Millisecond) {
		if count(s.events(), msg) >= n {
			return
		}
	}
	s.t.Fatalf("fewer than %d events %q in:\n%s", n, msg, s.stderr.String())
}

func count(events []map[string]any, msg string) (n int) {
	for _, e := range events {
		if e["msg"] == msg {
			n++
		}
	}
	return n
}

// find returns the first event with the message.
func find(t *testing.T, events []map[string]any, msg string) map[string]any {
	t.Helper()
	for _, e := range events {
		if e["msg"] == msg {
			return e
		}
	}
	t.Fatalf("no event %q in %v", msg, events)
	return nil
}

// join opens a session with the served node.
func (s *served) join(name string, caps ...p2p.Capability) (*p2p.Session, error) {
	s.t.Helper()
	cfg := &rlpx.Config{Key: newKey(s.t), HandshakeTimeout: time.Minute}
	session, err := p2p.Dial(s.t.Context(), s.url, cfg, &p2p.SessionConfig{Name: name, Capabilities: caps})
	if err == nil {
		s.t.Cleanup(func() { session.Close() })
	}
	return session, err
}

func TestServeAndPing(t *testing.T) {
	s := startServe(t, "-n", "1")
	run(t, "ping", "-c", "2", "-i", "1ms", s.url).wantSuccess(t,
		"client        "+clientName()+"\n", "capabilities  echo/1\n", "shared        echo/1\n", "2 sent, 2 answered")
	events := s.end() // after one session
	if listening := find(t, events, "listening"); listening["enode"] != s.url || listening["caps"] != "echo/1" {
		t.Errorf("%v", listening)
	}
	session := find(t, events, "session")
	if session["client"] != clientName() || session["shared"] != "echo/1" || session["snappy"] != true || session["id"] == "" {
		t.Errorf("%v", session)
	}
	if ended := find(t, events, "session ended"); ended["reason"] != "peer: client quitting" || ended["messagesIn"].(float64) < 4 || ended["id"] != session["id"] {
		t.Errorf("%v", ended)
	}
	find(t, events, "stopped")
}

func TestServeEcho(t *testing.T) {
	s := startServe(t, "-v", "-cap", "eth/69", "-cap", "own/3:5")
	session, err := s.join("test", capability("own", 3, 5), echoCap)
	if err != nil {
		t.Fatal(err)
	}
	want := find(t, s.events(), "listening")["caps"]
	if got := list(session.Remote().Caps); got != "echo/1, eth/69, own/3" || got != want {
		t.Errorf("serves %s, says %v", got, want)
	}
	for _, tc := range []struct {
		cap  string
		id   uint64
		size int
	}{{"echo", 0, 0}, {"echo", 15, 1}, {"own", 4, 100}, {"own", 0, 100_000}, {"echo", 7, 3 << 20}} {
		data := newTraffic(1).random[:tc.size]
		ch := session.Capability(tc.cap)
		if err := ch.Write(tc.id, data); err != nil {
			t.Fatal(err)
		}
		id, got, err := ch.Read(t.Context())
		if err != nil || id != tc.id || !bytes.Equal(got, data) {
			t.Errorf("%+v: id %d, %d bytes, %v", tc, id, len(got), err)
		}
	}
	_ = session.Close()
	s.await("session ended", 1)
	s.stop()
	events := s.end()
	if n := count(events, "message"); n != 5 {
		t.Errorf("%d message events, want 5", n)
	}
	if m := find(t, events, "message"); m["cap"] != "echo/1" || m["id"] != float64(0) || m["bytes"] != float64(0) || m["level"] != "DEBUG" {
		t.Errorf("%v", m)
	}
}

// Without -v, messages are not logged.
func TestServeQuiet(t *testing.T) {
	s := startServe(t, "-n", "1")
	session, err := s.join("test", echoCap)
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Capability("echo").Write(1, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := session.Capability("echo").Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = session.Close()
	if events := s.end(); count(events, "message") != 0 || count(events, "session") != 1 {
		t.Errorf("%v", events)
	}
}

func TestServeInterrupted(t *testing.T) {
	s := startServe(t)
	var sessions []*p2p.Session
	for range 3 {
		session, err := s.join("test", echoCap)
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, session)
	}
	s.await("session", 3)
	s.stop()
	for _, session := range sessions {
		<-session.Done()
		if err, want := session.Err(), (&p2p.DisconnectError{Reason: p2p.DiscQuitting, Remote: true}); !errors.Is(err, want) {
			t.Errorf("the session ended with %v, want %v", err, want)
		}
	}
	if events := s.end(); count(events, "session ended") != 3 || find(t, events, "session ended")["reason"] != "we: client quitting" {
		t.Errorf("%v", events)
	}
}

func TestServeFor(t *testing.T) {
	s := startServe(t, "-for", "50ms")
	s.end()
}

func TestServeTooManyPeers(t *testing.T) {
	s := startServe(t, "-maxpeers", "1")
	first, err := s.join("first", echoCap)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		run(t, "ping", s.url).wantError(t, statusFailed, "the peer said Disconnect: too many peers (reason 0x04)")
	}
	if _, err := first.Ping(t.Context()); err != nil {
		t.Errorf("the first session: %v", err)
	}
	_ = first.Close()
	s.await("session ended", 1)
	// Its place is free as soon as that is logged, or a moment later.
	for start := time.Now(); run(t, "ping", "-c", "1", s.url).status != statusOK; {
		if time.Since(start) > time.Minute {
			t.Fatal("the place is not free again")
		}
	}
	s.stop()
	if n := count(s.end(), "turned away"); n < 3 {
		t.Errorf("%d peers turned away, want 3 or more", n)
	}
}

func TestServeUselessPeer(t *testing.T) {
	s := startServe(t)
	if _, err := s.join("other", capability("eth", 69, 18)); !errors.Is(err, p2p.DiscUselessPeer) {
		t.Errorf("got %v", err)
	}
	s.await("no session", 1)
	s.stop()
	if e := find(t, s.end(), "no session"); !strings.Contains(e["err"].(string), "eth/69") && !strings.Contains(e["err"].(string), "useless peer") {
		t.Errorf("%v", e)
	}
}

// What peers choose does not forge log lines.
func TestServeUnprintablePeer(t *testing.T) {
	s := startServe(t, "-n", "1")
	session, err := s.join("x\n{\"msg\":\"forged\"}\x1b[2J", echoCap)
	if err != nil {
		t.Fatal(err)
	}
	_ = session.Close()
	events := s.end()
	if got := find(t, events, "session")["client"]; got != `x\x0a{"msg":"forged"}\x1b[2J` {
		t.Errorf("client %q", got)
	}
	if count(events, "forged") > 0 || strings.Contains(s.stderr.String(), "\x1b") {
		t.Errorf("forged: %q", s.stderr.String())
	}
}

// What is no RLPx costs a line, and nothing else.
func TestServeForeignPeers(t *testing.T) {
	s := startServe(t)
	if r, err := http.Get("http://" + s.to[0].Addr()); err == nil {
		t.Errorf("HTTP gets %v", r.Status)
		r.Body.Close()
	}
	for _, bytes := range []string{"", "x", "\x01\x00" + strings.Repeat("x", 256), "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"} {
		c, err := net.Dial("tcp", s.to[0].Addr())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, bytes)
		_ = c.(*net.TCPConn).CloseWrite()
		if answer, _ := io.ReadAll(c); len(answer) > 0 {
			t.Errorf("%q is answered with %x", bytes, answer)
		}
		c.Close()
	}
	run(t, "ping", "-c", "1", s.url).wantSuccess(t)
	s.await("session ended", 1)
	s.await("no handshake", 5)
	s.stop()
	events := s.end()
	if n := count(events, "no handshake"); n != 5 {
		t.Errorf("%d events, want 5: %v", n, events)
	}
	// Handshakes end side by side, so that the lines come in any order.
	if !slices.ContainsFunc(events, func(e map[string]any) bool {
		return e["msg"] == "no handshake" && strings.Contains(e["err"].(string), "HTTP")
	}) {
		t.Errorf("no line names HTTP: %v", events)
	}
}

func TestServeKeyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodekey")
	made := run(t, "key", "-new", file)
	made.wantSuccess(t)
	s := startServe(t, "-key", file)
	id := nodeID(s.to[0].Key)
	wantAll(t, made.stdout, id)
	run(t, "ping", "-c", "1", s.url).wantSuccess(t, "node id       "+id)
	s.stop()
	s.end()
	run(t, "serve", "-key", file+".missing").wantError(t, statusFailed, "rlpx key -new")
}

func TestKeyLogsAgree(t *testing.T) {
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "serve"), filepath.Join(dir, "ping")}
	s := startServe(t, "-keylog", files[0], "-n", "2")
	for range 2 { // appends
		run(t, "ping", "-c", "1", "-keylog", files[1], s.url).wantSuccess(t)
	}
	s.end()
	var logs [2]string
	for i, file := range files {
		log, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		logs[i] = string(log)
	}
	if logs[0] != logs[1] || strings.Count(logs[0], "RLPX ") != 2 {
		t.Errorf("serve logged %q, ping %q", logs[0], logs[1])
	}
}

// A peer that says no Hello of its own is told ours all the same, as go-ethereum's devp2p rlpx ping
// expects.
func TestServeToGoEthereum(t *testing.T) {
	s := startServe(t, "-cap", "eth/69")
	tcp, err := net.Dial("tcp", s.to[0].Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	conn := gethrlpx.NewConn(tcp, s.to[0].Key)
	if _, err := conn.Handshake(newKey(t)); err != nil {
		t.Fatal(err)
	}
	code, payload, _, err := conn.Read()
	if err != nil || code != p2p.HelloCode {
		t.Fatalf("code %d, %v", code, err)
	}
	hello, err := p2p.DecodeHello(payload)
	if err != nil {
		t.Fatal(err)
	}
	if hello.Name != clientName() || list(hello.Caps) != "echo/1, eth/69" {
		t.Errorf("%v", hello)
	}
	conn.Close()
	s.await("no session", 1)
	s.stop()
	s.end()
}

func TestServeAddressInUse(t *testing.T) {
	port := listen(t, func(net.Conn) {})
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	run(t, "serve", "-addr", addr).wantError(t, statusFailed, "cannot listen on "+addr, "in use")
	run(t, "serve", "-addr", "no-such-host.invalid:0").wantError(t, statusFailed, "cannot listen")
}

func TestServeTextLog(t *testing.T) {
	r := run(t, "serve", "-addr", "127.0.0.1:0", "-for", "1ms")
	r.wantSuccess(t, "enode://")
	wantAll(t, r.stderr, "level=INFO msg=listening addr=127.0.0.1:", "caps=echo/1", "msg=stopped")
}

func TestEnding(t *testing.T) {
	breach := &p2p.DisconnectError{Reason: p2p.DiscProtocolError}
	for want, err := range map[string]error{
		"peer: too many peers":       fmt.Errorf("wrapped: %w", &p2p.DisconnectError{Reason: p2p.DiscTooManyPeers, Remote: true}),
		"we: client quitting":        &p2p.DisconnectError{Reason: p2p.DiscQuitting},
		"peer closed the connection": fmt.Errorf("p2p: connection lost: %w", io.EOF),
		"disconnected by us: breach of protocol: invalid message code": fmt.Errorf("%w: %w", breach, p2p.ErrInvalidCode),
	} {
		if got := ending(err); got != want {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
}

// A peer that breaks the rules is told, and the log says how it did.
func TestServeBreach(t *testing.T) {
	s := startServe(t, "-n", "1")
	// Both have echo/1, and disagree on its length.
	session, err := s.join("test", capability("echo", 1, 100))
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Capability("echo").Write(99, nil); err != nil {
		t.Fatal(err)
	}
	<-session.Done()
	if err := session.Err(); !errors.Is(err, &p2p.DisconnectError{Reason: p2p.DiscProtocolError, Remote: true}) {
		t.Errorf("the session ended with %v", err)
	}
	if e := find(t, s.end(), "session ended"); !strings.Contains(e["reason"].(string), "invalid message code: 0x73") {
		t.Errorf("%v", e)
	}
}
