package rlpx

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// initConn starts a session on a new Conn.
func initConn(conn net.Conn, cfg *Config, sec rlpxtest.Secrets) *Conn {
	c := Server(conn, cfg)
	c.InitWithSecrets(Secrets{AES: sec.AES, MAC: sec.MAC, EgressMAC: sec.EgressMAC, IngressMAC: sec.IngressMAC})
	return c
}

// rawSession returns a Conn over ours, whose calls are counted, and the raw
// peer over theirs.
func rawSession(t testing.TB, cfg *Config, ours, theirs net.Conn) (*Conn, *rlpxtest.Counting, *rlpxtest.RawPeer) {
	t.Helper()
	a, b := rlpxtest.NewSecrets(rand.Uint64())
	counting := rlpxtest.Count(ours)
	conn, peer := initConn(counting, cfg, a), rlpxtest.NewRawPeer(theirs, b)
	t.Cleanup(func() { conn.Close(); theirs.Close() })
	return conn, counting, peer
}

func rawOverPipe(t testing.TB, cfg *Config) (*Conn, *rlpxtest.Counting, *rlpxtest.RawPeer) {
	t.Helper()
	ours, theirs := net.Pipe()
	return rawSession(t, cfg, ours, theirs)
}

func rawOverTCP(t testing.TB, cfg *Config) (*Conn, *rlpxtest.Counting, *rlpxtest.RawPeer) {
	t.Helper()
	ours, theirs := tcpPipe(t)
	return rawSession(t, cfg, ours, theirs)
}

func rawOver(t testing.TB, pair func(testing.TB) (net.Conn, net.Conn), cfg *Config) (*Conn, *rlpxtest.Counting, *rlpxtest.RawPeer) {
	t.Helper()
	ours, theirs := pair(t)
	return rawSession(t, cfg, ours, theirs)
}

// recorded returns a Conn that reads what build sealed and then EOF.
func recorded(cfg *Config, wrap func(net.Conn) net.Conn, build func(peer *rlpxtest.Direction) []byte) (*Conn, *rlpxtest.Counting, *rlpxtest.Script) {
	a, b := rlpxtest.NewSecrets(rand.Uint64())
	script := rlpxtest.NewScript(build(rlpxtest.NewSession(b).Egress))
	var inner net.Conn = script
	if wrap != nil {
		inner = wrap(inner)
	}
	counting := rlpxtest.Count(inner)
	return initConn(counting, cfg, a), counting, script
}

// sealing is for recorded: frames of the given frame data.
func sealing(data ...[]byte) func(*rlpxtest.Direction) []byte {
	return func(peer *rlpxtest.Direction) []byte {
		var wire []byte
		for _, d := range data {
			wire = append(wire, peer.Seal(d)...)
		}
		return wire
	}
}

// pairOver returns two Conns with a session between them.
func pairOver(t testing.TB, a, b net.Conn) (*Conn, *Conn) {
	t.Helper()
	sa, sb := rlpxtest.NewSecrets(rand.Uint64())
	ca, cb := initConn(a, nil, sa), initConn(b, nil, sb)
	t.Cleanup(func() { ca.Close(); cb.Close() })
	return ca, cb
}

// wantRead reads a message and compares it.
func wantRead(t testing.TB, c *Conn, code uint64, data []byte) {
	t.Helper()
	gotCode, got, _, err := c.Read()
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	if gotCode != code || got == nil || !bytes.Equal(got, data) {
		t.Fatalf("Read: code %#x and %d bytes %.20x, want code %#x and %d bytes %.20x", gotCode, len(got), got, code, len(data), data)
	}
}

// wantDead checks that the reading direction ended with err: further Reads return the same
// without touching the net.Conn.
func wantDead(t testing.TB, c *Conn, counting *rlpxtest.Counting, err error) {
	t.Helper()
	reads := counting.Reads.Load()
	for range 10 {
		code, data, size, again := c.Read()
		if again != err || code != 0 || data != nil || size != 0 {
			t.Fatalf("Read after %q: %#x, %x, %d, %v", err, code, data, size, again)
		}
	}
	if n := counting.Reads.Load() - reads; n != 0 {
		t.Fatalf("a dead direction read from the net.Conn %d times", n)
	}
	if c.in.buf.Held() || c.in.plain.Held() {
		t.Fatal("a dead direction holds buffers")
	}
}

// wantWriteDead does the same for the writing direction.
func wantWriteDead(t testing.TB, c *Conn, counting *rlpxtest.Counting, err error) {
	t.Helper()
	writes := counting.Writes.Load()
	for i := range 10 {
		size := []int{0, 100, 2 << 20}[i%3]
		if _, again := c.Write(1, make([]byte, size)); again != err {
			t.Fatalf("Write after %q: %v", err, again)
		}
	}
	if n := counting.Writes.Load() - writes; n != 0 {
		t.Fatalf("a dead direction wrote to the net.Conn %d times", n)
	}
	if c.out.buf.Held() || c.out.n != 0 {
		t.Fatal("a dead direction holds buffers")
	}
}

// wantUnauthentic checks for an authentication failure, which ends everything.
func wantUnauthentic(t testing.TB, c *Conn, counting *rlpxtest.Counting, text string) {
	t.Helper()
	code, data, size, err := c.Read()
	if !errors.Is(err, ErrAuthentication) || err.Error() != text || errors.Is(err, ErrProtocol) {
		t.Fatalf("Read: %v, want %q", err, text)
	}
	if code != 0 || data != nil || size != 0 {
		t.Fatalf("Read gave code %#x, data %x, size %d with %v", code, data, size, err)
	}
	wantDead(t, c, counting, err)
	wantWriteDead(t, c, counting, err)
	c.Close()
	if n := counting.Closes.Load(); n != 1 {
		t.Fatalf("the net.Conn was closed %d times", n)
	}
}

// wantClean checks for the end of what was recorded.
func wantClean(t testing.TB, c *Conn) {
	t.Helper()
	if _, _, _, err := c.Read(); err != io.EOF {
		t.Fatalf("Read after the last message: %v, want io.EOF", err)
	}
}

const (
	badHeader = "rlpx: bad header MAC"
	badFrame  = "rlpx: bad frame MAC"
)
