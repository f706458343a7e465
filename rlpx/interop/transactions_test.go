package interop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/beacon/engine"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

// TestGethTransactions gets transactions into geth's pool through our connection, both ways that
// there are: sent at once, and announced, asked for and sent then.
//
// geth takes no notice of transactions until it knows that it is in sync, which somebody has to
// tell it. We first see that, and then do it.
func TestGethTransactions(t *testing.T) {
	c := testChain()
	n := startGeth(t, gethConfig{chain: c})
	api := n.api()
	nonce := c.sent
	next := func() *types.Transaction {
		tx := newTransaction(nonce, &common.Address{0xaa}, big.NewInt(1), nil)
		nonce++
		return tx
	}

	first := next()
	t.Run("before it is in sync", func(t *testing.T) {
		p := newTxPeer(t, n, eth.ETH69)
		if err := p.send(eth.TransactionsMsg, types.Transactions{first}); err != nil {
			t.Fatal(err)
		}
		if err := p.announce(first, int(first.Size())); err != nil {
			t.Fatal(err)
		}
		// geth handles one message after the other: once it answers this, it has seen the
		// transaction.
		if err := p.genesisHeader(step(t), eth.HashOrNumber{Number: 0}); err != nil {
			t.Fatal(err)
		}
		if tx := pooled(t, api, first.Hash()); tx != nil {
			t.Errorf("the pool has %v", tx.Hash())
		}
	})

	if status := forkchoiceUpdated(t, api, c.head()); status != engine.VALID {
		t.Fatalf("forkchoiceUpdated: %s", status)
	}

	observer := newTxPeer(t, n, eth.ETH72)
	heard := observer.hear(t)
	for _, version := range slices.Sorted(maps.Keys(ethLengths)) {
		t.Run(fmt.Sprintf("eth=%d", version), func(t *testing.T) {
			p := newTxPeer(t, n, version)
			sent := first // once more
			if first = nil; sent == nil {
				sent = next()
			}
			if err := p.send(eth.TransactionsMsg, types.Transactions{sent}); err != nil {
				t.Fatal(err)
			}
			expectPooled(t, api, sent.Hash())

			announced := next()
			if err := p.announce(announced, int(announced.Size())); err != nil {
				t.Fatal(err)
			}
			if err := p.deliver(step(t), announced); err != nil {
				t.Fatal(err)
			}
			expectPooled(t, api, announced.Hash())

			for _, tx := range []*types.Transaction{sent, announced} {
				if err := heard.await(step(t), tx.Hash()); err != nil {
					t.Errorf("the other peer does not hear of %v: %v", tx.Hash(), err)
				}
			}
			if err := newTxPeer(t, n, version).fetch(step(t), sent, announced); err != nil {
				t.Error(err)
			}
		})
	}

	t.Run("announced with a wrong size", func(t *testing.T) {
		p, tx := newTxPeer(t, n, eth.ETH69), next()
		if err := p.announce(tx, int(tx.Size())+100); err != nil {
			t.Fatal(err)
		}
		if err := p.deliver(step(t), tx); err != nil {
			t.Fatal(err)
		}
		expectDisconnect(t, ended(t, p.ch.Session()), p2p.DiscUselessPeer)
	})
}

// forkchoiceUpdated tells a node over its engine API which block is the head of the chain, and
// returns the status of that block for it. While it turns from one head to another it has none, and
// says that in words.
func forkchoiceUpdated(t *testing.T, api *rpc.Client, head *types.Block) string {
	t.Helper()
	forkchoice := engine.ForkchoiceStateV1{HeadBlockHash: head.Hash()}
	var answer engine.ForkChoiceResponse
	err := api.CallContext(step(t), &answer, "engine_forkchoiceUpdatedV2", forkchoice, nil)
	if err != nil && err.Error() == "beacon syncer reorging" {
		return engine.SYNCING
	}
	if err != nil {
		t.Fatal(err)
	}
	return answer.PayloadStatus.Status
}

// txPeer exchanges transactions with a node.
type txPeer struct{ *ethPeer }

func newTxPeer(t *testing.T, n *gethNode, version uint64) *txPeer {
	t.Helper()
	return &txPeer{join(t, n, ethCapabilities(version), testChain().head())}
}

// announce says that there is a transaction to be asked for.
func (p *txPeer) announce(tx *types.Transaction, size int) error {
	kinds, sizes, hashes := []byte{tx.Type()}, []uint32{uint32(size)}, []common.Hash{tx.Hash()}
	if p.version >= eth.ETH72 {
		return p.send(eth.NewPooledTransactionHashesMsg, &eth.NewPooledTransactionHashesPacket72{Types: kinds, Sizes: sizes, Hashes: hashes})
	}
	return p.send(eth.NewPooledTransactionHashesMsg, &eth.NewPooledTransactionHashesPacket71{Types: kinds, Sizes: sizes, Hashes: hashes})
}

// deliver waits until the node asks for a transaction, and sends it.
func (p *txPeer) deliver(ctx context.Context, tx *types.Transaction) error {
	for {
		id, data, err := p.ch.Read(ctx)
		if err != nil {
			return fmt.Errorf("waiting for GetPooledTransactions: %w", err)
		}
		if id != eth.GetPooledTransactionsMsg {
			continue
		}
		var request eth.GetPooledTransactionsPacket
		if err := rlp.DecodeBytes(data, &request); err != nil {
			return fmt.Errorf("GetPooledTransactions: %w", err)
		}
		if hashes := request.GetPooledTransactionsRequest; len(hashes) != 1 || hashes[0] != tx.Hash() {
			return fmt.Errorf("asked for %v, announced %v", hashes, tx.Hash())
		}
		return p.send(eth.PooledTransactionsMsg, &pooledTransactions{request.RequestId, types.Transactions{tx}})
	}
}

type pooledTransactions struct {
	RequestID    uint64
	Transactions types.Transactions
}

// fetch asks the node for transactions, all of which it must have.
func (p *txPeer) fetch(ctx context.Context, want ...*types.Transaction) error {
	request := &eth.GetPooledTransactionsPacket{RequestId: 5000}
	for _, tx := range want {
		request.GetPooledTransactionsRequest = append(request.GetPooledTransactionsRequest, tx.Hash())
	}
	var answer pooledTransactions
	if err := ask(ctx, p.ch, eth.GetPooledTransactionsMsg, request, eth.PooledTransactionsMsg, &answer); err != nil {
		return err
	}
	same := func(a, b *types.Transaction) bool { return a.Hash() == b.Hash() }
	if answer.RequestID != request.RequestId || !slices.EqualFunc(answer.Transactions, want, same) {
		return fmt.Errorf("the answer to request %d has id %d and %d transactions, want %d",
			request.RequestId, answer.RequestID, len(answer.Transactions), len(want))
	}
	return nil
}

// hear reads all that a node tells and notes the transactions that it sends or announces.
func (p *txPeer) hear(t *testing.T) *rumours {
	r := &rumours{hashes: make(map[common.Hash]bool), changed: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			id, data, err := p.ch.Read(t.Context())
			if err != nil {
				return
			}
			switch id {
			case eth.TransactionsMsg:
				var txs types.Transactions
				err = rlp.DecodeBytes(data, &txs)
				for _, tx := range txs {
					r.add(tx.Hash())
				}
			case eth.NewPooledTransactionHashesMsg:
				var packet eth.NewPooledTransactionHashesPacket72
				err = rlp.DecodeBytes(data, &packet)
				r.add(packet.Hashes...)
			}
			if err != nil {
				t.Errorf("message %#x: %v", id, err)
				return
			}
		}
	}()
	t.Cleanup(func() { <-done })
	return r
}

// rumours are the transactions that a peer heard of.
type rumours struct {
	mu      sync.Mutex
	hashes  map[common.Hash]bool
	changed chan struct{} // closed at the next one
}

func (r *rumours) add(hashes ...common.Hash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, hash := range hashes {
		r.hashes[hash] = true
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// await waits until a transaction was heard of.
func (r *rumours) await(ctx context.Context, hash common.Hash) error {
	for {
		r.mu.Lock()
		known, changed := r.hashes[hash], r.changed
		r.mu.Unlock()
		if known {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// poolPoll is how often we look into geth's pool: there is no way to be told over HTTP.
const poolPoll = 10 * time.Millisecond

// expectPooled waits until geth's pool has a transaction.
func expectPooled(t *testing.T, api *rpc.Client, hash common.Hash) {
	t.Helper()
	ctx := step(t)
	for {
		if tx := pooled(t, api, hash); tx != nil {
			return
		}
		select {
		case <-time.After(poolPoll):
		case <-ctx.Done():
			t.Fatalf("transaction %v does not reach the pool", hash)
		}
	}
}

// pooled asks geth's pool for a transaction, beside our connection. It returns nil if there is
// none.
func pooled(t *testing.T, api *rpc.Client, hash common.Hash) *types.Transaction {
	t.Helper()
	var data string
	awaitIndex(t, func(ctx context.Context) error {
		return api.CallContext(ctx, &data, "eth_getRawTransactionByHash", hash)
	})
	if raw := common.FromHex(data); len(raw) > 0 {
		tx := new(types.Transaction)
		if err := tx.UnmarshalBinary(raw); err != nil || tx.Hash() != hash {
			t.Fatal(errors.Join(err, fmt.Errorf("transaction %v instead of %v", tx.Hash(), hash)))
		}
		return tx
	}
	return nil
}

// awaitIndex calls geth's API until it can answer: as long as it has not finished its index of the
// chain, it does not say that there is no such transaction.
func awaitIndex(t *testing.T, call func(context.Context) error) {
	t.Helper()
	for ctx := step(t); ; {
		err := call(ctx)
		if err == nil {
			return
		}
		if err.Error() != "transaction indexing is in progress" {
			t.Fatal(err)
		}
		select {
		case <-time.After(poolPoll):
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}
