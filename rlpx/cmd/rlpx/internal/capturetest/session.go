package capturetest

import (
	"bytes"
	"crypto/ecdsa"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// Session is an RLPx session whose bytes are recorded as its two sides write them.
type Session struct {
	KeyLog bytes.Buffer

	tb             testing.TB
	client, server *rlpx.Conn
	keys           [2]*ecdsa.PrivateKey
	mu             sync.Mutex
	chunks         []Chunk
}

// tap records what is written to a net.Conn.
type tap struct {
	net.Conn
	s          *Session
	fromClient bool
}

func (t *tap) Write(p []byte) (int, error) {
	t.s.mu.Lock()
	t.s.chunks = append(t.s.chunks, Chunk{t.fromClient, bytes.Clone(p)})
	t.s.mu.Unlock()
	return t.Conn.Write(p)
}

// NewSession performs a handshake. After it, nobody reads what the two sides write: it is only
// recorded.
func NewSession(tb testing.TB) *Session {
	tb.Helper()
	s := &Session{tb: tb}
	for i := range s.keys {
		key, err := crypto.GenerateKey()
		if err != nil {
			tb.Fatal(err)
		}
		s.keys[i] = key
	}
	a, b := net.Pipe()
	tb.Cleanup(func() { a.Close(); b.Close() })
	s.client = rlpx.Client(&tap{a, s, true}, &s.keys[1].PublicKey, &rlpx.Config{Key: s.keys[0], KeyLogWriter: &s.KeyLog})
	s.server = rlpx.Server(&tap{b, s, false}, &rlpx.Config{Key: s.keys[1]})
	done := make(chan error, 1)
	go func() {
		_, err := s.server.HandshakeContext(tb.Context())
		done <- err
	}()
	if _, err := s.client.HandshakeContext(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	if err := <-done; err != nil {
		tb.Fatal(err)
	}
	go io.Copy(io.Discard, a)
	go io.Copy(io.Discard, b)
	return s
}

func (s *Session) conn(fromClient bool) *rlpx.Conn {
	if fromClient {
		return s.client
	}
	return s.server
}

// Send writes a message.
func (s *Session) Send(fromClient bool, code uint64, payload []byte) {
	s.tb.Helper()
	if _, err := s.conn(fromClient).Write(code, payload); err != nil {
		s.tb.Fatal(err)
	}
}

// SetSnappy switches the compression of one side.
func (s *Session) SetSnappy(fromClient, on bool) { s.conn(fromClient).SetSnappy(on) }

// Hello returns the payload of a Hello of one side.
func (s *Session) Hello(fromClient bool, version uint64, caps ...p2p.Cap) []byte {
	s.tb.Helper()
	name, key := "initiator/1.0", s.keys[0]
	if !fromClient {
		name, key = "recipient/1.0", s.keys[1]
	}
	payload, err := p2p.AppendHello(nil, &p2p.Hello{
		Version: version, Name: name, Caps: caps, ID: [p2p.IDLength]byte(crypto.FromECDSAPub(&key.PublicKey)[1:]),
	})
	if err != nil {
		s.tb.Fatal(err)
	}
	return payload
}

// Greet exchanges Hellos, the initiator's first, and switches to what they call for.
func (s *Session) Greet(versions [2]uint64, caps ...p2p.Cap) {
	s.tb.Helper()
	s.Send(true, p2p.HelloCode, s.Hello(true, versions[0], caps...))
	s.Send(false, p2p.HelloCode, s.Hello(false, versions[1], caps...))
	if min(versions[0], versions[1]) >= p2p.SnappyVersion {
		s.SetSnappy(true, true)
		s.SetSnappy(false, true)
	}
}

// Take returns what was recorded since the last call.
func (s *Session) Take() []Chunk {
	s.mu.Lock()
	defer s.mu.Unlock()
	chunks := s.chunks
	s.chunks = nil
	return chunks
}
