package interop

import (
	"context"
	"crypto/ecdsa"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// ethereumJS is the peer in js/, whose version is pinned there.
const ethereumJS = "@ethereumjs/devp2p 10.0.0"

// installTimeout bounds npm, which takes seconds.
const installTimeout = 5 * time.Minute

// nodeInstall is Node.js and the installed peer.
type nodeInstall struct {
	node string // program
	dir  string // where peer.js is
}

// installJS installs js/ with npm in the directory of all tests, so that nothing is left in the
// repository.
var installJS = sync.OnceValues(func() (nodeInstall, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nodeInstall{}, err
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return nodeInstall{}, err
	}
	install := nodeInstall{node, filepath.Join(workDir, "js")}
	if err := os.Mkdir(install.dir, 0o700); err != nil {
		return nodeInstall{}, err
	}
	for _, name := range []string{"package.json", "package-lock.json", "peer.js"} {
		if err := copyFile(filepath.Join(install.dir, name), filepath.Join("js", name)); err != nil {
			return nodeInstall{}, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	// No package of these needs to run anything to be installed.
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", "--no-update-notifier")
	cmd.Dir, cmd.WaitDelay = install.dir, 5*time.Second
	announce("installing %s with npm", ethereumJS)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nodeInstall{}, fmt.Errorf("npm ci: %w\n%s", errors.Join(err, ctx.Err()), out)
	}
	installed, err := installedVersion(install.dir)
	if err != nil {
		return nodeInstall{}, err
	}
	if installed != ethereumJS {
		return nodeInstall{}, fmt.Errorf("npm installed %s, not %s", installed, ethereumJS)
	}
	return install, nil
})

func installedVersion(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "node_modules", "@ethereumjs", "devp2p", "package.json"))
	if err != nil {
		return "", err
	}
	var about struct{ Name, Version string }
	err = json.Unmarshal(text, &about)
	return about.Name + " " + about.Version, err
}

// The capability of js/peer.js.
const (
	jsEchoID       = 0
	jsPingID       = 1
	jsDisconnectID = 2
	jsLength       = 3

	jsMaxPeers = 4
)

func jsConfig(version uint64) *p2p.SessionConfig {
	cfg := sessionConfig(p2p.Capabilities{{Cap: p2p.Cap{Name: "echo", Version: 1}, Length: jsLength}})
	cfg.Version = version
	// Its pace with the largest messages is its own.
	cfg.ReadTimeout, cfg.WriteTimeout = patience, patience
	return cfg
}

// jsPeer is a process of js/peer.js.
type jsPeer struct {
	*process
	key  *ecdsa.PublicKey
	addr string // where it listens; "" if it dials
}

// dial connects to the peer under the given key.
func (p *jsPeer) dial(t *testing.T, key *ecdsa.PrivateKey) *rlpx.Conn {
	t.Helper()
	conn, err := rlpx.Dial(step(t), "tcp", p.addr, p.key, ourConfig(key))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// startJS starts the peer: listening, or dialing us.
func startJS(t *testing.T, args ...string) *jsPeer {
	t.Helper()
	install, err := installJS()
	if err != nil {
		unavailable(t, ethereumJS+" under Node.js", err)
	}
	p := &jsPeer{process: start(t, install.node, append([]string{filepath.Join(install.dir, "peer.js")}, args...)...)}
	event := p.event(t, nil, map[bool]string{true: "connected", false: "listening"}[args[0] == "dial"])
	id, err := hex.DecodeString(event.ID)
	if err == nil {
		p.key, err = crypto.UnmarshalPubkey(append([]byte{4}, id...))
	}
	if err != nil {
		t.Fatal(err)
	}
	if event.Port != 0 {
		p.addr = "127.0.0.1:" + strconv.Itoa(event.Port)
	}
	return p
}

// dialJS starts a peer that dials our listener.
func dialJS(t *testing.T, l *listener) *jsPeer {
	t.Helper()
	id, port, ok := parseEnode(l.url)
	if !ok {
		t.Fatalf("enode URL %q", l.url)
	}
	return startJS(t, "dial", port, id)
}

func parseEnode(url string) (id, port string, ok bool) {
	match := regexp.MustCompile(`^enode://([0-9a-f]{128})@127\.0\.0\.1:(\d+)`).FindStringSubmatch(url)
	if match == nil {
		return "", "", false
	}
	return match[1], match[2], true
}

// jsEvent is a line of the peer's output.
type jsEvent struct {
	Event   string
	ID      string // its own
	Port    int
	Version uint64 // of our Hello
	Name    string
	Reason  *byte
	ByUs    *bool `json:"byUs"` // by the process
	Message string

	Capabilities []struct {
		Name    string
		Version uint64
	}
}

// event waits for the first event of its kind, about the peer with the given key unless that is
// nil, with more of the line if there are several.
func (p *jsPeer) event(t *testing.T, about *ecdsa.PublicKey, name string, more ...string) jsEvent {
	t.Helper()
	pattern := `(?m)^\{"event":"` + regexp.QuoteMeta(name) + `"`
	if about != nil {
		pattern += `,"peer":"` + hex.EncodeToString(crypto.FromECDSAPub(about)[1:]) + `"`
	}
	for _, part := range more {
		pattern += ".*" + regexp.QuoteMeta(part)
	}
	line := p.await(pattern + `.*\}$`)[0]
	var event jsEvent
	if err := json.Unmarshal([]byte(line), &event); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return event
}

// expectNoErrors checks that the peer had nothing to complain of.
func (p *jsPeer) expectNoErrors(t *testing.T) {
	t.Helper()
	for line := range strings.SplitSeq(p.log.String(), "\n") {
		if strings.HasPrefix(line, `{"event":"error"`) {
			t.Errorf("the peer says %s", line)
		}
	}
}
