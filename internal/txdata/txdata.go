// Package txdata makes message data like what nodes send each other most: lists of signed
// transactions. Benchmarks that compress need it, since what snappy costs and saves depends on the
// data.
package txdata

import (
	"math/rand/v2"

	"github.com/ethereum/go-ethereum/rlp"
)

// transaction is one of type 2 (EIP-1559), as it is on the wire after its type byte.
type transaction struct {
	ChainID    uint64
	Nonce      uint64
	TipCap     uint64 // in wei, as is FeeCap
	FeeCap     uint64
	Gas        uint64
	To         [20]byte
	Value      uint64
	Data       []byte
	AccessList []struct{}
	V          uint64
	R, S       [32]byte
}

const (
	chainID = 1
	gwei    = 1_000_000_000

	word      = 32 // bytes of an argument in call data
	contracts = 100
)

// Make returns size bytes of a list of transactions, which are the same each time. The last one is
// cut. Snappy compresses 16 KiB and more of it to some 0.63 of its size, which a test holds.
//
// A quarter of the transactions moves ether, a quarter calls a token's transfer, and the rest call
// contracts with 4 to 12 arguments. Keys, signatures and most amounts are random bytes. Contracts
// and methods recur, some much more often than others, and arguments begin with zeros.
func Make(size int) []byte {
	m := &maker{Rand: rand.New(rand.NewChaCha8([32]byte{1}))}
	for i := range m.contracts {
		m.fill(m.contracts[i][:])
	}
	data := make([]byte, 0, size+1<<10)
	for len(data) < size {
		raw, err := rlp.EncodeToBytes(m.transaction())
		if err == nil {
			raw, err = rlp.EncodeToBytes(append([]byte{2}, raw...))
		}
		if err != nil {
			panic(err) // nothing in it cannot be encoded
		}
		data = append(data, raw...)
	}
	return data[:size:size]
}

type maker struct {
	*rand.Rand
	contracts [contracts][20]byte
}

func (m *maker) fill(b []byte) {
	for i := range b {
		b[i] = byte(m.Uint32())
	}
}

func (m *maker) transaction() *transaction {
	tx := &transaction{
		ChainID: chainID,
		Nonce:   m.Uint64N(1 << m.Uint64N(16)),
		TipCap:  gwei / 10 * (1 + m.Uint64N(20)), // people choose round tips, and programs exact limits
		FeeCap:  20*gwei + m.Uint64N(20*gwei),
		V:       m.Uint64N(2),
	}
	m.fill(tx.R[:])
	m.fill(tx.S[:])
	switch m.IntN(4) {
	case 0: // ether
		tx.Gas = 21_000
		m.fill(tx.To[:])
		tx.Value = m.Uint64N(10 * gwei * gwei)
	case 1: // transfer(address,uint256)
		tx.Gas = 60_000 + m.Uint64N(10_000)
		tx.To = m.contract()
		tx.Data = append(tx.Data, 0xa9, 0x05, 0x9c, 0xbb)
		tx.Data = m.address(tx.Data)
		tx.Data = m.number(tx.Data)
	default:
		tx.Gas = 100_000 + m.Uint64N(400_000)
		tx.To = m.contract()
		tx.Data = append(tx.Data, tx.To[:4]...) // a method of that contract
		for range 4 + m.IntN(9) {
			switch m.IntN(10) {
			case 0, 1, 2:
				tx.Data = m.address(tx.Data)
			case 3, 4, 5: // an offset or a length
				tx.Data = append(tx.Data, make([]byte, word-1)...)
				tx.Data = append(tx.Data, byte(word*m.IntN(8)))
			case 6, 7, 8:
				tx.Data = m.number(tx.Data)
			default: // a hash, or part of a signature
				at := len(tx.Data)
				tx.Data = append(tx.Data, make([]byte, word)...)
				m.fill(tx.Data[at:])
			}
		}
	}
	return tx
}

// contract picks one: half of the calls are to the first few.
func (m *maker) contract() [20]byte {
	return m.contracts[m.IntN(1+m.IntN(1+m.IntN(contracts)))]
}

// address appends an argument that is an address, a contract's or somebody's.
func (m *maker) address(data []byte) []byte {
	data = append(data, make([]byte, word-20)...)
	if m.IntN(2) == 0 {
		c := m.contract()
		return append(data, c[:]...)
	}
	at := len(data)
	data = append(data, make([]byte, 20)...)
	m.fill(data[at:])
	return data
}

// number appends an argument that is an amount, of 4 to 10 bytes.
func (m *maker) number(data []byte) []byte {
	n := 4 + m.IntN(7)
	data = append(data, make([]byte, word-n)...)
	at := len(data)
	data = append(data, make([]byte, n)...)
	m.fill(data[at:])
	return data
}
