package interop

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

// ask sends a request and waits for the answer to it. What else comes in between is left aside.
func ask(ctx context.Context, ch *p2p.Channel, id uint64, request any, answerID uint64, answer any) error {
	data, err := rlp.EncodeToBytes(request)
	if err != nil {
		return err
	}
	if err := ch.Write(id, data); err != nil {
		return fmt.Errorf("sending message %#x of %s: %w", id, ch.Shared().Cap, err)
	}
	for {
		got, data, err := ch.Read(ctx)
		if err != nil {
			return fmt.Errorf("waiting for message %#x of %s: %w", answerID, ch.Shared().Cap, err)
		}
		if got != answerID {
			continue
		}
		if err := rlp.DecodeBytes(data, answer); err != nil {
			return fmt.Errorf("message %#x of %s: %w", answerID, ch.Shared().Cap, err)
		}
		return nil
	}
}

// listAnswer is the form of most answers of eth.
type listAnswer struct {
	RequestID uint64
	List      []rlp.RawValue
}

// check reports what is wrong with an answer to a request for a number of things.
func (a *listAnswer) check(requestID uint64, asked int) error {
	if a.RequestID != requestID {
		return fmt.Errorf("the answer to request %d has id %d", requestID, a.RequestID)
	}
	if n := len(a.List); n == 0 || n > asked {
		return fmt.Errorf("asked for %d, got %d", asked, n)
	}
	return nil
}

// Each is asked for so many at a time, so that it takes several requests.
const (
	headersAtOnce  = 192
	bodiesAtOnce   = 128
	receiptsAtOnce = 64
)

// fetchHeaders fetches all headers and checks that their hashes are a chain from the genesis block
// to the head.
func (p *ethPeer) fetchHeaders(ctx context.Context) ([]*types.Header, error) {
	var headers []*types.Header
	var last common.Hash // what the next header must have as its parent
	for last != p.head.Hash() {
		request := &eth.GetBlockHeadersRequest{Origin: eth.HashOrNumber{Number: uint64(len(headers))}, Amount: headersAtOnce}
		id := uint64(1000 + len(headers))
		var answer listAnswer
		err := ask(ctx, p.ch, eth.GetBlockHeadersMsg, &eth.GetBlockHeadersPacket{RequestId: id, GetBlockHeadersRequest: request},
			eth.BlockHeadersMsg, &answer)
		if err != nil {
			return nil, err
		}
		if err := answer.check(id, headersAtOnce); err != nil {
			return nil, fmt.Errorf("headers from %d on: %w", len(headers), err)
		}
		for _, raw := range answer.List {
			header, number := new(types.Header), uint64(len(headers))
			if err := rlp.DecodeBytes(raw, header); err != nil {
				return nil, fmt.Errorf("header %d: %w", number, err)
			}
			if header.Number.Uint64() != number || header.ParentHash != last {
				return nil, fmt.Errorf("header %d has number %v and parent %v, want parent %v", number, header.Number, header.ParentHash, last)
			}
			last = crypto.Keccak256Hash(raw)
			if number == 0 && last != p.genesis.Hash() {
				return nil, fmt.Errorf("genesis header with hash %v", last)
			}
			headers = append(headers, header)
		}
	}
	return headers, nil
}

// fetchBodies fetches the bodies of blocks and checks them against the headers.
func (p *ethPeer) fetchBodies(ctx context.Context, headers []*types.Header) ([]*types.Body, error) {
	var bodies []*types.Body
	for len(bodies) < len(headers) {
		wanted := headers[len(bodies):min(len(bodies)+bodiesAtOnce, len(headers))]
		id := uint64(2000 + len(bodies))
		var answer listAnswer
		err := ask(ctx, p.ch, eth.GetBlockBodiesMsg, &eth.GetBlockBodiesPacket{RequestId: id, GetBlockBodiesRequest: hashes(wanted)},
			eth.BlockBodiesMsg, &answer)
		if err != nil {
			return nil, err
		}
		if err := answer.check(id, len(wanted)); err != nil {
			return nil, fmt.Errorf("bodies from %d on: %w", len(bodies), err)
		}
		for i, raw := range answer.List {
			header, body := wanted[i], new(types.Body)
			if err := rlp.DecodeBytes(raw, body); err != nil {
				return nil, fmt.Errorf("body %v: %w", header.Number, err)
			}
			if root := types.DeriveSha(types.Transactions(body.Transactions), trie.NewListHasher()); root != header.TxHash {
				return nil, fmt.Errorf("body %v: transaction root %v, want %v", header.Number, root, header.TxHash)
			}
			if hash := types.CalcUncleHash(body.Uncles); hash != header.UncleHash {
				return nil, fmt.Errorf("body %v: uncle hash %v, want %v", header.Number, hash, header.UncleHash)
			}
			if header.WithdrawalsHash != nil {
				root := types.DeriveSha(types.Withdrawals(body.Withdrawals), trie.NewListHasher())
				if body.Withdrawals == nil || root != *header.WithdrawalsHash {
					return nil, fmt.Errorf("body %v: withdrawal root %v, want %v", header.Number, root, header.WithdrawalsHash)
				}
			}
			bodies = append(bodies, body)
		}
	}
	return bodies, nil
}

// wireReceipt is a receipt as eth/69 and later send it: without the bloom filter, which follows
// from the logs.
type wireReceipt struct {
	Type   uint8
	Status []byte
	Gas    uint64
	Logs   []*types.Log
}

// decodeReceipts decodes the receipts of one block.
func decodeReceipts(raw []byte) (types.Receipts, error) {
	var list []wireReceipt
	if err := rlp.DecodeBytes(raw, &list); err != nil {
		return nil, err
	}
	var receipts types.Receipts
	for _, w := range list {
		r := &types.Receipt{Type: w.Type, CumulativeGasUsed: w.Gas, Logs: w.Logs}
		if bytes.Equal(w.Status, []byte{1}) {
			r.Status = types.ReceiptStatusSuccessful
		} else if len(w.Status) > 0 {
			return nil, fmt.Errorf("status %x", w.Status)
		}
		r.Bloom = types.CreateBloom(r)
		receipts = append(receipts, r)
	}
	return receipts, nil
}

// askReceipts asks for the receipts of blocks, those of the first one from an index on, which is
// only known to eth/70 and later.
func (p *ethPeer) askReceipts(ctx context.Context, wanted []*types.Header, first uint64) ([]types.Receipts, error) {
	const requestID = 3000
	var answer listAnswer
	if p.version < eth.ETH70 {
		request := &eth.GetReceiptsPacket69{RequestId: requestID, GetReceiptsRequest: hashes(wanted)}
		if err := ask(ctx, p.ch, eth.GetReceiptsMsg, request, eth.ReceiptsMsg, &answer); err != nil {
			return nil, err
		}
	} else {
		request := &eth.GetReceiptsPacket70{RequestId: requestID, FirstBlockReceiptIndex: first, GetReceiptsRequest: hashes(wanted)}
		var answer70 struct {
			RequestID  uint64
			Incomplete bool // the last block
			List       []rlp.RawValue
		}
		if err := ask(ctx, p.ch, eth.GetReceiptsMsg, request, eth.ReceiptsMsg, &answer70); err != nil {
			return nil, err
		}
		if answer70.Incomplete {
			return nil, fmt.Errorf("receipts from block %v on: the last block is not complete", wanted[0].Number)
		}
		answer = listAnswer{answer70.RequestID, answer70.List}
	}
	if err := answer.check(requestID, len(wanted)); err != nil {
		return nil, fmt.Errorf("receipts from block %v on: %w", wanted[0].Number, err)
	}
	var receipts []types.Receipts
	for i, raw := range answer.List {
		r, err := decodeReceipts(raw)
		if err != nil {
			return nil, fmt.Errorf("receipts of block %v: %w", wanted[i].Number, err)
		}
		receipts = append(receipts, r)
	}
	return receipts, nil
}

// fetchReceipts fetches the receipts of blocks and checks them against the headers.
func (p *ethPeer) fetchReceipts(ctx context.Context, headers []*types.Header) ([]types.Receipts, error) {
	var receipts []types.Receipts
	for len(receipts) < len(headers) {
		wanted := headers[len(receipts):min(len(receipts)+receiptsAtOnce, len(headers))]
		got, err := p.askReceipts(ctx, wanted, 0)
		if err != nil {
			return nil, err
		}
		for i, r := range got {
			if root := types.DeriveSha(r, trie.NewListHasher()); root != wanted[i].ReceiptHash {
				return nil, fmt.Errorf("block %v: receipt root %v, want %v", wanted[i].Number, root, wanted[i].ReceiptHash)
			}
		}
		receipts = append(receipts, got...)
	}
	return receipts, nil
}

func hashes(headers []*types.Header) []common.Hash {
	var hashes []common.Hash
	for _, header := range headers {
		hashes = append(hashes, header.Hash())
	}
	return hashes
}

// TestGethChain fetches a whole chain from geth over each version of eth, both as the side that
// dialed and as the one that was.
func TestGethChain(t *testing.T) {
	c := testChain()
	listeners := make(map[uint64]*listener)
	var urls []string
	for version := range ethLengths {
		listeners[version] = listen(t)
		urls = append(urls, listeners[version].url)
	}
	n := startGeth(t, gethConfig{chain: c, staticNodes: urls})

	// geth waits five seconds for a Status, so all that it dials are served at once.
	peers := map[role]map[uint64]*ethPeer{weServe: {}, weDial: {}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for version := range ethLengths {
		wg.Go(func() {
			p, err := listeners[version].join(t, ethCapabilities(version), c.head())
			if err != nil {
				t.Errorf("%s, eth/%d: %v", weServe, version, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			peers[weServe][version] = p
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for version := range ethLengths {
		peers[weDial][version] = join(t, n, ethCapabilities(version), c.head())
	}
	for who, peers := range peers {
		for version, peer := range peers {
			t.Run(fmt.Sprintf("%s/eth=%d", who, version), func(t *testing.T) {
				bodies := expectChain(t, peer, c)
				size := len(encode(t, bodies[crowdedBlock]))
				seen(t, gethRow(t, geth, who, p2p.Version), sizesColumn, fmt.Sprintf("a block of %d KiB received", size>>10))
			})
		}
	}
}

// expectChain fetches a chain and returns its bodies. That it is right follows from the hashes in
// Status; that there is something in it, from the chain as it was made.
func expectChain(t *testing.T, p *ethPeer, c *chain) []*types.Body {
	t.Helper()
	ctx := step(t)
	headers, err := p.fetchHeaders(ctx)
	if err != nil {
		t.Fatal(err)
	}
	bodies, err := p.fetchBodies(ctx, headers)
	if err != nil {
		t.Fatal(err)
	}
	receipts, err := p.fetchReceipts(ctx, headers)
	if err != nil {
		t.Fatal(err)
	}
	var transactions, withdrawals, logs, failures int
	for i, body := range bodies {
		transactions += len(body.Transactions)
		withdrawals += len(body.Withdrawals)
		if len(receipts[i]) != len(body.Transactions) {
			t.Errorf("block %d: %d transactions, %d receipts", i, len(body.Transactions), len(receipts[i]))
		}
		for _, r := range receipts[i] {
			logs += len(r.Logs)
			if r.Status == types.ReceiptStatusFailed {
				failures++
			}
		}
	}
	if len(headers) != chainLength+1 || transactions != int(c.sent) || logs < 90 || failures < 40 || withdrawals < 400 {
		t.Errorf("%d headers, %d transactions, %d logs, %d failures, %d withdrawals",
			len(headers), transactions, logs, failures, withdrawals)
	}

	if p.version >= eth.ETH70 {
		const first = crowd - 17
		tail, err := p.askReceipts(ctx, headers[crowdedBlock:crowdedBlock+1], first)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := encode(t, tail[0]), encode(t, receipts[crowdedBlock][first:]); !bytes.Equal(got, want) {
			t.Errorf("%d receipts from number %d on, want the last %d of the block", len(tail[0]), first, crowd-first)
		}
	}
	if p.version >= eth.ETH71 {
		// There are no access lists of blocks before Amsterdam, which an empty string each says.
		var answer listAnswer
		request := &eth.GetBlockAccessListsPacket{RequestId: 4000, GetBlockAccessListsRequest: hashes(headers[:2])}
		if err := ask(ctx, p.ch, eth.GetBlockAccessListsMsg, request, eth.BlockAccessListsMsg, &answer); err != nil {
			t.Fatal(err)
		}
		if got, want := encode(t, answer), encode(t, listAnswer{4000, []rlp.RawValue{{0x80}, {0x80}}}); !bytes.Equal(got, want) {
			t.Errorf("access lists of two blocks: %x", got)
		}
	}
	return bodies
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	data, err := rlp.EncodeToBytes(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
