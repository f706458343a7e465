package interop

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

func addrPort(addr net.Addr) netip.AddrPort { return addr.(*net.TCPAddr).AddrPort() }

// expectGeth checks what a geth node says in Hello, and what follows from it.
func expectGeth(t *testing.T, session *p2p.Session) {
	t.Helper()
	version, err := gethVersion()
	if err != nil {
		t.Fatal(err)
	}
	hello := session.Remote()
	if !strings.HasPrefix(hello.Name, "Geth/"+version) {
		t.Errorf("client name %q, want Geth/%s...", hello.Name, version)
	}
	for version := range ethLengths {
		if !slices.Contains(hello.Caps, p2p.Cap{Name: "eth", Version: version}) {
			t.Errorf("no eth/%d in %v", version, hello.Caps)
		}
	}
	if !slices.Contains(hello.Caps, p2p.Cap{Name: "snap", Version: 1}) {
		t.Errorf("no snap/1 in %v", hello.Caps)
	}
	if state := session.ConnectionState(); !state.Snappy || !state.PeerProven {
		t.Errorf("snappy %v, identity proven %v", state.Snappy, state.PeerProven)
	}
}

// TestGethDialed dials a geth node once for each version of eth that it offers.
func TestGethDialed(t *testing.T) {
	n := startGeth(t, gethConfig{})
	for version := range ethLengths {
		t.Run(fmt.Sprintf("eth=%d", version), func(t *testing.T) {
			p := join(t, n, ethCapabilities(version), genesis().ToBlock())
			session := p.ch.Session()
			expectGeth(t, session)
			if shared := session.Capability("eth").Shared(); shared.Version != version || shared.Offset != p2p.BaseLength {
				t.Errorf("%v shared at offset %#x", shared.Cap, shared.Offset)
			}
			p.expectGenesis(t)
			for range 3 {
				if _, err := session.Ping(step(t)); err != nil {
					t.Fatalf("Ping: %v", err)
				}
			}
			if err := session.Err(); err != nil {
				t.Fatal(err)
			}
			seenEth(t, gethRow(t, geth, weDial, 5), session)
		})
	}
}

// TestGethDials has a geth node dial us, as a static node of its configuration.
func TestGethDials(t *testing.T) {
	l := listen(t)
	startGeth(t, gethConfig{staticNodes: []string{l.url}})
	p := joinedBy(t, l, ethCapabilities(eth.ETH69), genesis().ToBlock())
	session := p.ch.Session()
	expectGeth(t, session)
	p.expectGenesis(t)
	if _, err := session.Ping(step(t)); err != nil {
		t.Fatalf("Ping: %v", err)
	}
	seenEth(t, gethRow(t, geth, weServe, 5), session)
}

// seenEth notes what a session with geth has shown.
func seenEth(t *testing.T, r row, session *p2p.Session) {
	t.Helper()
	seenSession(t, r, session)
	seen(t, r, pingColumn, oursAnswered)
}

// TestGethRefusesStatus sees how geth ends a session whose Status does not fit. The Disconnect of
// all of them is the same; what was wrong is in its log.
func TestGethRefusesStatus(t *testing.T) {
	n := startGeth(t, gethConfig{})
	for _, tc := range []struct {
		name  string
		spoil func(*eth.StatusPacket)
		log   string
	}{
		{"wrong network", func(s *eth.StatusPacket) { s.NetworkID++ }, "network ID mismatch"},
		{"wrong genesis", func(s *eth.StatusPacket) { s.Genesis[0] ^= 1 }, "genesis mismatch"},
		{"wrong eth version", func(s *eth.StatusPacket) { s.ProtocolVersion-- }, "protocol version mismatch"},
		{"wrong fork id", func(s *eth.StatusPacket) { s.ForkID.Hash[0] ^= 1 }, "fork ID rejected"},
		{"wrong block range", func(s *eth.StatusPacket) { s.EarliestBlock = s.LatestBlock + 1 }, "earliest > latest"},
		{"no latest block", func(s *eth.StatusPacket) { s.LatestBlockHash = common.Hash{} }, "zero latest hash"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			session := newSession(t, dial(t, n), sessionConfig(ethCapabilities(eth.ETH69)))
			p := newEthPeer(t, session)
			status := p.status()
			tc.spoil(&status)
			if err := p.send(eth.StatusMsg, &status); err != nil {
				t.Fatal(err)
			}
			expectDisconnect(t, ended(t, session), p2p.DiscSubprotocolError)
			seenReason(t, p2p.DiscSubprotocolError)
			n.await(`Ethereum handshake failed .*err=".*` + regexp.QuoteMeta(tc.log))
		})
	}
}

// seenReason notes a reason that geth gave for a Disconnect.
func seenReason(t *testing.T, reason p2p.DiscReason) {
	t.Helper()
	seen(t, gethRow(t, geth, weDial, 5), disconnectColumn, "heard: "+reason.String())
}

// TestGethDisconnects collects the other reasons for which geth ends a session.
func TestGethDisconnects(t *testing.T) {
	t.Run("useless peer", func(t *testing.T) {
		n := startGeth(t, gethConfig{})
		caps := p2p.Capabilities{{Cap: p2p.Cap{Name: "interop", Version: 1}, Length: 1}}

		// A session finds out by itself that nothing is shared.
		_, err := p2p.NewSession(step(t), dial(t, n), sessionConfig(caps))
		if useless, ok := errors.AsType[*p2p.UselessPeerError](err); !ok || len(useless.Caps) < len(ethLengths) {
			t.Errorf("NewSession: %v", err)
		}

		// So what geth says about it shows below a session. It comes after Hello, compressed.
		conn := dial(t, n)
		hello := &p2p.Hello{Name: "interop", Caps: caps.Caps()}
		if _, err := p2p.Handshake(step(t), conn, hello); err != nil {
			t.Fatal(err)
		}
		code, data, _, err := conn.Read()
		if err != nil || code != p2p.DisconnectCode {
			t.Fatalf("code %#x, error %v; want Disconnect", code, err)
		}
		expectDisconnect(t, &p2p.DisconnectError{Reason: p2p.DecodeDisconnect(data), Remote: true}, p2p.DiscUselessPeer)
		seenReason(t, p2p.DiscUselessPeer)
	})

	t.Run("already connected", func(t *testing.T) {
		n := startGeth(t, gethConfig{})
		cfg := ourConfig(newKey(t))
		var errs []error
		for range 2 {
			conn, err := rlpx.Dial(step(t), "tcp", n.addr, n.key, cfg)
			if err != nil {
				t.Fatal(err)
			}
			session, err := p2p.NewSession(step(t), conn, sessionConfig(ethCapabilities(eth.ETH69)))
			if err == nil {
				t.Cleanup(func() { session.Close() })
				// Status is only exchanged with one that geth has taken as a peer.
				if err := newEthPeer(t, session).exchangeStatus(step(t)); err != nil {
					t.Fatal(err)
				}
			}
			errs = append(errs, err)
		}
		if errs[0] != nil {
			t.Fatalf("first session: %v", errs[0])
		}
		expectDisconnect(t, errs[1], p2p.DiscAlreadyConnected)
		seenReason(t, p2p.DiscAlreadyConnected)
	})

	t.Run("too many peers", func(t *testing.T) {
		n := startGeth(t, gethConfig{maxPeers: 2}) // one dialed, one accepted
		first := join(t, n, ethCapabilities(eth.ETH69), genesis().ToBlock()).ch.Session()
		_, err := p2p.NewSession(step(t), dial(t, n), sessionConfig(ethCapabilities(eth.ETH69)))
		expectDisconnect(t, err, p2p.DiscTooManyPeers)
		if _, err := first.Ping(step(t)); err != nil {
			t.Errorf("the first session: %v", err)
		}
		seenReason(t, p2p.DiscTooManyPeers)
	})

	t.Run("message that does not decode", func(t *testing.T) {
		n := startGeth(t, gethConfig{})
		p := join(t, n, ethCapabilities(eth.ETH69), genesis().ToBlock())
		session := p.ch.Session()
		if err := p.ch.Write(eth.GetBlockHeadersMsg, []byte("not RLP at all")); err != nil {
			t.Fatal(err)
		}
		expectDisconnect(t, ended(t, session), p2p.DiscProtocolError)
		seenReason(t, p2p.DiscProtocolError)
	})

	t.Run("quitting", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			partial.Store(true)
			t.Skip("no interrupt to end geth with")
		}
		n := startGeth(t, gethConfig{})
		p := join(t, n, ethCapabilities(eth.ETH69), genesis().ToBlock())
		// geth answers a peer that it has registered. Before, its end is "subprotocol error".
		if _, err := p.fetchHeaders(step(t)); err != nil {
			t.Fatal(err)
		}
		session := p.ch.Session()
		if err := n.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		expectDisconnect(t, ended(t, session), p2p.DiscQuitting)
		seenReason(t, p2p.DiscQuitting)
	})
}

// TestGethHearsOurDisconnect looks into geth's log for the reason that we gave.
func TestGethHearsOurDisconnect(t *testing.T) {
	n := startGeth(t, gethConfig{})
	session := join(t, n, ethCapabilities(eth.ETH69), genesis().ToBlock()).ch.Session()
	if err := session.Disconnect(p2p.DiscUselessPeer); err != nil {
		t.Fatal(err)
	}
	n.await(`Removing p2p peer .*req=true +err="useless peer"`)
	seen(t, gethRow(t, geth, weDial, 5), disconnectColumn, "said: "+p2p.DiscUselessPeer.String())
}
