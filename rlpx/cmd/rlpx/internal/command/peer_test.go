package command

import (
	"crypto/ecdsa"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// listen calls serve with each connection to a port of the loopback interface, and closes the
// connection after it. It returns the port.
func listen(t testing.TB, serve func(net.Conn)) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
			conn.Close()
		}
	}()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

// enodeURL is the enode URL of the node with the key at the port.
func enodeURL(key *ecdsa.PrivateKey, port uint16) string {
	return endpoint{"127.0.0.1", port}.node(&key.PublicKey).String()
}

// scriptedPeer is a recipient that does after the handshake whatever a test wants.
type scriptedPeer struct {
	t       testing.TB
	key     *ecdsa.PrivateKey
	conn    *rlpx.Conn
	version uint64 // in its Hello
}

// startPeer runs script for each connection to a new peer, and returns the enode URL.
func startPeer(t testing.TB, script func(p *scriptedPeer)) string {
	key := newKey(t)
	return enodeURL(key, listen(t, func(tcp net.Conn) {
		p := &scriptedPeer{t, key, rlpx.Server(tcp, &rlpx.Config{Key: key}), p2p.Version}
		if _, err := p.conn.HandshakeContext(t.Context()); err != nil {
			t.Logf("peer: %v", err) // the other side may have lost patience
			return
		}
		script(p)
	}))
}

func (p *scriptedPeer) write(code uint64, payload []byte) {
	if _, err := p.conn.Write(code, payload); err != nil && !errors.Is(err, net.ErrClosed) {
		p.t.Logf("peer: %v", err) // the other side may be gone by now
	}
}

// hello exchanges Hello and returns the other side's.
func (p *scriptedPeer) hello(name string, caps ...p2p.Cap) *p2p.Hello {
	// Not with this module's encoder, which refuses to send what some peers do.
	payload, err := rlp.EncodeToBytes([]any{p.version, name, caps, uint(30303), crypto.FromECDSAPub(&p.key.PublicKey)[1:]})
	if err != nil {
		p.t.Error(err)
	}
	p.write(p2p.HelloCode, payload)
	code, payload, _, err := p.conn.Read()
	if err != nil {
		p.t.Logf("peer: waiting for Hello: %v", err) // the other side may have lost patience
		return new(p2p.Hello)
	}
	if code != p2p.HelloCode {
		p.t.Errorf("peer: want Hello, got code %d", code)
		return new(p2p.Hello)
	}
	theirs, err := p2p.DecodeHello(payload)
	if err != nil {
		p.t.Errorf("peer: %v", err)
		return new(p2p.Hello)
	}
	p.conn.SetSnappy(p.version >= p2p.SnappyVersion)
	return theirs
}

func (p *scriptedPeer) disconnect(reason p2p.DiscReason) {
	p.write(p2p.DisconnectCode, p2p.AppendDisconnect(nil, reason))
}

// answer answers n Pings and reads on to the next one or to the end of the session.
func (p *scriptedPeer) answer(n int) {
	for {
		code, _, _, err := p.conn.Read()
		if err != nil || code == p2p.PingCode && n == 0 {
			return
		}
		if code == p2p.PingCode {
			n--
			p.write(p2p.PongCode, p2p.AppendPong(nil))
		}
	}
}

// lingerOver reads to the end of the connection, so that closing it does not discard what was
// written.
func (p *scriptedPeer) lingerOver() {
	_ = p.conn.CloseWrite()
	_, _ = io.Copy(io.Discard, p.conn.NetConn())
}
