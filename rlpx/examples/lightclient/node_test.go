package main

import (
	"context"
	"crypto/ecdsa"
	"encoding/binary"
	"math/big"
	"net"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

const chainID = 1337

// chain is made up: the RLP of headers, each the child of the one before.
var chain = func() (raws []rlp.RawValue) {
	var parent Hash
	for n := range uint64(500) {
		h := Header{Parent: parent, Difficulty: big.NewInt(1), Number: n, GasLimit: 30_000_000, Time: 1_700_000_000 + 12*n, Extra: []byte("made up")}
		if n >= 100 { // a fork adds a field
			h.Later = []rlp.RawValue{{0x07}}
		}
		raw, err := rlp.EncodeToBytes(&h)
		if err != nil {
			panic(err)
		}
		raws, parent = append(raws, raw), Hash(crypto.Keccak256(raw))
	}
	return raws
}()

func hashOf(number int) Hash { return Hash(crypto.Keccak256(chain[number])) }

var testNetwork = Network{chainID, hashOf(0)}

// testStatus is what a node with the chain says in a version of eth.
func testStatus(version uint64) *Status {
	last := len(chain) - 1
	return &Status{version, chainID, hashOf(0), ForkID{[4]byte{1, 2, 3, 4}, 99}, uint64(last), hashOf(last)}
}

// node is one with the chain. Each of its fields may be replaced before it is dialled.
type node struct {
	t   *testing.T
	url string

	// started is called with each session. It says Status.
	started func(ch *p2p.Channel)

	// asked is called for each request of headers. It answers.
	asked func(ch *p2p.Channel, id uint64, headers []rlp.RawValue) error

	messages chan message // that are no such requests
	sessions chan *p2p.Session
}

type message struct {
	id   uint64
	data []byte
}

// startNode runs a node that speaks the given versions of eth until the end of the test.
func startNode(t *testing.T, versions ...uint64) *node {
	t.Helper()
	rlpxtest.CheckGoroutines(t)
	n := &node{t: t, messages: make(chan message, 10), sessions: make(chan *p2p.Session, 10)}
	n.started = func(ch *p2p.Channel) { n.say(ch, testStatus(ch.Shared().Version)) }
	n.asked = func(ch *p2p.Channel, id uint64, headers []rlp.RawValue) error {
		return ch.SendRLP(blockHeadersMsg, &headersAnswer{id, headers})
	}
	cfg := &p2p.SessionConfig{Name: "node/v1", ReadTimeout: -1, PingInterval: -1}
	for _, c := range capabilities(n.handle) {
		for _, v := range versions {
			if c.Version == v {
				cfg.Capabilities = append(cfg.Capabilities, c)
			}
		}
	}
	key := newKey(t)
	l, err := p2p.Listen("tcp", "127.0.0.1:0", &rlpx.Config{Key: key, HandshakeTimeout: -1}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var accepting sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	accepting.Go(func() {
		for {
			s, err := l.Accept(ctx)
			if err != nil {
				return
			}
			n.started(s.Capability("eth"))
			n.sessions <- s
			accepting.Go(func() {
				select {
				case <-s.Done():
				case <-ctx.Done():
					s.Close()
				}
			})
		}
	})
	t.Cleanup(func() { cancel(); l.Close(); accepting.Wait() })
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	n.url = (&p2p.Node{Key: &key.PublicKey, Host: "127.0.0.1", TCP: port, UDP: port}).String()
	return n
}

func (n *node) say(ch *p2p.Channel, s *Status) {
	if err := ch.WriteRLP(context.Background(), statusMsg, s.wire(ch.Shared().Version)); err != nil {
		n.t.Log(err) // the session may have ended
	}
}

func (n *node) handle(ch *p2p.Channel, id uint64, data []byte) error {
	if id != getBlockHeadersMsg {
		n.messages <- message{id, append([]byte{}, data...)}
		return nil
	}
	var request struct {
		ID    uint64
		Query struct {
			Origin      rlp.RawValue
			Count, Skip uint64
			Reverse     bool
		}
	}
	if err := rlp.DecodeBytes(data, &request); err != nil {
		n.t.Error(err)
		return err
	}
	_, origin, _, err := rlp.Split(request.Query.Origin)
	if err != nil || request.Query.Skip != 0 || request.Query.Reverse {
		n.t.Errorf("request %+v, %v", request, err)
	}
	first := len(chain)
	if len(origin) == len(Hash{}) {
		for i := range chain {
			if hashOf(i) == Hash(origin) {
				first = i
			}
		}
	} else {
		first = min(first, int(binary.BigEndian.Uint64(append(make([]byte, 8-len(origin)), origin...))))
	}
	return n.asked(ch, request.ID, chain[first:min(uint64(len(chain)), uint64(first)+request.Query.Count)])
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// dial is Dial of n without a limit of time.
func (n *node) dial(ctx context.Context, network Network) (*Client, error) {
	c, err := Dial(ctx, n.url, &rlpx.Config{Key: newKey(n.t), HandshakeTimeout: -1}, network)
	if err == nil {
		n.t.Cleanup(func() { c.Close() })
	}
	return c, err
}

func (n *node) mustDial() *Client {
	n.t.Helper()
	c, err := n.dial(n.t.Context(), testNetwork)
	if err != nil {
		n.t.Fatal(err)
	}
	return c
}

// session returns the node's end of the session that was dialled last.
func (n *node) session() *p2p.Session { return <-n.sessions }

// wantEnd checks with which reason the client ended the session.
func (n *node) wantEnd(reason p2p.DiscReason) {
	n.t.Helper()
	s := n.session()
	<-s.Done()
	if d, ok := s.Err().(*p2p.DisconnectError); !ok || *d != (p2p.DisconnectError{Reason: reason, Remote: true}) {
		n.t.Errorf("the node's session ended with %v, want %v", s.Err(), reason)
	}
}
