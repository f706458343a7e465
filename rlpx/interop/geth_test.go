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
	"regexp"
	"runtime"
	"slices"
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

// gethConfig is how geth nodes differ.
type gethConfig struct {
	program     *program // nil: gethProgram
	maxPeers    int      // 0: 20
	staticNodes []string // enode URLs of nodes to dial
	chain       *chain   // to import; nil: nothing but the genesis block
	foreign     *foreignChain
	syncMode    string // "full" or "snap"; "": geth's default
	profiled    bool   // for gethNode.reportBytes, and with IPC
}

// foreignChain is one that is not ours.
type foreignChain struct {
	genesis, blocks string // files
	networkID       uint64
}

// gethHome is where a geth node lives: what stays when it is stopped and started again.
type gethHome struct {
	gethConfig
	path, dir string
	key       *ecdsa.PrivateKey
	jwt       [32]byte // secret of its engine API
	port      uint16   // of its listener; 0: the system's choice
	socket    string   // of IPC
}

// gethNode is a geth process.
type gethNode struct {
	*process
	home *gethHome
	url  string           // enode
	addr string           // of its listener
	key  *ecdsa.PublicKey // of the node
}

// startGeth starts a geth node in a directory of its own, on ports that the system chooses.
func startGeth(t *testing.T, config gethConfig) *gethNode {
	t.Helper()
	return newGethHome(t, config).start(t)
}

func (h *gethHome) file(t *testing.T, name string, content []byte) string {
	t.Helper()
	name = filepath.Join(h.dir, name)
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func (h *gethHome) data() string { return filepath.Join(h.dir, "data") }

// newGethHome makes the database of a node, with the chain of its configuration.
func newGethHome(t *testing.T, config gethConfig) *gethHome {
	t.Helper()
	if config.program == nil {
		config.program = &gethProgram
	}
	if config.maxPeers == 0 {
		config.maxPeers = 20
	}
	h := &gethHome{gethConfig: config, path: config.program.build(t), dir: t.TempDir(), key: newKey(t)}
	rand.Read(h.jwt[:])
	if h.foreign == nil {
		block, err := json.Marshal(genesis())
		if err != nil {
			t.Fatal(err)
		}
		h.foreign = &foreignChain{genesis: h.file(t, "genesis.json", block), networkID: chainID}
		if config.chain != nil {
			imported, err := config.chain.imported(t, h.path, h.foreign.genesis)
			if err == nil {
				err = os.CopyFS(h.data(), os.DirFS(imported))
			}
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
	}
	if err := h.foreign.load(t, h.path, h.data()); err != nil {
		t.Fatal(err)
	}
	return h
}

// imported returns the database of a node that has the chain. It is made once, and copied for each
// node.
func (c *chain) imported(t *testing.T, path, genesis string) (string, error) {
	c.once.Do(func() {
		var dir string
		if dir, c.err = os.MkdirTemp(workDir, "chain-"); c.err != nil {
			return
		}
		f := &foreignChain{genesis: genesis, blocks: filepath.Join(dir, "chain.rlp")}
		if c.err = c.export(f.blocks); c.err == nil {
			c.database = filepath.Join(dir, "data")
			c.err = f.load(t, path, c.database)
		}
	})
	return c.database, c.err
}

// load makes a database of the chain with the program at path.
func (f *foreignChain) load(t *testing.T, path, data string) error {
	if out, err := run(t, path, "init", "--datadir", data, f.genesis); err != nil {
		return fmt.Errorf("geth init: %w\n%s", err, out)
	}
	if f.blocks != "" {
		if out, err := run(t, path, "import", "--datadir", data, "--nocompaction", f.blocks); err != nil {
			return fmt.Errorf("geth import: %w\n%s", err, out)
		}
	}
	return nil
}

// start starts the node.
func (h *gethHome) start(t *testing.T) *gethNode {
	t.Helper()
	toml := fmt.Sprintf("[Node.P2P]\nListenAddr = \"127.0.0.1:%d\"\n", h.port)
	if len(h.staticNodes) > 0 {
		toml += "StaticNodes = [\"" + strings.Join(h.staticNodes, `", "`) + "\"]\n"
	}
	args := []string{
		"--config", h.file(t, "config.toml", []byte(toml)),
		"--datadir", h.data(),
		"--nodekey", h.file(t, "nodekey", fmt.Appendf(nil, "%x", crypto.FromECDSA(h.key))),
		"--networkid", fmt.Sprint(h.foreign.networkID),
		"--maxpeers", fmt.Sprint(h.maxPeers),
		"--nodiscover", "--discovery.dns", "", "--bootnodes", "", "--nat", "none", "--netrestrict", "127.0.0.0/8",
		"--authrpc.addr", "127.0.0.1", "--authrpc.port", "0", "--authrpc.jwtsecret", h.file(t, "jwt", fmt.Appendf(nil, "%x", h.jwt)),
		"--cache", "16", "--verbosity", "5",
		"--history.logs.disable", // or making that index is most of the work of a node that has little to do
	}
	if h.syncMode != "" {
		args = append(args, "--syncmode", h.syncMode)
	}
	if h.profiled {
		args = append(args, "--ipcpath", h.ipcPath(t), "--pprof.memprofilerate", fmt.Sprint(profileRate))
	} else {
		args = append(args, "--ipcdisable")
	}
	n := &gethNode{home: h, key: &h.key.PublicKey, process: startGethProcess(t, h.path, args)}
	n.url = n.await(`Started P2P networking\s+self="?(enode://[0-9a-f]+@[^" ]+)`)[1]
	self, err := enode.ParseV4(n.url)
	if err != nil {
		t.Fatal(err)
	}
	endpoint, ok := self.TCPEndpoint()
	if !ok || !endpoint.Addr().IsLoopback() || !self.Pubkey().Equal(n.key) {
		t.Fatalf("geth listens at %s", n.url)
	}
	n.addr, h.port = endpoint.String(), endpoint.Port()
	conn, err := (&net.Dialer{}).DialContext(step(t), "tcp", n.addr)
	if err != nil {
		t.Fatalf("geth does not accept connections: %v", err)
	}
	conn.Close()
	return n
}

// startGethProcess starts geth. It takes no notice of an interrupt until all of it has started, its
// peers and its API first, and an interrupt before that would end it with its database as it
// happens to be. So it ignores interrupts until then, and gets another one.
func startGethProcess(t *testing.T, path string, args []string) *process {
	t.Helper()
	if runtime.GOOS == "windows" {
		return start(t, path, args...) // has no interrupts
	}
	p := start(t, "/bin/sh", slices.Concat([]string{"-c", `trap "" INT; exec "$0" "$@"`, path}, args)...)
	p.log.of = path
	p.heeds = regexp.MustCompile(`Got interrupt, shutting down`)
	return p
}

// engineURL is the address of the node's engine API.
func (n *gethNode) engineURL() string {
	n.t.Helper()
	return "http://" + n.await(`HTTP server started\s+endpoint=(127\.0\.0\.1:\d+)\s+auth=true`)[1]
}

// api connects to the node's engine API, which has the methods of eth as well.
func (n *gethNode) api() *rpc.Client {
	n.t.Helper()
	client, err := rpc.DialOptions(step(n.t), n.engineURL(), rpc.WithHTTPAuth(node.NewJWTAuth(n.home.jwt)))
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
