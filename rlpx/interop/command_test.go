package interop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/enode"
)

// TestPingGeth runs our ping command against a geth node.
func TestPingGeth(t *testing.T) {
	path := rlpxProgram.build(t)
	n := startGeth(t, gethConfig{})
	version, err := gethVersion()
	if err != nil {
		t.Fatal(err)
	}
	out, err := run(t, path, "ping", "-c", "3", "-i", "10ms", n.url)
	if err != nil {
		t.Errorf("exit status: %v", err)
	}
	for _, want := range []string{"Geth/" + version, "eth/69", "eth/70", "eth/71", "eth/72", "snap/1", "3 answered"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in the output", want)
		}
	}
	if t.Failed() {
		t.Logf("output:\n%s", out)
	}
}

// TestDevp2pPingsServe runs go-ethereum's devp2p tool against our serve command.
func TestDevp2pPingsServe(t *testing.T) {
	devp2p := devp2pProgram.build(t)
	expectDevp2pPing(t, devp2p, startServe(t))
	r := gethRow(t, gethTool, weServe, 5)
	seen(t, r, handshakeColumn, itSentAuth)
	seen(t, r, helloColumn, "prints ours")
}

// TestDevp2pPingsUnknownKey shows that a wrong node key is found out, by devp2p as by us.
func TestDevp2pPingsUnknownKey(t *testing.T) {
	devp2p, ours := devp2pProgram.build(t), rlpxProgram.build(t)
	node := startServe(t)
	endpoint, _ := node.TCPEndpoint()
	wrong := enode.NewV4(&newKey(t).PublicKey, endpoint.Addr().AsSlice(), int(endpoint.Port()), int(endpoint.Port())).URLv4()
	for _, command := range [][]string{{devp2p, "rlpx", "ping", wrong}, {ours, "ping", wrong}} {
		if out, err := run(t, command[0], command[1:]...); err == nil {
			t.Errorf("%q succeeded:\n%s", command, out)
		}
	}
}

// startServe starts our serve command.
func startServe(t *testing.T) *enode.Node {
	t.Helper()
	p := start(t, rlpxProgram.build(t), "serve", "-addr", "127.0.0.1:0")
	url := p.await(`(?m)^(enode://[0-9a-f]{128}@127\.0\.0\.1:\d+\S*)$`)[1]
	node, err := enode.ParseV4(url)
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// expectDevp2pPing checks that devp2p prints the Hello of our serve command.
func expectDevp2pPing(t *testing.T, devp2p string, node *enode.Node) {
	t.Helper()
	out, err := run(t, devp2p, "rlpx", "ping", node.URLv4())
	if err != nil {
		t.Errorf("devp2p rlpx ping: %v", err)
	}
	id := crypto.FromECDSAPub(node.Pubkey())[1:]
	for _, want := range []string{"Version:5 Name:go-rlpx/", "Caps:[echo/1]", fmt.Sprintf("ID:%v", id)} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in the output", want)
		}
	}
	if t.Failed() {
		t.Logf("output:\n%s", out)
	}
}
