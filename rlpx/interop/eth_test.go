package interop

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/forkid"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// ethLengths are the message ids of each version of eth that geth offers.
var ethLengths = map[uint64]uint64{eth.ETH69: 18, eth.ETH70: 18, eth.ETH71: 20, eth.ETH72: 22}

// ethCapabilities are one version of eth and the snap that geth offers while it syncs.
func ethCapabilities(version uint64) p2p.Capabilities {
	return p2p.Capabilities{
		{Cap: p2p.Cap{Name: "eth", Version: version}, Length: ethLengths[version]},
		{Cap: p2p.Cap{Name: "snap", Version: 1}, Length: 8},
	}
}

func sessionConfig(caps p2p.Capabilities) *p2p.SessionConfig {
	return &p2p.SessionConfig{Name: "interop", Capabilities: caps}
}

// ourConfig is what our end runs with. Its handshake may take as long as any step of a test.
func ourConfig(key *ecdsa.PrivateKey) *rlpx.Config {
	return &rlpx.Config{Key: key, HandshakeTimeout: patience}
}

// dial connects to a node as a peer of a new key.
func dial(t *testing.T, n *gethNode) *rlpx.Conn {
	t.Helper()
	conn, err := rlpx.Dial(step(t), "tcp", n.addr, n.key, ourConfig(newKey(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func newSession(t *testing.T, conn *rlpx.Conn, cfg *p2p.SessionConfig) *p2p.Session {
	t.Helper()
	session, err := p2p.NewSession(step(t), conn, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// ended waits for the end of a session and returns why it ended.
func ended(t *testing.T, session *p2p.Session) error {
	t.Helper()
	select {
	case <-session.Done():
		return session.Err()
	case <-step(t).Done():
		t.Fatal("the session goes on")
		return nil
	}
}

// reasonWords are the reasons as people read them.
var reasonWords = map[p2p.DiscReason]string{
	p2p.DiscRequested:           "disconnect requested",
	p2p.DiscNetworkError:        "network error",
	p2p.DiscProtocolError:       "breach of protocol",
	p2p.DiscUselessPeer:         "useless peer",
	p2p.DiscTooManyPeers:        "too many peers",
	p2p.DiscAlreadyConnected:    "already connected",
	p2p.DiscIncompatibleVersion: "incompatible p2p protocol version",
	p2p.DiscInvalidIdentity:     "null or invalid node identity",
	p2p.DiscQuitting:            "client quitting",
	p2p.DiscUnexpectedIdentity:  "unexpected node identity",
	p2p.DiscSelf:                "connected to itself",
	p2p.DiscReadTimeout:         "read timeout",
	p2p.DiscSubprotocolError:    "subprotocol error",
}

// expectDisconnect checks that a session ended with the peer's Disconnect for the given reason,
// and that the error has it in words.
func expectDisconnect(t *testing.T, err error, want p2p.DiscReason) {
	t.Helper()
	disconnect, ok := errors.AsType[*p2p.DisconnectError](err)
	if !ok || !disconnect.Remote || disconnect.Reason != want {
		t.Errorf("the session ended with %v, want the peer's Disconnect: %v", err, want)
	} else if words := "disconnected by peer: " + reasonWords[want]; reasonWords[want] == "" || !strings.Contains(err.Error(), words) {
		t.Errorf("the session ended with %q, want %q in it", err, words)
	}
}

// listener is our listening side.
type listener struct {
	*rlpx.Listener
	url string // enode
}

func listen(t *testing.T) *listener {
	t.Helper()
	key := newKey(t)
	l, err := rlpx.Listen("tcp", "127.0.0.1:0", ourConfig(key))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	addr := addrPort(l.Addr())
	node := enode.NewV4(&key.PublicKey, addr.Addr().AsSlice(), int(addr.Port()), int(addr.Port()))
	return &listener{l, node.URLv4()}
}

func (l *listener) accept(t *testing.T) *rlpx.Conn {
	t.Helper()
	conn, err := l.Accept(step(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ethPeer speaks eth with a node.
type ethPeer struct {
	ch      *p2p.Channel
	version uint64
	genesis *types.Block
	head    *types.Block
}

// newEthPeer is for a node whose chain is the genesis block.
func newEthPeer(t *testing.T, session *p2p.Session) *ethPeer {
	t.Helper()
	ch := session.Capability("eth")
	if ch == nil {
		t.Fatalf("eth is not shared with %v", session.Remote())
	}
	block := genesis().ToBlock()
	return &ethPeer{ch, ch.Shared().Version, block, block}
}

// status is the right Status of a node that has the chain up to head.
func (p *ethPeer) status() eth.StatusPacket {
	return eth.StatusPacket{
		ProtocolVersion: uint32(p.version),
		NetworkID:       chainID,
		Genesis:         p.genesis.Hash(),
		ForkID:          forkid.NewID(genesis().Config, p.genesis, p.head.NumberU64(), p.head.Time()),
		LatestBlock:     p.head.NumberU64(),
		LatestBlockHash: p.head.Hash(),
	}
}

func (p *ethPeer) send(id uint64, packet any) error {
	data, err := rlp.EncodeToBytes(packet)
	if err != nil {
		return err
	}
	return p.ch.Write(id, data)
}

// exchangeStatus sends a Status, and checks the node's.
func (p *ethPeer) exchangeStatus(ctx context.Context) error {
	want := p.status()
	if err := p.send(eth.StatusMsg, &want); err != nil {
		return fmt.Errorf("sending Status: %w", err)
	}
	id, data, err := p.ch.Read(ctx)
	if err != nil {
		return fmt.Errorf("waiting for Status: %w", err)
	}
	if id != eth.StatusMsg {
		return fmt.Errorf("message %#x instead of Status", id)
	}
	var got eth.StatusPacket
	if err := rlp.DecodeBytes(data, &got); err != nil {
		return fmt.Errorf("Status: %w", err)
	}
	if got != want {
		return fmt.Errorf("Status is\n%+v, want\n%+v", got, want)
	}
	return nil
}

// genesisHeader fetches the header of block 0 and checks that it is the genesis block's, by hash.
func (p *ethPeer) genesisHeader(ctx context.Context, origin eth.HashOrNumber) error {
	const requestID = 0x1122334455667788
	request := eth.GetBlockHeadersPacket{
		RequestId:              requestID,
		GetBlockHeadersRequest: &eth.GetBlockHeadersRequest{Origin: origin, Amount: 1},
	}
	if err := p.send(eth.GetBlockHeadersMsg, &request); err != nil {
		return fmt.Errorf("sending GetBlockHeaders: %w", err)
	}
	for {
		id, data, err := p.ch.Read(ctx)
		if err != nil {
			return fmt.Errorf("waiting for BlockHeaders: %w", err)
		}
		if id != eth.BlockHeadersMsg {
			continue // it may ask and tell as well
		}
		var answer eth.BlockHeadersPacket
		if err := rlp.DecodeBytes(data, &answer); err != nil {
			return fmt.Errorf("BlockHeaders: %w", err)
		}
		headers, err := answer.List.Items()
		if err != nil || len(headers) != 1 || answer.RequestId != requestID {
			return fmt.Errorf("%d headers with request id %#x, error %v", len(headers), answer.RequestId, err)
		}
		if got, want := headers[0].Hash(), p.genesis.Hash(); got != want || headers[0].Number.Sign() != 0 {
			return fmt.Errorf("header %v has hash %v, want %v", headers[0].Number, got, want)
		}
		return nil
	}
}

// peerTimeout is how long geth waits for the encrypted handshake and Hello, and again for Status.
const peerTimeout = 5 * time.Second

// inTime runs something that a peer gives up after peerTimeout, again if a busy machine held it up
// for longer than that. What fails earlier fails for another reason.
func inTime(t *testing.T, what func(context.Context) error) {
	t.Helper()
	for ctx := step(t); ; {
		start := time.Now()
		err := what(ctx)
		if err == nil {
			return
		}
		if took := time.Since(start); took < peerTimeout || ctx.Err() != nil {
			t.Fatalf("after %v: %v", took, err)
		}
		t.Logf("took longer than the peer waits, so once more: %v", err)
	}
}

// join dials a node, up to the exchange of Status. head is that of the node's chain.
func join(t *testing.T, n *gethNode, caps p2p.Capabilities, head *types.Block) *ethPeer {
	t.Helper()
	var p *ethPeer
	inTime(t, func(ctx context.Context) error {
		conn, err := rlpx.Dial(ctx, "tcp", n.addr, n.key, ourConfig(newKey(t)))
		if err == nil {
			p, err = joined(ctx, t, conn, caps, head)
		}
		return err
	})
	return p
}

// joinAttempts is how often a node may have to dial us: it waits no longer than peerTimeout for us,
// which may pass before we get to see its connection.
const joinAttempts = 3

// joinedBy waits for a node that dials us, as one of its static nodes, up to the exchange of
// Status.
func joinedBy(t *testing.T, l *listener, caps p2p.Capabilities, head *types.Block) *ethPeer {
	t.Helper()
	p, err := l.join(t, caps, head)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// join is joinedBy for any goroutine.
func (l *listener) join(t *testing.T, caps p2p.Capabilities, head *types.Block) (*ethPeer, error) {
	var errs []error
	for range joinAttempts {
		conn, err := l.Accept(step(t))
		if err != nil {
			return nil, errors.Join(append(errs, err)...)
		}
		p, err := joined(step(t), t, conn, caps, head)
		if err == nil {
			return p, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// joined makes a new connection a peer.
func joined(ctx context.Context, t *testing.T, conn *rlpx.Conn, caps p2p.Capabilities, head *types.Block) (*ethPeer, error) {
	t.Cleanup(func() { conn.Close() })
	session, err := p2p.NewSession(ctx, conn, sessionConfig(caps))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { session.Close() })
	ch := session.Capability("eth")
	if ch == nil {
		return nil, fmt.Errorf("eth is not shared with %v", session.Remote())
	}
	p := &ethPeer{ch, ch.Shared().Version, genesis().ToBlock(), head}
	return p, p.exchangeStatus(ctx)
}

// expectGenesis fetches a node's genesis header by number and by hash.
func (p *ethPeer) expectGenesis(t *testing.T) {
	t.Helper()
	for _, origin := range []eth.HashOrNumber{{Number: 0}, {Hash: p.genesis.Hash()}} {
		if err := p.genesisHeader(step(t), origin); err != nil {
			t.Fatal(err)
		}
	}
}

// expectEth exchanges Status with a node and fetches its genesis header by number and by hash.
func expectEth(t *testing.T, session *p2p.Session) {
	t.Helper()
	p := newEthPeer(t, session)
	if err := p.exchangeStatus(step(t)); err != nil {
		t.Fatal(err)
	}
	p.expectGenesis(t)
}
