package interop

import (
	"errors"
	"fmt"
	"regexp"
	"testing"

	"github.com/ethereum/go-ethereum/consensus/beacon"
	"github.com/ethereum/go-ethereum/consensus/ethash"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	upstream "github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/go-rlpx/transport/rlpx/gethp2p"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// ethNode is a backend of go-ethereum's eth protocol that has the genesis block of the test chain.
type ethNode struct {
	chain   *core.BlockChain
	network uint64

	// act is called when Status is exchanged, and ends the protocol.
	act func(peer *eth.Peer) error
}

func (n *ethNode) Chain() *core.BlockChain            { return n.chain }
func (n *ethNode) TxPool() eth.TxPool                 { return nil }
func (n *ethNode) BlobPool() eth.BlobPool             { return nil }
func (n *ethNode) AcceptTxs() bool                    { return false }
func (n *ethNode) PeerInfo(enode.ID) any              { return nil }
func (n *ethNode) Handle(*eth.Peer, eth.Packet) error { return nil } // geth's head, which it announces

func (n *ethNode) RunPeer(peer *eth.Peer, handler eth.Handler) error {
	head := n.chain.CurrentHeader()
	held := eth.BlockRangeUpdatePacket{LatestBlock: head.Number.Uint64(), LatestBlockHash: head.Hash()}
	if err := peer.Handshake(n.network, n.chain, held); err != nil {
		return err
	}
	handled, acted := make(chan error, 1), make(chan error, 1)
	go func() { handled <- handler(peer) }()
	go func() { acted <- n.act(peer) }()
	select {
	case err := <-handled:
		return err
	case err := <-acted:
		return err
	}
}

func newEthNode(t *testing.T, act func(*eth.Peer) error) *ethNode {
	t.Helper()
	chain, err := core.NewBlockChain(rawdb.NewMemoryDatabase(), genesis(), beacon.New(ethash.NewFaker()), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(chain.Stop)
	return &ethNode{chain: chain, network: chainID, act: act}
}

// protocols are go-ethereum's, unchanged.
func (n *ethNode) protocols() []upstream.Protocol { return eth.MakeProtocols(n, chainID, nil) }

// askHeaders asks a peer for the headers from block 1 on, and checks them against a chain.
func askHeaders(t *testing.T, peer *eth.Peer, c *chain) error {
	const count = 192
	sink := make(chan *eth.Response, 1)
	request, err := peer.RequestHeadersByNumber(1, count, 0, false, sink)
	if err != nil {
		return err
	}
	defer request.Close()
	var response *eth.Response
	select {
	case response = <-sink:
	case <-step(t).Done():
		return errors.New("no headers")
	}
	defer func() { response.Done <- nil }()
	headers := *response.Res.(*eth.BlockHeadersRequest)
	if len(headers) != count {
		return fmt.Errorf("%d headers", len(headers))
	}
	for i, header := range headers {
		if header.Hash() != c.blocks[i+1].Hash() {
			return fmt.Errorf("header %d is another", i+1)
		}
	}
	if held := peer.BlockRange(); held == nil || held.LatestBlockHash != c.head().Hash() {
		return fmt.Errorf("the peer has the blocks %+v", held)
	}
	return nil
}

// runProtocols runs protocols over our session with a node until that ends, and returns its error.
func runProtocols(t *testing.T, session *p2p.Session, protocols []upstream.Protocol) error {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- gethp2p.Run(session, protocols...) }()
	select {
	case err := <-result:
		return err
	case <-step(t).Done():
		t.Fatal("the protocols go on")
		return nil
	}
}

// go-ethereum's eth protocol as it is runs over our session with a geth node, whichever end dials:
// Status, and headers, which are those of the chain. The Peer knows who and where the node is, and
// the node is told why we go.
func TestGethProtocolOverSession(t *testing.T) {
	c := testChain()
	reasons := map[error]string{
		nil:                       "client quitting",
		upstream.DiscTooManyPeers: "too many peers",
		fmt.Errorf("tired: %w", upstream.DiscUselessPeer): "useless peer",
	}
	check := func(t *testing.T, session *p2p.Session, n *gethNode, inbound bool, last error) {
		t.Helper()
		var peer *eth.Peer
		backend := newEthNode(t, func(p *eth.Peer) error {
			peer = p
			if err := askHeaders(t, p, c); err != nil {
				return err
			}
			return last
		})
		if err := runProtocols(t, session, backend.protocols()); !errors.Is(err, last) || last == nil && err != nil {
			t.Fatalf("the protocol ended with %v, want %v", err, last)
		}
		if peer.Peer.ID() != enode.PubkeyToIDV4(n.key) || peer.Inbound() != inbound {
			t.Errorf("the peer is %v, inbound: %v", peer.Peer, peer.Inbound())
		}
		if addr := peer.RemoteAddr().String(); addr != session.RemoteAddr().String() || !inbound && addr != n.addr {
			t.Errorf("the peer is at %s", addr)
		}
		if name := peer.Fullname(); !regexp.MustCompile(`^Geth/`).MatchString(name) {
			t.Errorf("the peer is a %q", name)
		}
		n.await(fmt.Sprintf(`Removing p2p peer .*req=true +err="%s"`, reasons[last]))
	}

	for last, words := range reasons {
		t.Run("we dial/"+words, func(t *testing.T) {
			n := startGeth(t, gethConfig{chain: c})
			cfg := sessionConfig(gethp2p.Capabilities(newEthNode(t, nil).protocols()))
			check(t, newSession(t, dial(t, n), cfg), n, false, last)
		})
	}
	t.Run("geth dials", func(t *testing.T) {
		l := listen(t)
		n := startGeth(t, gethConfig{chain: c, staticNodes: []string{l.url}})
		cfg := sessionConfig(gethp2p.Capabilities(newEthNode(t, nil).protocols()))
		var errs []error
		for range joinAttempts {
			session, err := p2p.NewSession(step(t), l.accept(t), cfg)
			if err == nil {
				t.Cleanup(func() { session.Close() })
				check(t, session, n, true, nil)
				return
			}
			errs = append(errs, err)
		}
		t.Fatal(errors.Join(errs...))
	})
}

// The reason of a geth node that wants no more of us reaches a protocol by ReadMsg, and the caller
// of Run.
func TestGethProtocolLearnsReason(t *testing.T) {
	n := startGeth(t, gethConfig{})
	for want, status := range map[upstream.DiscReason]any{
		upstream.DiscProtocolError:    []uint{1, 2, 3}, // which is no Status
		upstream.DiscSubprotocolError: &eth.StatusPacket{ProtocolVersion: 1},
	} {
		t.Run(want.String(), func(t *testing.T) {
			var read error
			protocols := newEthNode(t, nil).protocols()
			for i := range protocols {
				protocols[i].Run = func(_ *upstream.Peer, rw upstream.MsgReadWriter) error {
					if err := upstream.Send(rw, eth.StatusMsg, status); err != nil {
						return err
					}
					for {
						msg, err := rw.ReadMsg()
						if err != nil {
							read = err
							return err
						}
						if err := msg.Discard(); err != nil {
							return err
						}
					}
				}
			}
			session := newSession(t, dial(t, n), sessionConfig(gethp2p.Capabilities(protocols)))
			expectDisconnect(t, runProtocols(t, session, protocols), p2p.DiscReason(want))
			if read != want {
				t.Errorf("ReadMsg returned %v", read)
			}
		})
	}
}
