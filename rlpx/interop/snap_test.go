package interop

import (
	"bytes"
	"context"
	"fmt"
	"math/big"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/eth/protocols/snap"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/ethereum/go-ethereum/trie/trienode"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

// snapLengths are the message ids of each version of snap that geth offers. While it still
// has to sync itself, it offers only the first.
var snapLengths = map[uint64]uint64{snap.SNAP1: 8, snap.SNAP2: 10}

// rangeBytes is how much we ask for at a time, so that the accounts take many answers and the slots
// several.
const rangeBytes = 2 << 10

// TestGethSnap fetches the state after the last block from geth over each version of snap.
func TestGethSnap(t *testing.T) {
	n := startGeth(t, gethConfig{chain: testChain()})
	for version, length := range snapLengths {
		t.Run(fmt.Sprintf("snap=%d", version), func(t *testing.T) {
			caps := p2p.Capabilities{
				{Cap: p2p.Cap{Name: "eth", Version: eth.ETH69}, Length: ethLengths[eth.ETH69]},
				{Cap: p2p.Cap{Name: "snap", Version: version}, Length: length},
			}
			session := join(t, n, caps, testChain().head()).ch.Session()
			ch := session.Capability("snap")
			if ch == nil || ch.Shared().Version != version {
				t.Fatalf("snap/%d is not shared with %v", version, session.Remote())
			}
			expectState(t, &snapPeer{ch: ch, root: testChain().head().Root()})
		})
	}
}

// expectState fetches accounts, storage and code, each against its hash.
func expectState(t *testing.T, p *snapPeer) {
	t.Helper()
	c, ctx := testChain(), step(t)
	accounts, err := p.accounts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// All who were sent something, the one who sent it, the contract and the recipient of fees.
	if got, want := len(accounts), len(c.balances)+3; got != want {
		t.Errorf("%d accounts, want %d", got, want)
	}
	for address, wei := range c.balances {
		account := accounts[crypto.Keccak256Hash(address[:])]
		if account == nil || account.Balance.ToBig().Cmp(wei) != 0 {
			t.Fatalf("account %v is %+v, want a balance of %v", address, account, wei)
		}
	}
	sender := crypto.PubkeyToAddress(fundedKey.PublicKey)
	if account := accounts[crypto.Keccak256Hash(sender[:])]; account == nil || account.Nonce != c.sent {
		t.Errorf("the sender is %+v, want nonce %d", account, c.sent)
	}
	contract := crypto.Keccak256Hash(c.contract[:])
	account := accounts[contract]
	if account == nil {
		t.Fatal("no contract")
	}

	for _, bytes := range []uint64{1 << 20, rangeBytes} {
		slots, err := p.slots(ctx, contract, account.Root, bytes)
		if err != nil {
			t.Fatal(err)
		}
		if len(slots) != len(c.slots) {
			t.Errorf("%d slots, want %d", len(slots), len(c.slots))
		}
		for slot, value := range c.slots {
			if want := encode(t, value.Big()); string(slots[slot]) != string(want) {
				t.Fatalf("slot %v is %x, want %x", slot, slots[slot], want)
			}
		}
	}

	codes, err := p.codes(ctx, common.BytesToHash(account.CodeHash), common.Hash{1})
	if err != nil {
		t.Fatal(err)
	}
	if len(codes) != 1 || !bytes.Equal(codes[0], contractCode) {
		t.Errorf("codes %x, want %x", codes, contractCode)
	}

	unknown := &snapPeer{ch: p.ch, root: common.Hash{1}}
	if answer, err := unknown.accountRange(ctx, common.Hash{}); err != nil || len(answer.Accounts)+len(answer.Proof) > 0 {
		t.Errorf("a state that it does not have: %+v, error %v", answer, err)
	}
}

// snapPeer asks a node for what the state with a given root contains.
type snapPeer struct {
	ch   *p2p.Channel
	root common.Hash
	id   uint64 // of the last request
}

func (p *snapPeer) accountRange(ctx context.Context, origin common.Hash) (*snap.AccountRangePacket, error) {
	p.id++
	request := &snap.GetAccountRangePacket{ID: p.id, Root: p.root, Origin: origin, Limit: common.MaxHash, Bytes: rangeBytes}
	answer := new(snap.AccountRangePacket)
	err := ask(ctx, p.ch, snap.GetAccountRangeMsg, request, snap.AccountRangeMsg, answer)
	if err == nil && answer.ID != p.id {
		err = fmt.Errorf("the answer to request %d has id %d", p.id, answer.ID)
	}
	return answer, err
}

// accounts fetches all accounts, with proofs that there are no others.
func (p *snapPeer) accounts(ctx context.Context) (map[common.Hash]*types.StateAccount, error) {
	accounts := make(map[common.Hash]*types.StateAccount)
	for origin, more := (common.Hash{}), true; more; {
		answer, err := p.accountRange(ctx, origin)
		if err != nil {
			return nil, err
		}
		hashes, values, err := answer.Unpack()
		if err != nil {
			return nil, err
		}
		if more, err = verifyRange(p.root, origin, hashes, values, answer.Proof); err != nil {
			return nil, fmt.Errorf("%d accounts from %v on: %w", len(hashes), origin, err)
		}
		for i, hash := range hashes {
			if accounts[hash], err = types.FullAccount(answer.Accounts[i].Body); err != nil {
				return nil, err
			}
		}
		origin = after(hashes[len(hashes)-1])
	}
	return accounts, nil
}

// slots fetches the storage of an account, with proofs that there is no more.
func (p *snapPeer) slots(ctx context.Context, account, root common.Hash, limit uint64) (map[common.Hash][]byte, error) {
	slots := make(map[common.Hash][]byte)
	for origin, more := (common.Hash{}), true; more; {
		p.id++
		request := &snap.GetStorageRangesPacket{
			ID: p.id, Root: p.root, Accounts: []common.Hash{account}, Origin: origin[:], Limit: common.MaxHash[:], Bytes: limit,
		}
		answer := new(snap.StorageRangesPacket)
		if err := ask(ctx, p.ch, snap.GetStorageRangesMsg, request, snap.StorageRangesMsg, answer); err != nil {
			return nil, err
		}
		if answer.ID != p.id || len(answer.Slots) != 1 {
			return nil, fmt.Errorf("the answer to request %d has id %d and %d lists", p.id, answer.ID, len(answer.Slots))
		}
		hashes, values := answer.Unpack()
		var err error
		if more, err = verifyRange(root, origin, hashes[0], values[0], answer.Proof); err != nil {
			return nil, fmt.Errorf("%d slots from %v on: %w", len(hashes[0]), origin, err)
		}
		for i, hash := range hashes[0] {
			slots[hash] = values[0][i]
		}
		origin = after(hashes[0][len(hashes[0])-1])
	}
	return slots, nil
}

// codes fetches code by hash. What the node does not have is not in the result.
func (p *snapPeer) codes(ctx context.Context, hashes ...common.Hash) ([][]byte, error) {
	p.id++
	request := &snap.GetByteCodesPacket{ID: p.id, Hashes: hashes, Bytes: 1 << 20}
	var answer snap.ByteCodesPacket
	if err := ask(ctx, p.ch, snap.GetByteCodesMsg, request, snap.ByteCodesMsg, &answer); err != nil {
		return nil, err
	}
	if answer.ID != p.id {
		return nil, fmt.Errorf("the answer to request %d has id %d", p.id, answer.ID)
	}
	for _, code := range answer.Codes {
		if hash := crypto.Keccak256Hash(code); !slices.Contains(hashes, hash) {
			return nil, fmt.Errorf("code with hash %v, which nobody asked for", hash)
		}
	}
	return answer.Codes, nil
}

// verifyRange checks that the trie with a root has the given leaves from origin on and none in
// between, and reports whether there are more to the right. Without a proof, they must be all.
func verifyRange(root, origin common.Hash, hashes []common.Hash, values, proof [][]byte) (more bool, err error) {
	if len(hashes) == 0 {
		return false, fmt.Errorf("empty range, %d nodes of proof", len(proof))
	}
	var keys [][]byte
	for _, hash := range hashes {
		keys = append(keys, hash[:])
	}
	if len(proof) == 0 {
		return trie.VerifyRangeProof(root, nil, keys, values, nil)
	}
	var nodes trienode.ProofList
	for _, node := range proof {
		nodes = append(nodes, rlp.RawValue(node))
	}
	return trie.VerifyRangeProof(root, origin[:], keys, values, nodes.Set())
}

// after is the hash that follows another one.
func after(hash common.Hash) common.Hash {
	return common.BigToHash(new(big.Int).Add(hash.Big(), common.Big1))
}
