package interop

import (
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/node"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rpc"
)

// chainID is that of the test chain, and its network id.
const chainID = 19870

// genesis is the test chain's: proof of stake from the start, up to Shanghai.
func genesis() *core.Genesis {
	zero, shanghai := new(big.Int), uint64(0)
	return &core.Genesis{
		Config: &params.ChainConfig{
			ChainID:                 big.NewInt(chainID),
			HomesteadBlock:          zero,
			EIP150Block:             zero,
			EIP155Block:             zero,
			EIP158Block:             zero,
			ByzantiumBlock:          zero,
			ConstantinopleBlock:     zero,
			PetersburgBlock:         zero,
			IstanbulBlock:           zero,
			MuirGlacierBlock:        zero,
			BerlinBlock:             zero,
			LondonBlock:             zero,
			ArrowGlacierBlock:       zero,
			GrayGlacierBlock:        zero,
			MergeNetsplitBlock:      zero,
			ShanghaiTime:            &shanghai,
			TerminalTotalDifficulty: zero,
		},
		ExtraData:  []byte("rlpx interop"),
		GasLimit:   30_000_000,
		Difficulty: zero,
		Alloc: types.GenesisAlloc{
			common.HexToAddress("0x71562b71999873db5b286df957af199ec94617f7"): {Balance: big.NewInt(params.Ether)},
		},
	}
}

// gethNode is a geth process.
type gethNode struct {
	*process
	url  string           // enode
	addr string           // of its listener
	key  *ecdsa.PublicKey // of the node
	jwt  [32]byte         // secret of its engine API
}

type gethConfig struct {
	program     *program // nil: gethProgram
	maxPeers    int      // 0: 20
	staticNodes []string // enode URLs of nodes to dial
	chain       *chain   // to import; nil: nothing but the genesis block
}

// startGeth starts a geth node in a directory of its own, on ports that the system chooses.
func startGeth(t *testing.T, config gethConfig) *gethNode {
	t.Helper()
	if config.program == nil {
		config.program = &gethProgram
	}
	if config.maxPeers == 0 {
		config.maxPeers = 20
	}
	path := config.program.build(t)
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	block, err := json.Marshal(genesis())
	if err != nil {
		t.Fatal(err)
	}
	key := newKey(t)
	data := filepath.Join(dir, "data")
	if out, err := run(t, path, "init", "--datadir", data, file("genesis.json", block)); err != nil {
		t.Fatalf("geth init: %v\n%s", err, out)
	}
	if config.chain != nil {
		blocks := filepath.Join(dir, "chain.rlp")
		if err := config.chain.export(blocks); err != nil {
			t.Fatal(err)
		}
		if out, err := run(t, path, "import", "--datadir", data, "--nocompaction", blocks); err != nil {
			t.Fatalf("geth import: %v\n%s", err, out)
		}
	}
	toml := "[Node.P2P]\nListenAddr = \"127.0.0.1:0\"\n"
	if len(config.staticNodes) > 0 {
		toml += "StaticNodes = [\"" + strings.Join(config.staticNodes, `", "`) + "\"]\n"
	}
	n := &gethNode{key: &key.PublicKey}
	rand.Read(n.jwt[:])
	n.process = start(t, path,
		"--config", file("config.toml", []byte(toml)),
		"--datadir", data,
		"--nodekey", file("nodekey", fmt.Appendf(nil, "%x", crypto.FromECDSA(key))),
		"--networkid", fmt.Sprint(chainID),
		"--maxpeers", fmt.Sprint(config.maxPeers),
		"--nodiscover", "--discovery.dns", "", "--bootnodes", "", "--nat", "none", "--netrestrict", "127.0.0.0/8",
		"--authrpc.addr", "127.0.0.1", "--authrpc.port", "0", "--authrpc.jwtsecret", file("jwt", fmt.Appendf(nil, "%x", n.jwt)),
		"--ipcdisable",
		"--cache", "16", "--verbosity", "5")
	n.url = n.await(`Started P2P networking\s+self="?(enode://[0-9a-f]+@[^" ]+)`)[1]
	self, err := enode.ParseV4(n.url)
	if err != nil {
		t.Fatal(err)
	}
	endpoint, ok := self.TCPEndpoint()
	if !ok || !endpoint.Addr().IsLoopback() || !self.Pubkey().Equal(n.key) {
		t.Fatalf("geth listens at %s", n.url)
	}
	n.addr = endpoint.String()
	conn, err := (&net.Dialer{}).DialContext(step(t), "tcp", n.addr)
	if err != nil {
		t.Fatalf("geth does not accept connections: %v", err)
	}
	conn.Close()
	return n
}

// api connects to the node's engine API, which has the methods of eth as well.
func (n *gethNode) api() *rpc.Client {
	n.t.Helper()
	endpoint := n.await(`HTTP server started\s+endpoint=(127\.0\.0\.1:\d+)\s+auth=true`)[1]
	client, err := rpc.DialOptions(step(n.t), "http://"+endpoint, rpc.WithHTTPAuth(node.NewJWTAuth(n.jwt)))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(client.Close)
	return client
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}
