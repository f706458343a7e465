package decode

import "github.com/go-rlpx/transport/rlpx/p2p"

// baseNames are the messages of the base protocol. The other codes are reserved.
var baseNames = [p2p.BaseLength]string{"Hello", "Disconnect", "Ping", "Pong"}

// ethNames are the messages of eth, by id: those of ethereum/devp2p, caps/eth.md, and of
// go-ethereum v1.17.10 for what is newer. No id has two meanings in the versions that are in use.
var ethNames = map[uint64]string{
	0x00: "Status",
	0x01: "NewBlockHashes",
	0x02: "Transactions",
	0x03: "GetBlockHeaders",
	0x04: "BlockHeaders",
	0x05: "GetBlockBodies",
	0x06: "BlockBodies",
	0x07: "NewBlock",
	0x08: "NewPooledTransactionHashes",
	0x09: "GetPooledTransactions",
	0x0a: "PooledTransactions",
	0x0d: "GetNodeData",
	0x0e: "NodeData",
	0x0f: "GetReceipts",
	0x10: "Receipts",
	0x11: "BlockRangeUpdate",
	0x12: "GetBlockAccessLists",
	0x13: "BlockAccessLists",
	0x14: "GetCells",
	0x15: "Cells",
}

// snapNames are the messages of snap, by id (ethereum/devp2p, caps/snap.md, and
// go-ethereum v1.17.10 for snap/2).
var snapNames = map[uint64]string{
	0x00: "GetAccountRange",
	0x01: "AccountRange",
	0x02: "GetStorageRanges",
	0x03: "StorageRanges",
	0x04: "GetByteCodes",
	0x05: "ByteCodes",
	0x06: "GetTrieNodes",
	0x07: "TrieNodes",
	0x08: "GetAccessLists",
	0x09: "AccessLists",
}

// messageName returns the name of a message of a public capability, or "".
func messageName(c p2p.Cap, id uint64) string {
	switch c.Name {
	case "eth":
		return ethNames[id]
	case "snap":
		return snapNames[id]
	default:
		return ""
	}
}
