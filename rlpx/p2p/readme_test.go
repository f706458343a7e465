package p2p_test

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// sayHello is the example of the README: its body stands there.
func sayHello(ctx context.Context, url string, nodeKey *ecdsa.PrivateKey) error {
	session, err := p2p.Dial(ctx, url, &rlpx.Config{Key: nodeKey}, &p2p.SessionConfig{
		Name:         "my-node/1.0",
		Capabilities: p2p.Capabilities{{Cap: p2p.Cap{Name: "echo", Version: 1}, Length: 16}},
	})
	if err != nil {
		return err // says why: not an enode URL, cannot connect, wrong node key, too many peers, no shared capability, ...
	}
	defer session.Close()
	return session.Capability("echo").Write(0, []byte("hello"))
}

// The example of the README.
func Example_readme() {
	node := startNode()
	defer node.stop()
	key, _ := crypto.GenerateKey()
	fmt.Println(sayHello(context.Background(), node.url(), key))
	// Output: <nil>
}

// TestReadme keeps the README's example what is compiled and run here.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(readme), "```go\n")
	example, _, ok := strings.Cut(example, "```")
	if !ok {
		t.Fatal("no Go example in the README")
	}
	body := "\t" + strings.ReplaceAll(strings.TrimSuffix(example, "\n"), "\n", "\n\t")
	if !strings.Contains(string(source), body) {
		t.Errorf("the README's first example is not the body of sayHello:\n%s", example)
	}
}
