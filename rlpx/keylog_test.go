package rlpx

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// tap records both directions of a net.Conn.
type tap struct {
	net.Conn
	mu      sync.Mutex
	in, out []byte
}

func (c *tap) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in = append(c.in, p[:n]...)
	return n, err
}

func (c *tap) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.out = append(c.out, p...)
	c.mu.Unlock()
	return c.Conn.Write(p)
}

var keyLogLine = regexp.MustCompile(`^RLPX ([0-9a-f]{64}) ([0-9a-f]{64}) ([0-9a-f]{64}) ([0-9a-f]{64}) ([0-9a-f]{64})$`)

// What was recorded of a session and its line of the key log are enough to verify and to decrypt
// it.
func TestKeyLogOpensACapture(t *testing.T) {
	clientKey, serverKey := newKey(t), newKey(t)
	var clientLog, serverLog bytes.Buffer
	a, b := tcpPipe(t)
	wire := &tap{Conn: a}
	client := Client(wire, &serverKey.PublicKey, &Config{Key: clientKey, KeyLogWriter: &clientLog})
	server := Server(b, &Config{Key: serverKey, KeyLogWriter: &serverLog})
	done := make(chan error, 1)
	go func() {
		_, err := server.HandshakeContext(t.Context())
		done <- err
	}()
	if _, err := client.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	defer server.Close()
	for i := range 5 {
		exchange(t, client, server, uint64(i), pattern(i*1000, 1))
		exchange(t, server, client, uint64(i), pattern(i*100, 2))
	}

	if clientLog.String() != serverLog.String() {
		t.Errorf("the two ends log\n%s%s", &clientLog, &serverLog)
	}
	m := keyLogLine.FindStringSubmatch(strings.TrimSuffix(clientLog.String(), "\n"))
	if m == nil || !strings.HasSuffix(clientLog.String(), "\n") {
		t.Fatalf("line %q", &clientLog)
	}
	field := func(i int) []byte {
		v, err := hex.DecodeString(m[i])
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	x, aesSecret, macSecret, initiatorNonce, recipientNonce := field(1), field(2), field(3), field(4), field(5)

	packet := func(stream []byte) (packet, rest []byte) {
		n := 2 + int(stream[0])<<8 + int(stream[1])
		return stream[:n], stream[n:]
	}
	auth, fromClient := packet(wire.out)
	ack, fromServer := packet(wire.in)
	if !bytes.Equal(auth[3:35], x) {
		t.Errorf("the line belongs to %x, the session is %x", x, auth[3:35])
	}
	// The MAC states of the specification: keccak256(mac-secret ^ the other's nonce ‖ one's own
	// packet).
	seed := func(nonce, packet []byte) []byte {
		s := make([]byte, 32)
		for i := range s {
			s[i] = macSecret[i] ^ nonce[i]
		}
		return append(s, packet...)
	}
	for _, dir := range []struct {
		name    string
		seed    []byte
		wire    []byte
		size    int
		pattern byte
	}{
		{"initiator", seed(recipientNonce, auth), fromClient, 1000, 1},
		{"recipient", seed(initiatorNonce, ack), fromServer, 100, 2},
	} {
		frames, err := rlpxtest.NewDirection(aesSecret, macSecret, rlpxtest.Keccak(dir.seed)).OpenAll(dir.wire)
		if err != nil || len(frames) != 5 {
			t.Fatalf("%s: %d frames, %v", dir.name, len(frames), err)
		}
		for i, f := range frames {
			if !bytes.Equal(f.Data, rlpxtest.Data(uint64(i), pattern(i*dir.size, dir.pattern))) {
				t.Errorf("%s: frame %d is wrong", dir.name, i)
			}
		}
	}
}

type failingWriter struct{ calls int }

func (w *failingWriter) Write(p []byte) (int, error) {
	w.calls++
	return 0, errors.New("disk full")
}

// A key log that cannot be written costs nobody the connection, and a handshake that fails logs
// nothing.
func TestKeyLogFailures(t *testing.T) {
	key := newKey(t)
	log := new(failingWriter)
	ours, theirs := tcpPipe(t)
	conn := Server(ours, &Config{Key: key, KeyLogWriter: log})
	defer conn.Close()
	go rlpxtest.Dial(t.Context(), theirs, newKey(t), &key.PublicKey)
	if _, err := conn.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if log.calls != 1 {
		t.Errorf("%d lines", log.calls)
	}

	ours, theirs = net.Pipe()
	failed := Server(ours, &Config{Key: key, KeyLogWriter: log})
	go theirs.Close()
	if _, err := failed.HandshakeContext(t.Context()); err == nil {
		t.Fatal("no error")
	}
	if log.calls != 1 {
		t.Error("a failed handshake was logged")
	}
}

// countedWriter fails if two Writes overlap: sessions may share a writer that is not safe for that.
type countedWriter struct {
	t     *testing.T
	busy  sync.Mutex
	lines []string
}

func (w *countedWriter) Write(p []byte) (int, error) {
	if !w.busy.TryLock() {
		w.t.Error("two Writes at once")
		return len(p), nil
	}
	defer w.busy.Unlock()
	w.lines = append(w.lines, string(p))
	return len(p), nil
}

func TestKeyLogSharedByManySessions(t *testing.T) {
	const sessions = 10
	key := newKey(t)
	log := &countedWriter{t: t}
	cfg := &Config{Key: key, KeyLogWriter: log}
	var wg sync.WaitGroup
	for range sessions {
		ours, theirs := tcpPipe(t)
		wg.Go(func() {
			conn := Server(ours, cfg)
			if _, err := conn.HandshakeContext(t.Context()); err != nil {
				t.Error(err)
			}
			conn.Close()
		})
		wg.Go(func() {
			if _, err := rlpxtest.Dial(t.Context(), theirs, newKey(t), &key.PublicKey); err != nil {
				t.Error(err)
			}
			theirs.Close()
		})
	}
	wg.Wait()
	distinct := map[string]bool{}
	for _, line := range log.lines {
		if !keyLogLine.MatchString(strings.TrimSuffix(line, "\n")) {
			t.Errorf("line %q", line)
		}
		distinct[line] = true
	}
	if len(distinct) != sessions {
		t.Errorf("%s for %d sessions", fmt.Sprint(len(distinct), " lines"), sessions)
	}
}

// A key log that blocks holds up the handshakes that write to it, and no other: not with another
// writer, and not with another writer of the same type, comparable or not.
func TestCase_N16_BlockedKeyLog(t *testing.T) {
	for name, writers := range map[string][2]io.Writer{
		"pointers": {&blockedLog{}, &blockedLog{}},
		"values":   {logFunc{func() {}, nil}, &blockedLog{}}, // not comparable
	} {
		t.Run(name, func(t *testing.T) {
			entered, release := make(chan struct{}), make(chan struct{})
			block := func() {
				close(entered)
				<-release
			}
			switch w := writers[0].(type) {
			case *blockedLog:
				w.block = block
			case logFunc:
				w.block = block
				writers[0] = w
			}
			held := make(chan error, 1)
			go func() { held <- loggedHandshake(t, writers[0]) }()
			<-entered
			if err := loggedHandshake(t, writers[1]); err != nil {
				t.Errorf("another writer: %v", err)
			}
			if err := loggedHandshake(t, nil); err != nil {
				t.Errorf("no writer: %v", err)
			}
			select {
			case err := <-held:
				t.Errorf("the blocked one is through: %v", err)
			default:
			}
			close(release)
			if err := <-held; err != nil {
				t.Error(err)
			}
			if n := len(keyLogs.held); n != 0 {
				t.Errorf("%d writers are remembered", n)
			}
		})
	}
}

// loggedHandshake performs a handshake one of whose ends has the writer.
func loggedHandshake(t *testing.T, w io.Writer) error {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	key := newKey(t)
	done := make(chan error, 1)
	go func() {
		_, err := Server(b, &Config{Key: key}).HandshakeContext(t.Context())
		done <- err
	}()
	if _, err := Client(a, &key.PublicKey, &Config{Key: newKey(t), KeyLogWriter: w}).HandshakeContext(t.Context()); err != nil {
		return err
	}
	return <-done
}

// blockedLog is a writer that may block.
type blockedLog struct{ block func() }

func (l *blockedLog) Write(p []byte) (int, error) {
	if l.block != nil {
		l.block()
	}
	return len(p), nil
}

// logFunc is a writer that cannot be compared.
type logFunc struct {
	block func()
	_     []byte
}

func (l logFunc) Write(p []byte) (int, error) {
	l.block()
	return len(p), nil
}
