package interop

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// tuweniPeer is the peer in tuweni/, whose version is pinned there.
const (
	tuweniPeer   = "Apache Tuweni 2.3.1"
	tuweniJar    = "tuweni-rlpx-2.3.1.jar"
	tuweniName   = "Tuweni/2.3.1" // in Hello; our choice
	tuweniPOM    = "tuweni/pom.xml"
	tuweniSource = "tuweni/Peer.java"
)

// tuweniProgram is built once a run, when the first test asks for it.
var tuweniProgram javaProgram

// errOurSource says that the peer can be had and our part of it is wrong.
var errOurSource = errors.New("a mistake of ours in tuweni/")

// javaProgram is the node's classes and what they need.
type javaProgram struct {
	once      sync.Once
	java      string // the virtual machine
	classPath string
	err       error
}

func (p *javaProgram) build(t *testing.T) {
	t.Helper()
	p.once.Do(func() { p.err = p.compile(commandContext(t)) })
	if errors.Is(p.err, errOurSource) {
		t.Fatal(p.err)
	}
	if p.err != nil {
		unavailable(t, tuweniPeer, p.err)
	}
}

func (p *javaProgram) compile(ctx context.Context) (err error) {
	tools := make(map[string]string)
	for _, name := range []string{"mvn", "javac", "java"} {
		if tools[name], err = exec.LookPath(name); err != nil {
			return err
		}
	}
	p.java = tools["java"]
	announce("building %s", tuweniSource)
	begin := time.Now()
	classes, list := filepath.Join(workDir, "tuweni"), filepath.Join(workDir, "tuweni.classpath")
	if err := tool(ctx, tools["mvn"], "--batch-mode", "--quiet", "--strict-checksums", "--file", tuweniPOM,
		"dependency:build-classpath", "-Dmdep.outputFile="+list); err != nil {
		return err
	}
	jars, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	if !bytes.Contains(jars, []byte(tuweniJar)) {
		return fmt.Errorf("%w: %s does not ask for %s", errOurSource, tuweniPOM, tuweniJar)
	}
	p.classPath = classes + string(os.PathListSeparator) + strings.TrimSpace(string(jars))
	if err := tool(ctx, tools["javac"], "-nowarn", "-proc:none", "-d", classes, "-cp", p.classPath, tuweniSource); err != nil {
		return fmt.Errorf("%w: %w", errOurSource, err)
	}
	announce("built it in %v", time.Since(begin).Round(time.Second))
	return nil
}

// tool runs a tool of a build.
func tool(ctx context.Context, path string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", path, err, out)
	}
	return nil
}

// The capabilities of the peer, which echo; see Peer.java. The longer one is announced first and
// comes last; its codes begin with one byte and end with two.
const (
	tuweniAuxLength    = 5
	tuweniPingID       = 4 // of the shorter one: makes the peer send a Ping
	tuweniMirrorLength = 300
)

func tuweniCapabilities() p2p.Capabilities {
	return p2p.Capabilities{
		{Cap: p2p.Cap{Name: mirrorName, Version: 2}, Length: tuweniMirrorLength},
		{Cap: p2p.Cap{Name: mirrorName, Version: 1}, Length: 1},
		{Cap: p2p.Cap{Name: auxName, Version: 1}, Length: tuweniAuxLength},
	}
}

// tuweniNode is a process with an RLPx service of Apache Tuweni.
type tuweniNode struct {
	*process
	input    *os.File
	addr     string
	key      *ecdsa.PublicKey
	sessions int // so far
}

func startTuweni(t *testing.T) *tuweniNode {
	t.Helper()
	tuweniProgram.build(t)
	input, output, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { output.Close() }) // which ends it
	n := &tuweniNode{input: output}
	n.process = startWithInput(t, input, tuweniProgram.java,
		"-Xmx1g", "-XX:TieredStopAtLevel=1", // to be there sooner
		"-Dvertx.disableDnsResolver=true", "-Dorg.slf4j.simpleLogger.log.org.apache.tuweni=debug",
		"-cp", tuweniProgram.classPath, "Peer", tuweniName)
	input.Close() // the process has its own
	match := n.await(`(?m)^listening (\d+) 0x([0-9a-f]{128})$`)
	n.addr = net.JoinHostPort("127.0.0.1", match[1])
	key, err := hex.DecodeString("04" + match[2])
	if err != nil {
		t.Fatal(err)
	}
	if n.key, err = crypto.UnmarshalPubkey(key); err != nil {
		t.Fatal(err)
	}
	return n
}

// tell gives the node a line of its standard input.
func (n *tuweniNode) tell(format string, args ...any) {
	n.t.Helper()
	if _, err := fmt.Fprintf(n.input, format+"\n", args...); err != nil {
		n.t.Fatal(err)
	}
}

// says waits until the node says a line of its standard output, other than before.
func (n *tuweniNode) says(format string, args ...any) {
	n.t.Helper()
	n.await(`(?m)^` + regexp.QuoteMeta(fmt.Sprintf(format, args...)) + `$`)
}

// dial makes the node dial a listener of ours.
func (n *tuweniNode) dial(addr net.Addr, key *ecdsa.PublicKey) {
	n.t.Helper()
	n.tell("dial %d 0x%x", addrPort(addr).Port(), crypto.FromECDSAPub(key)[1:])
}

// connect makes a connection with the encrypted handshake done.
func (n *tuweniNode) connect(t *testing.T, who role) *rlpx.Conn {
	t.Helper()
	cfg := ourConfig(newKey(t))
	if who == weDial {
		conn, err := rlpx.Dial(step(t), "tcp", n.addr, n.key, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	l, err := rlpx.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	n.dial(l.Addr(), &cfg.Key.PublicKey)
	return (&listener{Listener: l}).accept(t)
}

// newName is for one session: by the client name of the other side, the node tells its sessions
// apart.
func (n *tuweniNode) newName() string {
	n.sessions++
	return fmt.Sprintf("session-%d", n.sessions)
}

// session makes a session on a connection and waits until the node has it too. It returns our name
// in it.
func (n *tuweniNode) session(t *testing.T, conn *rlpx.Conn, version uint64) (*p2p.Session, string) {
	t.Helper()
	name := n.newName()
	session := newSession(t, conn, &p2p.SessionConfig{Name: name, Version: version, Capabilities: tuweniCapabilities(),
		ReadTimeout: patience, WriteTimeout: patience}) // its pace with the largest messages is its own
	n.says("connected %s aux/1 mirror/2", name)
	return session, name
}

// tuweniRoles runs a test with either side as the initiator, with and without snappy.
func tuweniRoles(t *testing.T, test func(t *testing.T, n *tuweniNode, r row)) {
	n := startTuweni(t)
	overRoles(t, func(t *testing.T, who role, version uint64) { test(t, n, row{tuweniPeer, who, version}) })
}
