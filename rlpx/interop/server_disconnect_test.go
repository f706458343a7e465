package interop

import (
	"errors"
	"fmt"
	"io"
	"testing"

	gethp2p "github.com/ethereum/go-ethereum/p2p"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// reasons are all that the specification has.
var reasons = []p2p.DiscReason{
	p2p.DiscRequested, p2p.DiscNetworkError, p2p.DiscProtocolError, p2p.DiscUselessPeer, p2p.DiscTooManyPeers,
	p2p.DiscAlreadyConnected, p2p.DiscIncompatibleVersion, p2p.DiscInvalidIdentity, p2p.DiscQuitting,
	p2p.DiscUnexpectedIdentity, p2p.DiscSelf, p2p.DiscReadTimeout, p2p.DiscSubprotocolError,
}

// quits are the ways in which a capability of a server ends, and the reason that
// the server gives for it.
var quits = []struct {
	name string
	end  func(gethp2p.Msg) error
	want p2p.DiscReason
}{
	{"an error", func(gethp2p.Msg) error { return errors.New("had enough") }, p2p.DiscSubprotocolError},
	{"a reason", func(gethp2p.Msg) error { return gethp2p.DiscIncompatibleVersion }, p2p.DiscIncompatibleVersion},
	{"a message that does not decode", func(m gethp2p.Msg) error { return m.Decode(new([]string)) }, p2p.DiscProtocolError},
	{"without an error", func(gethp2p.Msg) error { return nil }, p2p.DiscQuitting},
}

// TestReasonOfGeth checks that a reason of go-ethereum's own, as its protocols return it, is the
// one that we send.
func TestReasonOfGeth(t *testing.T) {
	for _, want := range reasons {
		reason := gethp2p.DiscReason(want)
		if got := p2p.ReasonFor(reason); got != want {
			t.Errorf("%v is sent as %v", reason, got)
		}
		if got := p2p.ReasonFor(fmt.Errorf("status: %w", reason)); got != want {
			t.Errorf("%v, wrapped, is sent as %v", reason, got)
		}
	}
}

// TestServerHearsOurDisconnect checks that a server learns each of our reasons.
func TestServerHearsOurDisconnect(t *testing.T) {
	s := startServer(t, 20)
	overRoles(t, func(t *testing.T, who role, version uint64) {
		for _, reason := range reasons {
			session := s.session(t, who, mirrorConfig(version))
			if err := session.Disconnect(reason); err != nil {
				t.Fatal(err)
			}
			if got, want := s.dropped(t), gethp2p.DiscReason(reason).String(); got != want {
				t.Errorf("we said %v, it heard %q", reason, got)
			}
			var disconnect *p2p.DisconnectError
			if err := session.Err(); !errors.As(err, &disconnect) || disconnect.Remote || disconnect.Reason != reason {
				t.Errorf("we said %v, our session ended with %v", reason, err)
			}
		}
		seen(t, gethRow(t, gethServer, who, version), disconnectColumn, saidReasons(len(reasons)))
	})
}

// TestServerDisconnects checks that we learn each of a server's reasons.
func TestServerDisconnects(t *testing.T) {
	s := startServer(t, 20)
	overRoles(t, func(t *testing.T, who role, version uint64) {
		for _, reason := range reasons {
			session := s.session(t, who, mirrorConfig(version))
			s.peer(t).Disconnect(gethp2p.DiscReason(reason))
			err := ended(t, session)
			if reason == p2p.DiscNetworkError {
				// It does not say that one: what is broken cannot be told anything.
				var disconnect *p2p.DisconnectError
				if !errors.Is(err, io.EOF) || errors.As(err, &disconnect) {
					t.Errorf("network error: the session ended with %v", err)
				}
			} else {
				expectDisconnect(t, err, reason)
			}
			s.dropped(t)
		}
		seen(t, gethRow(t, gethServer, who, version), disconnectColumn, heardReasons(len(reasons)-1))
	})
}

// TestServerCapabilityEnds sees the reasons of capabilities that end on a server.
func TestServerCapabilityEnds(t *testing.T) {
	s := startServer(t, 20)
	for i, quit := range quits {
		t.Run(quit.name, func(t *testing.T) {
			session := s.session(t, weDial, mirrorConfig(5))
			if err := session.Capability(mirrorName).Write(quitID, []byte{byte(i)}); err != nil {
				t.Fatal(err)
			}
			expectDisconnect(t, ended(t, session), quit.want)
		})
	}
	t.Run("a code beyond all capabilities", func(t *testing.T) {
		conn := s.connect(t, weDial)
		hello := &p2p.Hello{Name: "interop", Caps: mirrorCapabilities().Caps()}
		if _, err := p2p.Handshake(step(t), conn, hello); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(p2p.BaseLength+auxLength+mirrorLength, []byte{0xc0}); err != nil {
			t.Fatal(err)
		}
		// It closes the connection and gives no reason.
		for {
			code, _, _, err := conn.Read()
			if err == io.EOF {
				return
			}
			if err != nil || code == p2p.DisconnectCode {
				t.Fatalf("code %#x, error %v", code, err)
			}
		}
	})
}

// TestServerRefuses sees a server refuse us before there is a session.
func TestServerRefuses(t *testing.T) {
	full := startServer(t, 2) // one dialed, one accepted
	first := full.session(t, weDial, mirrorConfig(5))
	t.Run("too many peers", func(t *testing.T) {
		_, err := p2p.NewSession(step(t), full.connect(t, weDial), mirrorConfig(5))
		expectDisconnect(t, err, p2p.DiscTooManyPeers)
	})
	if _, err := first.Ping(step(t)); err != nil {
		t.Errorf("the session before: %v", err)
	}

	s := startServer(t, 20)
	t.Run("already connected", func(t *testing.T) {
		cfg := ourConfig(newKey(t))
		for i := range 2 {
			conn, err := rlpx.Dial(step(t), "tcp", s.ListenAddr, &s.PrivateKey.PublicKey, cfg)
			if err != nil {
				t.Fatal(err)
			}
			session, err := p2p.NewSession(step(t), conn, mirrorConfig(5))
			if i == 1 {
				expectDisconnect(t, err, p2p.DiscAlreadyConnected)
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { session.Close() })
			s.peer(t)
		}
	})
	t.Run("itself", func(t *testing.T) {
		conn, err := rlpx.Dial(step(t), "tcp", s.ListenAddr, &s.PrivateKey.PublicKey, ourConfig(s.PrivateKey))
		if err != nil {
			t.Fatal(err)
		}
		// Our own check comes first, as we know both keys before it does.
		if _, err := p2p.NewSession(step(t), conn, mirrorConfig(5)); !errors.Is(err, p2p.ErrSelf) {
			t.Errorf("NewSession: %v", err)
		}
	})
	for _, version := range []uint64{4, 5} {
		t.Run(fmt.Sprintf("useless peer/Hello=%d", version), func(t *testing.T) {
			caps := p2p.Capabilities{{Cap: p2p.Cap{Name: mirrorName, Version: mirrorVersion + 1}, Length: 1}}
			conn := s.connect(t, weDial)
			hello := &p2p.Hello{Name: "interop", Version: version, Caps: caps.Caps()}
			if _, err := p2p.Handshake(step(t), conn, hello); err != nil {
				t.Fatal(err)
			}
			code, data, _, err := conn.Read()
			if err != nil || code != p2p.DisconnectCode || p2p.DecodeDisconnect(data) != p2p.DiscUselessPeer {
				t.Errorf("code %#x, data %x, error %v", code, data, err)
			}
		})
	}
}
