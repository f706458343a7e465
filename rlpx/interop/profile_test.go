package interop

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/rpc"
	"github.com/google/pprof/profile"
)

// profileRate is how many bytes a node allocates from one sample of its memory profile to the next.
const profileRate = 64 << 10

// ipcPath is where the node's IPC is.
func (h *gethHome) ipcPath(t *testing.T) string {
	t.Helper()
	if h.socket != "" {
		return h.socket
	}
	// The path of a socket must be short, and those of t.TempDir are not.
	dir, err := os.MkdirTemp("", "ipc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h.socket = filepath.Join(dir, "geth")
	if runtime.GOOS == "windows" {
		h.socket = `\\.\pipe\` + filepath.Base(dir)
	}
	return h.socket
}

// ipc connects to the node's IPC, which has all of its API.
func (n *gethNode) ipc(t *testing.T) *rpc.Client {
	t.Helper()
	n.await(`IPC endpoint opened`)
	client, err := rpc.DialContext(step(t), n.home.ipcPath(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// reportBytes logs how much memory a node has allocated so far in its transport, Handshake apart,
// and in all.
func (n *gethNode) reportBytes(t *testing.T, who string) {
	t.Helper()
	name := filepath.Join(n.home.dir, "memory.prof")
	client := n.ipc(t)
	for range 2 { // a profile has what was allocated up to the last collection but one
		if err := client.CallContext(step(t), nil, "debug_freeOSMemory"); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.CallContext(step(t), nil, "debug_writeMemProfile", name); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p, err := profile.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	value := slices.IndexFunc(p.SampleType, func(v *profile.ValueType) bool { return v.Type == "alloc_space" })
	if value < 0 {
		t.Fatalf("no alloc_space in %v", p.SampleType)
	}
	var all, transport int64
	for _, sample := range p.Sample {
		all += sample.Value[value]
		if inTransport(sample) {
			transport += sample.Value[value]
		}
	}
	if all == 0 {
		t.Error("nothing is in the memory profile")
	}
	t.Logf("%s: %.2f MB allocated by Read and Write, %.1f MB in all", who, float64(transport)/1e6, float64(all)/1e6)
}

// inTransport reports whether a sample was taken inside of a connection, and not in its handshake.
func inTransport(sample *profile.Sample) bool {
	inside := false
	for _, location := range sample.Location {
		for _, line := range location.Line {
			name := line.Function.Name
			if strings.HasPrefix(name, gethModule+"/p2p/rlpx.") || strings.HasPrefix(name, transportModule+"/") {
				if strings.Contains(strings.ToLower(name), "handshake") {
					return false
				}
				inside = true
			}
		}
	}
	return inside
}
