package interop

import (
	"flag"
	"fmt"
	"regexp"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/beacon/engine"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"
)

// For measuring with more than it takes to see that it works.
var (
	networkBlocks  = flag.Int("network-blocks", chainLength, "length of the chain that TestNetwork syncs")
	networkBallast = flag.Int("network-ballast", 0, "random bytes in each of its blocks")
)

var networkChain = sync.OnceValue(func() *chain {
	if *networkBlocks == chainLength && *networkBallast == 0 {
		return testChain()
	}
	return makeChain(*networkBlocks, *networkBallast)
})

// TestNetwork lets a geth node sync a chain from another one, one of them or both on our transport:
// in full and snap mode, with either dialing. After that a transaction goes each way, each node is
// stopped and started again and finds its peer, and another transaction goes each way.
func TestNetwork(t *testing.T) {
	gethProgram.build(t)
	changed(t)
	dropInGethProgram.build(t)
	for _, tc := range []struct {
		name           string
		server, client *program
	}{
		{"from ours", &dropInGethProgram, &gethProgram},
		{"to ours", &gethProgram, &dropInGethProgram},
		{"ours", &dropInGethProgram, &dropInGethProgram},
		{"geth", &gethProgram, &gethProgram}, // for comparison
	} {
		for _, mode := range []string{"full", "snap"} {
			for _, dials := range []string{"client", "server"} {
				if tc.server == tc.client && dials == "server" {
					continue // who dials matters where the two are different
				}
				t.Run(fmt.Sprintf("%s/%s/%s dials", tc.name, mode, dials), func(t *testing.T) {
					t.Parallel() // they wait more than they work
					runNetwork(t, tc.server, tc.client, mode, dials == "client")
				})
			}
		}
	}
}

// runNetwork is TestNetwork for two nodes.
func runNetwork(t *testing.T, server, client *program, mode string, clientDials bool) {
	c := networkChain()
	full := newGethHome(t, gethConfig{program: server, chain: c, syncMode: "full", profiled: true})
	empty := newGethHome(t, gethConfig{program: client, syncMode: mode, profiled: true})
	pair := &pair{homes: [2]*gethHome{full, empty}, dialed: 1}
	if clientDials {
		pair.dialed = 0
	}
	pair.start(t, pair.dialed)
	pair.homes[1-pair.dialed].staticNodes = []string{pair.nodes[pair.dialed].url}
	pair.start(t, 1-pair.dialed)
	pair.awaitPeers(t)

	apis := pair.apis()
	if status := forkchoiceUpdated(t, apis[0], c.head()); status != engine.VALID {
		t.Fatalf("the node that has the chain says of its head: %s", status)
	}
	expectSynced(t, apis[1], c.head())
	if mode == "snap" {
		pair.nodes[1].await(`Committed new head block|Snap sync complete`)
	}
	txs := &transactions{nonce: c.sent}
	txs.exchange(t, apis)
	for i, n := range pair.nodes {
		n.reportBytes(t, fmt.Sprintf("%s, %s", n.home.program.name, []string{"has the chain", "syncs"}[i]))
	}

	// Each is started again once. The one that dials does so as soon as it is there, or again half
	// a minute after it last did.
	for i := range pair.nodes {
		pair.stop(t, i)
		pair.start(t, i)
		pair.awaitPeers(t)
		apis = pair.apis()
		for i, api := range apis {
			if got := latest(t, api); got != c.head().Hash() {
				t.Errorf("the head of node %d is %v, want %v", i, got, c.head().Hash())
			}
			if status := forkchoiceUpdated(t, api, c.head()); status != engine.VALID {
				t.Errorf("node %d says of the head: %s", i, status)
			}
		}
		txs.restore(t, apis)
		txs.exchange(t, apis)
	}
	for i := range pair.nodes {
		pair.stop(t, i)
	}
}

// pair are two nodes, one of which dials the other: the one that has the chain, and the one that
// syncs.
type pair struct {
	homes  [2]*gethHome
	nodes  [2]*gethNode
	dialed int // which of them
}

func (p *pair) start(t *testing.T, i int) {
	t.Helper()
	p.nodes[i] = p.homes[i].start(t)
}

// stop ends a node, which shall have found nothing wrong with what it received.
func (p *pair) stop(t *testing.T, i int) {
	t.Helper()
	n := p.nodes[i]
	n.stop()
	usage := n.cmd.ProcessState
	t.Logf("%s: CPU time %v", n.home.program.name, (usage.UserTime() + usage.SystemTime()).Round(time.Millisecond))
	if !usage.Success() && runtime.GOOS != "windows" {
		t.Errorf("node %d ended with %v", i, usage)
	}
	if len(n.log.String()) >= journalLimit {
		t.Error("the log is too long to be kept")
	}
	for _, line := range transportErrors.FindAllString(n.log.String(), -1) {
		if !endOfConnection.MatchString(line) {
			t.Errorf("node %d, %s: %s", i, n.home.program.name, line)
		}
	}
}

var (
	// transportErrors matches the lines of a log that show that a message was not what the other
	// had sent, that a node found fault with its peer, or that something broke down.
	transportErrors = regexp.MustCompile(`(?m)^.*(bad (header|frame) MAC|rlpx: |invalid message code|message too big|message length|` +
		`snappy|corrupt input|rlp: |panic: |goroutine \d+|nil pointer|breach of protocol|useless peer|subprotocol error|` +
		`Message handling failed|invalid (message|block|header|receipt|body)|Synchroni[sz]ation failed|BAD BLOCK|unrequested).*$`)

	// endOfConnection matches those of them that say no more than that a connection has ended, as
	// when the other node was stopped. Before its handshake that is the connection that startGeth
	// tries.
	endOfConnection = regexp.MustCompile(`err=(EOF|"[^"]*(closed the connection during the handshake \(0 bytes received|` +
		`connection reset by peer|broken pipe|use of closed network connection|client quitting|shutting down|unexpected EOF)[^"]*")`)
)

// awaitPeers waits until the nodes are peers. A node that was started again has a new log.
func (p *pair) awaitPeers(t *testing.T) {
	t.Helper()
	for _, n := range p.nodes {
		client := n.ipc(t)
		until(t, "a peer that speaks eth", func() bool {
			var peers []struct {
				Protocols map[string]any `json:"protocols"`
			}
			if err := client.CallContext(step(t), &peers, "admin_peers"); err != nil {
				t.Fatal(err)
			}
			// What is no object is a peer whose Status has not come.
			if len(peers) != 1 {
				return false
			}
			_, ok := peers[0].Protocols["eth"].(map[string]any)
			return ok
		})
	}
}

func (p *pair) apis() [2]*rpc.Client { return [2]*rpc.Client{p.nodes[0].api(), p.nodes[1].api()} }

// until asks for a condition again and again until it holds.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for ctx := step(t); !condition(); {
		select {
		case <-time.After(poolPoll):
		case <-ctx.Done():
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// expectSynced has a node sync up to a block, as a consensus client would, and checks that it is
// its head then.
func expectSynced(t *testing.T, api *rpc.Client, head *types.Block) {
	t.Helper()
	payload := engine.BlockToExecutableData(head, common.Big0, nil, nil).ExecutionPayload
	var status engine.PayloadStatusV1
	if err := api.CallContext(step(t), &status, "engine_newPayloadV2", payload); err != nil {
		t.Fatal(err)
	}
	if status.Status == engine.INVALID {
		t.Fatalf("newPayload: %+v", status)
	}
	// It is told of the head once, since it begins anew each time, and once more when it has got
	// there.
	if status := forkchoiceUpdated(t, api, head); status == engine.INVALID {
		t.Fatal("the head is invalid")
	}
	until(t, "in sync", func() bool { return latest(t, api) == head.Hash() })
	until(t, "done with syncing", func() bool { return forkchoiceUpdated(t, api, head) == engine.VALID })
}

// latest is the hash of a node's head.
func latest(t *testing.T, api *rpc.Client) common.Hash {
	t.Helper()
	var block struct{ Hash common.Hash }
	if err := api.CallContext(step(t), &block, "eth_getBlockByNumber", "latest", false); err != nil {
		t.Fatal(err)
	}
	return block.Hash
}

// transactions are those that were given to two nodes after their chain, one after the other.
type transactions struct {
	sent  []*types.Transaction
	nonce uint64 // of the next
}

// exchange gives a transaction to each node, which the other has to hear of.
func (x *transactions) exchange(t *testing.T, apis [2]*rpc.Client) {
	t.Helper()
	for i, api := range apis {
		tx := newTransaction(x.nonce, &common.Address{0xbb}, common.Big1, nil)
		x.nonce++
		x.sent = append(x.sent, tx)
		if err := submit(t, api, tx); err != nil {
			t.Fatal(err)
		}
		expectPooled(t, apis[1-i], tx.Hash())
	}
}

// restore gives the nodes what one of them has forgotten when it was stopped. Without it, they
// would not pass on what comes after.
func (x *transactions) restore(t *testing.T, apis [2]*rpc.Client) {
	t.Helper()
	for _, tx := range x.sent {
		for _, api := range apis {
			if err := submit(t, api, tx); err != nil && err.Error() != "already known" {
				t.Fatal(err)
			}
		}
	}
}

// submit gives a node a transaction over its API.
func submit(t *testing.T, api *rpc.Client, tx *types.Transaction) error {
	t.Helper()
	raw, err := tx.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return api.CallContext(step(t), nil, "eth_sendRawTransaction", hexutil.Encode(raw))
}
