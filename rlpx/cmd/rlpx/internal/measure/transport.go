package measure

import (
	"context"
	"crypto/rand"
	"net"

	"github.com/ethereum/go-ethereum/crypto"
	gethrlpx "github.com/ethereum/go-ethereum/p2p/rlpx"

	"github.com/go-rlpx/transport/rlpx"
)

// Transport is what the connections of both implementations can do.
type Transport interface {
	Read() (code uint64, data []byte, wireSize int, err error)
	Write(code uint64, data []byte) (wireSize uint32, err error)
	SetSnappy(enabled bool)
	Close() error
}

// An Implementation makes a Transport of one end of a session whose handshake is done.
type Implementation func(conn net.Conn, s secrets) Transport

// GoEthereum is go-ethereum's p2p/rlpx.
func GoEthereum(conn net.Conn, s secrets) Transport {
	c := gethrlpx.NewConn(conn, nil)
	c.InitWithSecrets(gethrlpx.Secrets{AES: s.aes, MAC: s.mac, EgressMAC: seeded(s.egress), IngressMAC: seeded(s.ingress)})
	return c
}

// Library is this library, with each connection's MACs hashed by themselves.
func Library(conn net.Conn, s secrets) Transport { return library(conn, s, false) }

// SharingLibrary is this library with Config.SharedHashing.
func SharingLibrary(conn net.Conn, s secrets) Transport { return library(conn, s, true) }

func library(conn net.Conn, s secrets, sharing bool) Transport {
	c := rlpx.Server(conn, &rlpx.Config{SharedHashing: sharing})
	c.InitWithSecrets(rlpx.Secrets{AES: s.aes, MAC: s.mac, EgressMAC: seeded(s.egress), IngressMAC: seeded(s.ingress)})
	return c
}

// secrets are those of one end of a session.
type secrets struct {
	aes, mac        []byte
	egress, ingress []byte // what the MAC states have absorbed
}

// newSecrets makes up the secrets of a session.
func newSecrets() (a, b secrets) {
	secret := make([]byte, 4*32)
	_, _ = rand.Read(secret) // never fails
	a = secrets{aes: secret[:32], mac: secret[32:64], egress: secret[64:96], ingress: secret[96:]}
	b = a
	b.egress, b.ingress = a.ingress, a.egress
	return a, b
}

// seeded returns the kind of state that go-ethereum's handshake makes, so that go-ethereum hashes
// with its own Keccak.
func seeded(seed []byte) crypto.KeccakState {
	h := crypto.NewKeccakState()
	_, _ = h.Write(seed) // never fails
	return h
}

// pair is the two ends of a connection.
type pair struct{ from, to Transport }

func (p pair) close() {
	_ = p.from.Close()
	_ = p.to.Close()
}

// connector connects two ends.
type connector interface {
	connect(ctx context.Context) (a, b net.Conn, err error)
	close()
}

// pipes is a connector that uses net.Pipe.
type pipes struct{}

func (pipes) connect(context.Context) (a, b net.Conn, err error) {
	a, b = net.Pipe()
	return a, b, nil
}
func (pipes) close() {}

// loopback is a connector that uses TCP on the loopback interface.
type loopback struct{ l net.Listener }

func listenLoopback() (loopback, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	return loopback{l}, err
}

func (c loopback) connect(ctx context.Context) (a, b net.Conn, err error) {
	// The kernel completes the connection before anybody accepts it.
	if a, err = new(net.Dialer).DialContext(ctx, "tcp", c.l.Addr().String()); err != nil {
		return nil, nil, err
	}
	// Somebody else may have come first.
	for {
		if b, err = c.l.Accept(); err != nil {
			_ = a.Close()
			return nil, nil, err
		}
		if b.RemoteAddr().String() == a.LocalAddr().String() {
			return a, b, nil
		}
		_ = b.Close()
	}
}

func (c loopback) close() { _ = c.l.Close() }
