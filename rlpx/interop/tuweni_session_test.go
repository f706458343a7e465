package interop

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

// TestTuweniMessages exchanges messages of all sizes with Apache Tuweni, under all the codes that
// it can read.
func TestTuweniMessages(t *testing.T) {
	tuweniRoles(t, func(t *testing.T, n *tuweniNode, r row) {
		session, _ := n.session(t, n.connect(t, r.who), r.hello)
		expectTuweni(t, n, r, session)
		mirror, aux := session.Capability(mirrorName), session.Capability(auxName)
		if aux.Shared().Offset != p2p.BaseLength || mirror.Shared().Offset != p2p.BaseLength+tuweniAuxLength {
			t.Errorf("offsets %#x and %#x", aux.Shared().Offset, mirror.Shared().Offset)
		}
		for _, ch := range []*p2p.Channel{aux, mirror} {
			shared := ch.Shared()
			for _, id := range []uint64{0, 1, 3, highestOneByte - shared.Offset} {
				if id < shared.Length {
					expectEcho(t, ch, id, []byte("some data"))
				}
			}
		}
		for _, size := range []int{0, 1, 13, 14, 15, 16, 17, 1 << 10, 64 << 10, 1 << 20, largest(r.hello, true)} {
			expectEcho(t, mirror, 1, compressible(size))
		}
		for _, size := range []int{1 << 10, 64 << 10, 1 << 20, largest(r.hello, false)} {
			expectEcho(t, mirror, 1, incompressible(size))
		}
		seen(t, r, sizesColumn, "0 B to 16 MiB")
		if err := session.Err(); err != nil {
			t.Fatal(err)
		}
	})
}

// highestOneByte is the highest code whose RLP is one byte, and so the highest of Apache Tuweni.
const highestOneByte = 0x7f

// expectTuweni checks what we learned from the peer's Hello.
func expectTuweni(t *testing.T, n *tuweniNode, r row, session *p2p.Session) {
	t.Helper()
	hello, state := session.Remote(), session.ConnectionState()
	caps := []p2p.Cap{{Name: mirrorName, Version: 2}, {Name: mirrorName, Version: 1}, {Name: auxName, Version: 1}}
	if hello.Version != 5 || hello.Name != tuweniName || !slices.Equal(hello.Caps, caps) {
		t.Errorf("Hello: %+v", hello)
	}
	if addr := fmt.Sprintf("127.0.0.1:%d", hello.ListenPort); addr != n.addr {
		t.Errorf("it listens at %s and says %s", n.addr, addr)
	}
	if !state.RemoteKey.Equal(n.key) || !state.PeerProven || state.Snappy != (r.hello >= 5) || state.Initiator != (r.who == weDial) {
		t.Errorf("connection: %+v", state)
	}
	seenSession(t, r, session)
}

// TestTuweniManyMessages sends without waiting for the echoes.
func TestTuweniManyMessages(t *testing.T) {
	tuweniRoles(t, func(t *testing.T, n *tuweniNode, r row) {
		session, _ := n.session(t, n.connect(t, r.who), r.hello)
		ch := session.Capability(mirrorName)
		const messages = 2000
		message := func(i int) []byte { return fmt.Appendf(nil, "%d %s", i, compressible(i%300)) }
		written := make(chan error, 1)
		go func() {
			for i := range messages {
				if err := ch.Write(uint64(i%50), message(i)); err != nil {
					written <- err
					return
				}
			}
			written <- nil
		}()
		ctx := step(t)
		for i := range messages {
			id, data, err := ch.Read(ctx)
			if err != nil || id != uint64(i%50) || !bytes.Equal(data, message(i)) {
				t.Fatalf("message %d came as id %#x, %q, error %v", i, id, data, err)
			}
		}
		if err := <-written; err != nil {
			t.Fatal(err)
		}
	})
}

// TestTuweniPing has Pings answered in both directions, several times. The peer's Ping is
// compressed nothing.
func TestTuweniPing(t *testing.T) {
	tuweniRoles(t, func(t *testing.T, n *tuweniNode, r row) {
		session, name := n.session(t, n.connect(t, r.who), r.hello)
		for i := range byte(3) {
			expectTuweniPings(t, n, session, name, i+1)
		}
		seen(t, r, pingColumn, "ours answered", "its answered")
	})
}

// expectTuweniPings sends a Ping and asks for one, the peer's nth.
func expectTuweniPings(t *testing.T, n *tuweniNode, session *p2p.Session, name string, nth byte) {
	t.Helper()
	if _, err := session.Ping(step(t)); err != nil {
		t.Fatalf("Ping: %v", err)
	}
	if err := session.Capability(auxName).Write(tuweniPingID, []byte{nth}); err != nil {
		t.Fatal(err)
	}
	n.says("pong %s %d", name, nth)
	if got := session.Stats().Pings; got != uint64(nth) {
		t.Errorf("it sent %d Pings, want %d", got, nth)
	}
}

// TestTuweniDisconnects sees each reason that the peer can give. It closes the connection so soon
// after a Disconnect that now and then it is lost; then it is asked again.
func TestTuweniDisconnects(t *testing.T) {
	const attempts = 50 // one in ten is lost
	tuweniRoles(t, func(t *testing.T, n *tuweniNode, r row) {
		for _, reason := range reasons {
			heard := false
			for range attempts {
				session, name := n.session(t, n.connect(t, r.who), r.hello)
				if heard = disconnectedByTuweni(t, n, session, name, reason); heard {
					break
				}
			}
			if !heard {
				t.Errorf("%v was not heard once", reason)
			}
		}
		seen(t, r, disconnectColumn, fmt.Sprintf("%d reasons heard", len(reasons)))
	})
}

// disconnectedByTuweni has the peer end a session, and reports whether its Disconnect arrived.
func disconnectedByTuweni(t *testing.T, n *tuweniNode, session *p2p.Session, name string, reason p2p.DiscReason) bool {
	t.Helper()
	n.tell("disconnect %d", reason)
	n.says("disconnected %s requested: %s", name, tuweniWords[reason])
	err := ended(t, session)
	if hungUp(err) {
		return false
	}
	expectDisconnect(t, err, reason)
	return true
}

// TestTuweniHearsOurDisconnect checks that the peer learns each of our reasons.
func TestTuweniHearsOurDisconnect(t *testing.T) {
	tuweniRoles(t, func(t *testing.T, n *tuweniNode, r row) {
		for _, reason := range reasons {
			session, name := n.session(t, n.connect(t, r.who), r.hello)
			if err := session.Disconnect(reason); err != nil {
				t.Fatal(err)
			}
			n.says("disconnected %s received: %s", name, tuweniWords[reason])
		}
		seen(t, r, disconnectColumn, fmt.Sprintf("%d reasons said", len(reasons)))
	})
}

// tuweniWords are the reasons in the peer's words.
var tuweniWords = map[p2p.DiscReason]string{
	p2p.DiscRequested:           "Requested",
	p2p.DiscNetworkError:        "TCP Error",
	p2p.DiscProtocolError:       "Protocol breach",
	p2p.DiscUselessPeer:         "Useless peer",
	p2p.DiscTooManyPeers:        "Too many peers",
	p2p.DiscAlreadyConnected:    "Already connected",
	p2p.DiscIncompatibleVersion: "Incompatible devp2p version",
	p2p.DiscInvalidIdentity:     "Null node identity received",
	p2p.DiscQuitting:            "Client quitting",
	p2p.DiscUnexpectedIdentity:  "Unexpected identity",
	p2p.DiscSelf:                "Connected to self",
	p2p.DiscReadTimeout:         "Timeout",
	p2p.DiscSubprotocolError:    "Subprotocol reason",
}

// TestTuweniRecorded makes the transcripts.
func TestTuweniRecorded(t *testing.T) {
	tuweniRoles(t, func(t *testing.T, n *tuweniNode, r row) {
		if r.who == weDial {
			rec := record(t, r, transcriptName("tuweni", r), "We dial. Messages that it echoes, a Ping of either side, and its Disconnect.")
			session, name := n.session(t, rec.dial(t, n.addr, n.key), r.hello)
			exchangeTuweni(t, n, session, name)
			if heard := disconnectedByTuweni(t, n, session, name, p2p.DiscQuitting); !heard && *update {
				t.Error("its Disconnect was lost: try again")
			}
			return
		}
		rec := record(t, r, transcriptName("tuweni", r), "It dials. Messages that it echoes, a Ping of either side, and our Disconnect.")
		l := rec.listen(t)
		n.dial(l.Addr(), &rec.key.PublicKey)
		session, name := n.session(t, l.accept(t), r.hello)
		exchangeTuweni(t, n, session, name)
		if err := session.Disconnect(p2p.DiscTooManyPeers); err != nil {
			t.Fatal(err)
		}
		n.says("disconnected %s received: %s", name, tuweniWords[p2p.DiscTooManyPeers])
	})
}

// exchangeTuweni is the middle of a recorded session.
func exchangeTuweni(t *testing.T, n *tuweniNode, session *p2p.Session, name string) {
	t.Helper()
	for _, data := range recordedEchoes(session) {
		expectEcho(t, session.Capability(mirrorName), 1, data)
	}
	expectTuweniPings(t, n, session, name, 1)
}
