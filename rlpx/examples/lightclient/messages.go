package main

import (
	"encoding/hex"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

// Messages of eth that we know, by id. Of the others nothing is needed here.
const (
	statusMsg           = 0x00
	getBlockHeadersMsg  = 0x03
	blockHeadersMsg     = 0x04
	blockRangeUpdateMsg = 0x11 // from eth/69 on
)

// emptyAnswers are the answers to what a node may ask us for: for each request the id of the
// answer. Their form is that of headersAnswer.
var emptyAnswers = map[uint64]uint64{
	getBlockHeadersMsg: blockHeadersMsg,
	0x05:               0x06, // bodies
	0x09:               0x0a, // pooled transactions
	0x0f:               0x10, // receipts
}

// capabilities are the versions of eth that we speak. handle is called with the messages of either.
func capabilities(handle func(ch *p2p.Channel, id uint64, data []byte) error) p2p.Capabilities {
	const maxMessage = 10 << 20 // what go-ethereum takes
	return p2p.Capabilities{
		{Cap: p2p.Cap{Name: "eth", Version: 68}, Length: 17, Handle: handle, MaxMessageSize: maxMessage},
		{Cap: p2p.Cap{Name: "eth", Version: 69}, Length: 18, Handle: handle, MaxMessageSize: maxMessage},
	}
}

// Hash is the Keccak-256 of a header.
type Hash [32]byte

func (h Hash) String() string { return "0x" + hex.EncodeToString(h[:]) }

// ForkID says which forks of the network a node knows (EIP-2124).
type ForkID struct {
	Checksum [4]byte
	Next     uint64
}

// Status is what both versions tell of a node.
type Status struct {
	Version  uint64 // of eth
	Network  uint64
	Genesis  Hash
	ForkID   ForkID
	Latest   uint64 // the number of the newest block; 0 before eth/69, which does not tell
	HeadHash Hash   // of that block
}

// status68 and status69 are how Status goes over the wire.
type (
	status68 struct {
		Version, Network uint64
		TotalDifficulty  *big.Int
		HeadHash         Hash
		Genesis          Hash
		ForkID           ForkID
	}
	status69 struct {
		Version, Network uint64
		Genesis          Hash
		ForkID           ForkID
		Earliest, Latest uint64
		HeadHash         Hash
	}
	blockRange struct { // the end of status69, sent again when it has changed
		Earliest, Latest uint64
		HeadHash         Hash
	}
)

// wire is the form of s in a version of eth.
func (s *Status) wire(version uint64) any {
	if version < 69 {
		return &status68{s.Version, s.Network, big.NewInt(1), s.HeadHash, s.Genesis, s.ForkID}
	}
	return &status69{s.Version, s.Network, s.Genesis, s.ForkID, 0, s.Latest, s.HeadHash}
}

func decodeStatus(version uint64, data []byte) (*Status, error) {
	if version < 69 {
		var w status68
		err := rlp.DecodeBytes(data, &w)
		return &Status{w.Version, w.Network, w.Genesis, w.ForkID, 0, w.HeadHash}, err
	}
	var w status69
	err := rlp.DecodeBytes(data, &w)
	return &Status{w.Version, w.Network, w.Genesis, w.ForkID, w.Latest, w.HeadHash}, err
}

// headersRequest asks for Count headers: that of Origin, which is a Hash or a uint64, and those
// after it.
type headersRequest struct {
	ID    uint64
	Query headersQuery
}

type headersQuery struct {
	Origin      any
	Count, Skip uint64
	Reverse     bool
}

// headersAnswer has the id of its request.
type headersAnswer struct {
	ID      uint64
	Headers []rlp.RawValue
}

// Header is what all forks have in a header, and what the later ones have added.
type Header struct {
	Parent, Uncles                  Hash
	Beneficiary                     [20]byte
	State, Transactions, Receipts   Hash
	Bloom                           [256]byte
	Difficulty                      *big.Int
	Number, GasLimit, GasUsed, Time uint64
	Extra                           []byte
	MixHash                         Hash
	Nonce                           [8]byte
	Later                           []rlp.RawValue `rlp:"tail"`

	hash Hash
}

// Hash is that of the header as it came.
func (h *Header) Hash() Hash { return h.hash }

func decodeHeader(raw []byte) (*Header, error) {
	h := &Header{}
	if err := rlp.DecodeBytes(raw, h); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	h.hash = Hash(crypto.Keccak256(raw))
	return h, nil
}
