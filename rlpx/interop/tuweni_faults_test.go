package interop

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// The tests in this file pin what is wrong with Apache Tuweni, so that what we see of it on a
// network is understood, and so that a new version of it shows what has changed.

// tuweniHabits are what these tests show, and its source where it sends and closes.
const tuweniHabits = "takes what its first read gives for the whole of auth or ack, so that a part of one fails. " +
	"Compresses if the other's Hello says 5 or more, and refuses one that says more than 5. " +
	"Gives out message codes in the order of the other's Hello. " +
	"Codes above 0x7f end the session: it reads one byte, and writes two and declares one. " +
	"Sends a message over 16 MiB with a size cut to 24 bits. " +
	"Sends no Ping unless told to, and its Ping and Pong have no payload. " +
	"Closes so soon after its Disconnect that this may be lost, and does not compress it in answer to Hello. " +
	"A Disconnect that is a bare byte has no reason for it, and one with an unknown reason or uncompressed where snappy is on fails. " +
	"Where it fails to read something, it hangs up without a Disconnect as an initiator, and stays connected as a recipient"

// handshakeTuweni exchanges Hello below a session, and waits until the node takes us for a peer.
func handshakeTuweni(t *testing.T, n *tuweniNode, r row) (conn *rlpx.Conn, name string) {
	t.Helper()
	conn, name = n.connect(t, r.who), n.newName()
	if _, err := p2p.Handshake(step(t), conn, &p2p.Hello{Name: name, Version: r.hello, Caps: tuweniCapabilities().Caps()}); err != nil {
		t.Fatal(err)
	}
	n.says("connected %s aux/1 mirror/2", name)
	return conn, name
}

// write sends a message that must go out.
func write(t *testing.T, conn *rlpx.Conn, code uint64, data []byte) {
	t.Helper()
	if _, err := conn.Write(code, data); err != nil {
		t.Fatal(err)
	}
}

// hungUp reports whether the other end closed the connection, with or without unread data.
func hungUp(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) }

// TestTuweniRefuses has the peer say Disconnect because of what it received. The message goes
// through a queue and the end of the connection does not, so it is a race whether anything reaches
// us: neither its Disconnect nor, if that was queued still, its Hello need to arrive. After both
// Hello it does not compress the Disconnect.
func TestTuweniRefuses(t *testing.T) {
	tuweniRoles(t, func(t *testing.T, n *tuweniNode, r row) {
		for _, refusal := range []struct {
			name   string
			change func(*p2p.Hello)
			reason p2p.DiscReason
		}{
			{"no capability is shared", func(h *p2p.Hello) { h.Caps = []p2p.Cap{{Name: mirrorName, Version: 3}} }, p2p.DiscUselessPeer},
			{"no capability at all", func(h *p2p.Hello) { h.Caps = nil }, p2p.DiscUselessPeer},
			// EIP-8 asks for the opposite.
			{"a later version", func(h *p2p.Hello) { h.Version = 6 }, p2p.DiscIncompatibleVersion},
		} {
			conn, hello := n.connect(t, r.who), &p2p.Hello{Name: n.newName(), Version: r.hello, Caps: tuweniCapabilities().Caps()}
			refusal.change(hello)
			_, err := p2p.Handshake(step(t), conn, hello)
			n.says("disconnected %s requested: %s", hello.Name, tuweniWords[refusal.reason])
			if err == nil {
				var data []byte
				_, data, err = readDisconnect(conn)
				if err == nil && !slices.Equal(data, []byte{0xc1, byte(refusal.reason)}) {
					t.Errorf("%s: Disconnect %x", refusal.name, data)
				}
			}
			if err != nil && !hungUp(err) {
				t.Errorf("%s: %v", refusal.name, err)
			}
			conn.Close()
		}

		conn, name := handshakeTuweni(t, n, r)
		write(t, conn, p2p.BaseLength-1, []byte{0xc0})
		reason, _, err := readDisconnect(conn)
		n.says("disconnected %s requested: %s", name, tuweniWords[p2p.DiscProtocolError])
		if err != nil && !hungUp(err) || err == nil && reason != p2p.DiscProtocolError {
			t.Errorf("a reserved code: reason %v, error %v", reason, err)
		}
	})
}

// readDisconnect reads a message that must be a Disconnect, in whatever form it comes.
func readDisconnect(conn *rlpx.Conn) (p2p.DiscReason, []byte, error) {
	code, data, _, err := conn.Read()
	if payload, ok := errors.AsType[*rlpx.PayloadError](err); ok {
		data, err = payload.Payload, nil
	}
	if err == nil && code != p2p.DisconnectCode {
		err = fmt.Errorf("message %#x in place of Disconnect", code)
	}
	if err != nil {
		return 0, nil, err
	}
	return p2p.DecodeWireDisconnect(data, conn.ConnectionState().Snappy), slices.Clone(data), nil
}

// fails waits until the node reports an exception while it handles what it was sent. As an
// initiator it closes the connection then, without a Disconnect. As a recipient it does nothing at
// all, and the connection stays open.
func (n *tuweniNode) fails(who role, text string) {
	n.t.Helper()
	if who == weDial {
		n.await(`(?m)^unhandled \w+: ` + text)
	} else {
		n.await(`(?m)ERROR .*VertxRLPxService - ` + text)
	}
}

// TestTuweniDisconnectForms says Disconnect in the forms that are on the networks besides a list of
// one reason.
func TestTuweniDisconnectForms(t *testing.T) {
	overSnappy(t, func(t *testing.T, n *tuweniNode, r row) {
		conn, name := handshakeTuweni(t, n, r)
		write(t, conn, p2p.DisconnectCode, []byte{byte(p2p.DiscTooManyPeers)})
		n.says("disconnected %s received: No reason provided", name)
		if _, _, _, err := conn.Read(); !hungUp(err) {
			t.Errorf("after a bare byte: %v", err)
		}

		conn, _ = handshakeTuweni(t, n, r)
		write(t, conn, p2p.DisconnectCode, []byte{0xc1, 0x0c})
		n.fails(r.who, `Invalid reason 12`)
		conn.Close()

		conn, _ = handshakeTuweni(t, n, r)
		conn.SetSnappy(false)
		write(t, conn, p2p.DisconnectCode, []byte{0xc1, byte(p2p.DiscTooManyPeers)})
		n.fails(r.who, `java.io.IOException: FAILED_TO_UNCOMPRESS\(5\)`)
	})
}

// overSnappy runs a test in both roles with snappy.
func overSnappy(t *testing.T, test func(t *testing.T, n *tuweniNode, r row)) {
	n := startTuweni(t)
	for _, who := range []role{weDial, weServe} {
		t.Run(string(who), func(t *testing.T) { test(t, n, row{tuweniPeer, who, 5}) })
	}
}

// TestTuweniLongCodes shows that a message code of two bytes ends a session, whoever sends it.
func TestTuweniLongCodes(t *testing.T) {
	const id = highestOneByte + 1 - p2p.BaseLength - tuweniAuxLength // of mirror
	overSnappy(t, func(t *testing.T, n *tuweniNode, r row) {
		// It takes one byte for the code.
		session, _ := n.session(t, n.connect(t, r.who), r.hello)
		expectEcho(t, session.Capability(mirrorName), id-1, []byte("the last one"))
		if err := session.Capability(mirrorName).Write(id, []byte("one more")); err != nil {
			t.Fatal(err)
		}
		n.fails(r.who, `Insufficient bytes in RLP encoding: expected 1 but have only 0`)
		if r.who == weServe {
			if err := ended(t, session); !hungUp(err) {
				t.Errorf("the session ended with %v", err)
			}
		} else {
			// It takes the same frame for the next one, for ever.
			if err := session.Capability(mirrorName).Write(0, nil); err != nil {
				t.Fatal(err)
			}
			n.fails(r.who, `Header MAC did not match expected MAC`)
			if err := session.Err(); err != nil {
				t.Errorf("the session ended with %v", err)
			}
		}

		// It writes two bytes and declares one.
		session, _ = n.session(t, n.connect(t, r.who), r.hello)
		n.tell("send %d 100", id)
		if err := ended(t, session); !errors.Is(err, rlpx.ErrAuthentication) {
			t.Errorf("the session ended with %v", err)
		}
	})
}

// TestTuweniLongMessages shows that a message over the limit of the protocol is sent all the
// same, as a frame whose size has lost what is above 24 bits.
func TestTuweniLongMessages(t *testing.T) {
	n := startTuweni(t)
	session, name := n.session(t, n.connect(t, weDial), 4)
	n.tell("send 1 %d", maxUint24) // and the code
	if err := ended(t, session); !errors.Is(err, rlpx.ErrProtocol) {
		t.Errorf("the session ended with %v, want a frame of size zero", err)
	}
	n.says("disconnected %s received: %s", name, tuweniWords[p2p.DiscProtocolError])
}

// TestTuweniCapabilityOrder shows that the peer gives out codes in the order in which we announce
// capabilities, not in that of their names. With us that is the same.
func TestTuweniCapabilityOrder(t *testing.T) {
	overSnappy(t, func(t *testing.T, n *tuweniNode, r row) {
		conn, name := n.connect(t, r.who), n.newName()
		type capability struct {
			Name    string
			Version uint64
		}
		hello, err := rlp.EncodeToBytes(&struct {
			Version    uint64
			Name       string
			Caps       []capability
			ListenPort uint64
			ID         []byte
		}{r.hello, name, []capability{{mirrorName, 2}, {auxName, 1}}, 0, crypto.FromECDSAPub(conn.ConnectionState().LocalKey)[1:]})
		if err != nil {
			t.Fatal(err)
		}
		write(t, conn, p2p.HelloCode, hello)
		n.says("connected %s mirror/2 aux/1", name)
	})
}

// TestTuweniSplitHandshake shows that the peer wants a packet of the handshake in one piece: it
// takes what the first read gives for all of it.
func TestTuweniSplitHandshake(t *testing.T) {
	overSnappy(t, func(t *testing.T, n *tuweniNode, r row) {
		errSplit := errors.New("the rest is not worth sending")
		split := func(conn net.Conn) net.Conn {
			return &rlpxtest.Filter{Conn: conn, OnWrite: func(inner net.Conn, p []byte) (int, error) {
				if _, err := inner.Write(p[:len(p)/2]); err != nil {
					return 0, err
				}
				n.fails(r.who, `.*`)
				return len(p) / 2, errSplit
			}}
		}
		key := newKey(t)
		var conn *rlpx.Conn
		if r.who == weDial {
			inner, err := (&net.Dialer{}).DialContext(step(t), "tcp", n.addr)
			if err != nil {
				t.Fatal(err)
			}
			conn = rlpx.Client(split(inner), n.key, ourConfig(key))
		} else {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			n.dial(l.Addr(), &key.PublicKey)
			inner, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			conn = rlpx.Server(split(inner), ourConfig(key))
		}
		if _, err := conn.HandshakeContext(step(t)); !errors.Is(err, errSplit) {
			t.Errorf("handshake: %v", err)
		}
	})
}
