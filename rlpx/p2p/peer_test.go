package p2p

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
)

// network makes connected pairs of net.Conns.
type network struct {
	name string
	pair func(t testing.TB) (net.Conn, net.Conn)
}

var (
	pipe = network{"pipe", func(testing.TB) (net.Conn, net.Conn) { return net.Pipe() }}
	tcp  = network{"tcp", func(t testing.TB) (net.Conn, net.Conn) {
		t.Helper()
		a, b, err := rlpxtest.TCPPair()
		if err != nil {
			t.Fatal(err)
		}
		return a, b
	}}
)

// checkLeaks fails the test at its end if it left goroutines or open files.
func checkLeaks(t testing.TB) {
	t.Helper()
	rlpxtest.CheckGoroutines(t)
	rlpxtest.CheckFDs(t)
}

// onNetworks runs a test over an unbuffered and a buffered kind of connection.
func onNetworks(t *testing.T, test func(t *testing.T, n network)) {
	for _, n := range []network{pipe, tcp} {
		t.Run(n.name, func(t *testing.T) { test(t, n) })
	}
}

// onClocks runs a test over a pipe with a fake clock, which shows exactly how long things take, and
// over TCP, where that depends on what else the machine does: there within checks nothing.
func onClocks(t *testing.T, test func(t *testing.T, n network, within func(what string, took, most time.Duration))) {
	t.Run(pipe.name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test(t, pipe, func(what string, took, most time.Duration) {
				t.Helper()
				if took > most {
					t.Errorf("%s took %v, want at most %v", what, took, most)
				}
			})
		})
	})
	t.Run(tcp.name, func(t *testing.T) { test(t, tcp, func(string, time.Duration, time.Duration) {}) })
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// conns returns the two ends of a connection after the encrypted handshake. A nil key is a new one.
func (n network) conns(t testing.TB, keyA, keyB *ecdsa.PrivateKey) (a, b *rlpx.Conn) {
	t.Helper()
	if keyA == nil {
		keyA = newKey(t)
	}
	if keyB == nil {
		keyB = newKey(t)
	}
	innerA, innerB := n.pair(t)
	a = rlpx.Client(innerA, &keyB.PublicKey, &rlpx.Config{Key: keyA})
	b = rlpx.Server(innerB, &rlpx.Config{Key: keyB})
	t.Cleanup(func() { a.Close(); b.Close() })
	result := make(chan error, 1)
	go func() {
		_, err := b.HandshakeContext(context.Background())
		result <- err
	}()
	if _, err := a.HandshakeContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	return a, b
}

// sessions returns the two ends of a session.
func (n network) sessions(t testing.TB, cfgA, cfgB *SessionConfig) (a, b *Session) {
	t.Helper()
	connA, connB := n.conns(t, nil, nil)
	type result struct {
		s   *Session
		err error
	}
	results := make(chan result, 1)
	go func() {
		s, err := NewSession(context.Background(), connB, cfgB)
		results <- result{s, err}
	}()
	a, err := NewSession(context.Background(), connA, cfgA)
	if err != nil {
		t.Fatal(err)
	}
	r := <-results
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(func() { a.Close(); r.s.Close() })
	return a, r.s
}

// A peer is a rlpxtest.RawPeer that knows about messages.
type peer struct {
	*rlpxtest.RawPeer
	t      testing.TB
	id     []byte
	snappy bool

	sending sync.Mutex // send may be called by several goroutines at once
}

// peer returns one of our connections and the raw peer at its other end.
func (n network) peer(t testing.TB, cfg *rlpx.Config) (*rlpx.Conn, *peer) {
	t.Helper()
	ours, theirs := n.pair(t)
	return peerOver(t, ours, theirs, cfg)
}

func peerOver(t testing.TB, ours, theirs net.Conn, cfg *rlpx.Config) (*rlpx.Conn, *peer) {
	t.Helper()
	if cfg == nil {
		cfg = new(rlpx.Config)
	}
	if cfg.Key == nil {
		cfg.Key = newKey(t)
	}
	key := newKey(t)
	conn := rlpx.Server(ours, cfg)
	result := make(chan error, 1)
	go func() {
		_, err := conn.HandshakeContext(context.Background())
		result <- err
	}()
	raw, err := rlpxtest.Dial(context.Background(), theirs, key, &cfg.Key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); theirs.Close() })
	return conn, &peer{RawPeer: raw, t: t, id: crypto.FromECDSAPub(&key.PublicKey)[1:]}
}

// hello returns the payload of the peer's Hello.
func (p *peer) hello(version uint64, caps ...Cap) []byte {
	return appendHello(nil, &Hello{Version: version, Name: "raw", ID: [IDLength]byte(p.id)}, caps)
}

// send sends a message, compressed where that is due. Failing is left to whoever looks for an
// effect.
func (p *peer) send(code uint64, payload []byte) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	return p.SendMessage(code, p.wire(payload))
}

func (p *peer) wire(payload []byte) []byte {
	if p.snappy {
		return snappy.Encode(nil, payload)
	}
	return payload
}

// read returns the next message, decompressed where that is due, and fails the test if there is
// none.
func (p *peer) read() (code uint64, payload []byte) {
	p.t.Helper()
	code, payload, err := p.next()
	if err != nil {
		p.t.Fatal("raw peer:", err)
	}
	return code, payload
}

func (p *peer) next() (code uint64, payload []byte, err error) {
	frame, err := p.ReadFrame()
	if err != nil {
		return 0, nil, err
	}
	code, payload, err = rlp.SplitUint64(frame.Data)
	if err == nil && p.snappy && code != HelloCode {
		payload, err = snappy.Decode(nil, payload)
	}
	return code, payload, err
}

// want reads the next message and fails the test if it is not this.
func (p *peer) want(code uint64, payload []byte) {
	p.t.Helper()
	gotCode, got := p.read()
	if gotCode != code || string(got) != string(payload) {
		p.t.Fatalf("raw peer: got code %#x, payload %x, want code %#x, payload %x", gotCode, got, code, payload)
	}
}

// rest reads all messages to the end of the connection and closes it.
func (p *peer) rest() (codes []uint64, payloads [][]byte) {
	defer p.Conn.Close()
	for {
		code, payload, err := p.next()
		if err != nil {
			return codes, payloads
		}
		codes, payloads = append(codes, code), append(payloads, payload)
	}
}

// wantFarewell reads to the end of the connection and fails the test unless the last message is a
// Disconnect with that reason and no other is.
func (p *peer) wantFarewell(reason DiscReason) {
	p.t.Helper()
	codes, payloads := p.rest()
	if len(codes) == 0 {
		p.t.Fatalf("raw peer: no message, want a Disconnect: %v", reason)
	}
	for i, code := range codes {
		if last := i == len(codes)-1; last != (code == DisconnectCode) {
			p.t.Fatalf("raw peer: codes %#x, want one Disconnect at the end", codes)
		}
	}
	got := payloads[len(payloads)-1]
	if want := AppendDisconnect(nil, reason); string(got) != string(want) {
		p.t.Fatalf("raw peer: Disconnect %x, want %x", got, want)
	}
}

// testCaps is what sessions in tests share: 0x10 to 0x13 and 0x14 to 0x1b.
var testCaps = Capabilities{{Cap: Cap{"aaa", 1}, Length: 4}, {Cap: Cap{"bbb", 2}, Length: 8}}

func testConfig() *SessionConfig { return &SessionConfig{Name: "test", Capabilities: testCaps} }

// session returns one of our sessions and the raw peer at its other end, both Hellos exchanged.
func (n network) session(t testing.TB, cfg *SessionConfig) (*Session, *peer) {
	t.Helper()
	conn, p := n.peer(t, nil)
	return p.session(conn, cfg, p.hello(5, testCaps.Caps()...)), p
}

// session starts a session on conn with the given Hello of the peer.
func (p *peer) session(conn *rlpx.Conn, cfg *SessionConfig, hello []byte) *Session {
	p.t.Helper()
	if cfg == nil {
		cfg = testConfig()
	}
	type result struct {
		s   *Session
		err error
	}
	results := make(chan result, 1)
	go func() {
		s, err := NewSession(context.Background(), conn, cfg)
		results <- result{s, err}
	}()
	code, payload := p.read()
	ours, err := DecodeHello(payload)
	if code != HelloCode || err != nil {
		p.t.Fatalf("raw peer: code %#x, %v", code, err)
	}
	if err := p.SendMessage(HelloCode, hello); err != nil {
		p.t.Fatal(err)
	}
	theirs, err := DecodeHello(hello)
	if err != nil {
		p.t.Fatal(err)
	}
	p.snappy = ours.Snappy() && theirs.Snappy()
	r := <-results
	if r.err != nil {
		p.t.Fatal(r.err)
	}
	p.t.Cleanup(func() { p.Conn.Close(); r.s.Close() })
	return r.s
}

// wantErr fails the test unless errors.Is(err, target).
func wantErr(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("got error %v, want %v", err, target)
	}
	checkText(t, err.Error())
}

// wantDone fails the test unless the session ends soon, with an error that is target.
func wantDone(t testing.TB, s *Session, target error) {
	t.Helper()
	select {
	case <-s.Done():
	case <-time.After(2 * time.Minute): // of whatever clock the test has
		t.Fatal("session does not end")
	}
	wantErr(t, s.Err(), target)
}

// discard reads all that comes from conn.
func discard(conn net.Conn) { io.Copy(io.Discard, conn) }
