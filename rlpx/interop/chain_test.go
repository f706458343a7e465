package interop

import (
	"math/big"
	"math/rand/v2"
	"os"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/consensus/beacon"
	"github.com/ethereum/go-ethereum/consensus/ethash"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rlp"
)

const (
	// chainLength is the number of blocks after the genesis block.
	chainLength = 300

	// crowdedBlock is the number of a block whose body takes many frames of the usual size.
	crowdedBlock = 150
	crowd        = 800 // transactions in it
)

// fundedKey is the key of the account that owns everything in the genesis block. It is no secret:
// go-ethereum's own tests use it.
var fundedKey, _ = crypto.HexToECDSA("b71c71a67e1177ad4e901695e1b4b9ee17ae16c6668d313eac2f96dbcda3f291")

// chain is one that go-ethereum's chain maker made, and what is known of the state after it.
type chain struct {
	blocks   []*types.Block              // by number
	sent     uint64                      // transactions of the funded account
	balances map[common.Address]*big.Int // in wei, of all who were sent something
	contract common.Address              // see contractCode
	slots    map[common.Hash]common.Hash // of the contract

	ballast int // bytes in each block

	once     sync.Once // for imported
	database string
	err      error
}

func (c *chain) head() *types.Block { return c.blocks[len(c.blocks)-1] }

// testChain makes the chain, which is the same in every run.
var testChain = sync.OnceValue(func() *chain { return makeChain(chainLength, 0) })

// makeChain makes a chain of some length. Each of its blocks carries a number of bytes that nobody
// can compress, beside what is in it otherwise.
func makeChain(length, ballast int) *chain {
	c := &chain{
		ballast:  ballast,
		blocks:   []*types.Block{genesis().ToBlock()},
		balances: make(map[common.Address]*big.Int),
		slots:    make(map[common.Hash]common.Hash),
	}
	_, blocks, _ := core.GenerateChainWithGenesis(genesis(), beacon.New(ethash.NewFaker()), length, c.fill)
	c.blocks = append(c.blocks, blocks...)
	return c
}

// fill decides what is in a block. There are empty ones and a crowded one, transactions of three
// types that transfer, create the contract, call it and fail, logs, and withdrawals.
func (c *chain) fill(i int, block *core.BlockGen) {
	if c.ballast > 0 {
		data := make([]byte, c.ballast)
		rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)}).Read(data)
		block.AddTx(types.MustSignNewTx(fundedKey, types.LatestSignerForChainID(big.NewInt(chainID)), &types.LegacyTx{
			Nonce: c.sent, GasPrice: block.BaseFee(), Gas: params.TxGas + params.TxDataNonZeroGasEIP2028*uint64(len(data)),
			To: &common.Address{0xcc}, Value: new(big.Int), Data: data,
		}))
		c.sent++
	}
	switch {
	case i+1 == crowdedBlock:
		for range crowd {
			c.transfer(block)
		}
	case i == 0:
		c.contract = crypto.CreateAddress(crypto.PubkeyToAddress(fundedKey.PublicKey), c.sent)
		c.add(block, nil, nil, creationCode())
	default:
		for range i % 4 {
			c.transfer(block)
		}
		if i%3 == 0 {
			slot, value := common.BigToHash(big.NewInt(int64(i%150))), common.BigToHash(big.NewInt(int64(i)<<32))
			c.slots[crypto.Keccak256Hash(slot[:])] = value
			c.add(block, &c.contract, nil, append(slot[:], value[:]...))
		}
		if i%7 == 0 {
			c.add(block, &c.contract, nil, nil) // fails
		}
	}
	if i%5 == 0 {
		for range 1 + i%16 {
			to, gwei := c.recipient(), uint64(i+1)
			block.AddWithdrawal(&types.Withdrawal{Validator: uint64(i), Address: to, Amount: gwei})
			c.credit(to, new(big.Int).Mul(new(big.Int).SetUint64(gwei), big.NewInt(params.GWei)))
		}
	}
}

// recipient returns an address that was sent nothing before.
func (c *chain) recipient() common.Address {
	return common.BigToAddress(big.NewInt(int64(1_000_000 + len(c.balances))))
}

func (c *chain) credit(to common.Address, wei *big.Int) { c.balances[to] = wei }

func (c *chain) transfer(block *core.BlockGen) {
	to, wei := c.recipient(), big.NewInt(int64(1+c.sent))
	c.add(block, &to, wei, nil)
	c.credit(to, wei)
}

// add adds a transaction of the funded account. The types take turns.
func (c *chain) add(block *core.BlockGen, to *common.Address, wei *big.Int, data []byte) {
	block.AddTx(newTransaction(c.sent, to, wei, data))
	c.sent++
}

// newTransaction makes a transaction of the funded account. Its type depends on the nonce.
func newTransaction(nonce uint64, to *common.Address, wei *big.Int, data []byte) *types.Transaction {
	const gas = 200_000
	fee := big.NewInt(2 * params.GWei)
	var tx types.TxData
	switch nonce % 3 {
	case 0:
		tx = &types.LegacyTx{Nonce: nonce, GasPrice: fee, Gas: gas, To: to, Value: wei, Data: data}
	case 1:
		list := types.AccessList{{Address: common.Address{1}, StorageKeys: []common.Hash{{2}}}}
		tx = &types.AccessListTx{Nonce: nonce, GasPrice: fee, Gas: gas, To: to, Value: wei, Data: data, AccessList: list}
	case 2:
		tx = &types.DynamicFeeTx{Nonce: nonce, GasTipCap: fee, GasFeeCap: fee, Gas: gas, To: to, Value: wei, Data: data}
	}
	return types.MustSignNewTx(fundedKey, types.LatestSignerForChainID(big.NewInt(chainID)), tx)
}

// contractCode stores the second word of its input in the slot that the first word names, and
// logs it. Without input, it reverts.
var contractCode = []byte{
	byte(vm.CALLDATASIZE), byte(vm.PUSH1), 7, byte(vm.JUMPI),
	byte(vm.PUSH0), byte(vm.PUSH0), byte(vm.REVERT),
	byte(vm.JUMPDEST),
	byte(vm.PUSH1), 32, byte(vm.CALLDATALOAD), byte(vm.PUSH0), byte(vm.MSTORE),
	byte(vm.CALLER), byte(vm.PUSH0), byte(vm.CALLDATALOAD), byte(vm.PUSH1), 32, byte(vm.PUSH0), byte(vm.LOG2),
	byte(vm.PUSH1), 32, byte(vm.CALLDATALOAD), byte(vm.PUSH0), byte(vm.CALLDATALOAD), byte(vm.SSTORE),
	byte(vm.STOP),
}

// creationCode is the code of the transaction that creates the contract: it returns what follows
// it.
func creationCode() []byte {
	size := byte(len(contractCode))
	return append([]byte{
		byte(vm.PUSH1), size, byte(vm.PUSH1), 10, byte(vm.PUSH0), byte(vm.CODECOPY),
		byte(vm.PUSH1), size, byte(vm.PUSH0), byte(vm.RETURN),
	}, contractCode...)
}

// export writes the blocks after the genesis block in the form that geth imports.
func (c *chain) export(name string) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	for _, block := range c.blocks[1:] {
		if err := rlp.Encode(file, block); err != nil {
			file.Close()
			return err
		}
	}
	return file.Close()
}
