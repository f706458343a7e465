package interop

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	gethp2p "github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

// The peers of go-ethereum, in rows of the matrix.
const (
	geth       = "geth"
	gethTool   = "devp2p tool"
	gethServer = "p2p.Server"
)

// gethRow is the row of one of them, in the version of go.mod.
func gethRow(t *testing.T, name string, who role, hello uint64) row {
	t.Helper()
	version, err := gethVersion()
	if err != nil {
		t.Fatal(err)
	}
	return row{name + " " + version, who, hello}
}

// transcriptName is the name of a transcript for a row.
func transcriptName(peer string, r row) string {
	return fmt.Sprintf("%s-%s-hello%d", peer, strings.ReplaceAll(string(r.who), " ", "-"), r.hello)
}

// TestGethRecorded makes the transcripts of sessions with a geth node.
func TestGethRecorded(t *testing.T) {
	t.Run(string(weDial), func(t *testing.T) {
		n := startGeth(t, gethConfig{})
		r := gethRow(t, geth, weDial, 5)
		rec := record(t, r, transcriptName(geth, r), "We dial. Status both ways, the genesis header by number and "+
			"by hash, our Ping, and its Disconnect for a message of ours that does not decode.")
		session := newSession(t, rec.dial(t, n.addr, n.key), sessionConfig(ethCapabilities(eth.ETH69)))
		exchangeEth(t, session)
		if err := session.Capability("eth").Write(eth.GetBlockHeadersMsg, []byte("not RLP at all")); err != nil {
			t.Fatal(err)
		}
		expectDisconnect(t, ended(t, session), p2p.DiscProtocolError)
	})
	t.Run(string(weServe), func(t *testing.T) {
		r := gethRow(t, geth, weServe, 5)
		rec := record(t, r, transcriptName(geth, r), "It dials, as we are a static node of its configuration. Status both ways, the "+
			"genesis header by number and by hash, our Ping and our Disconnect.")
		l := rec.listen(t)
		n := startGeth(t, gethConfig{staticNodes: []string{l.url}})
		session := newSession(t, l.accept(t), sessionConfig(ethCapabilities(eth.ETH69)))
		exchangeEth(t, session)
		if err := session.Disconnect(p2p.DiscQuitting); err != nil {
			t.Fatal(err)
		}
		n.await(`Removing p2p peer .*req=true +err="client quitting"`)
	})
}

// exchangeEth is the middle of a recorded session with geth.
func exchangeEth(t *testing.T, session *p2p.Session) {
	t.Helper()
	expectGeth(t, session)
	expectEth(t, session)
	if _, err := session.Ping(step(t)); err != nil {
		t.Fatalf("Ping: %v", err)
	}
}

// TestDevp2pRecorded makes the transcript of a session with go-ethereum's devp2p tool, which
// reads our Hello and leaves.
func TestDevp2pRecorded(t *testing.T) {
	devp2p := devp2pProgram.build(t)
	r := gethRow(t, gethTool, weServe, 5)
	rec := record(t, r, transcriptName("devp2p", r), "devp2p rlpx ping: it dials, reads our Hello, says nothing and closes.")
	l := rec.listen(t)
	printed := make(chan string, 1)
	go func() {
		out, err := run(t, devp2p, "rlpx", "ping", l.url)
		printed <- fmt.Sprint(out, err)
	}()
	_, err := p2p.NewSession(step(t), l.accept(t), sessionConfig(ethCapabilities(eth.ETH69)))
	if !errors.Is(err, io.EOF) {
		t.Errorf("NewSession: %v", err)
	}
	out := <-printed
	for _, want := range []string{"Version:5 Name:interop", "Caps:[eth/69 snap/1]", "<nil>"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in its output:\n%s", want, out)
		}
	}
}

// TestServerRecorded makes the transcripts of sessions with go-ethereum's p2p.Server.
func TestServerRecorded(t *testing.T) {
	s := startServer(t, 20)
	overRoles(t, func(t *testing.T, who role, version uint64) {
		r := gethRow(t, gethServer, who, version)
		middle := "Its greeting, messages that it echoes, our Ping, and "
		if who == weDial {
			rec := record(t, r, transcriptName("p2p-server", r), "We dial. "+middle+"its Disconnect.")
			session := newSession(t, rec.dial(t, s.ListenAddr, &s.PrivateKey.PublicKey), mirrorConfig(version))
			exchangeMirror(t, session)
			s.peer(t).Disconnect(gethp2p.DiscTooManyPeers)
			expectDisconnect(t, ended(t, session), p2p.DiscTooManyPeers)
			s.dropped(t)
			return
		}
		rec := record(t, r, transcriptName("p2p-server", r), "It dials. "+middle+"our Disconnect.")
		l := rec.listen(t)
		s.AddPeer(enode.MustParseV4(l.url))
		session := newSession(t, l.accept(t), mirrorConfig(version))
		exchangeMirror(t, session)
		s.peer(t)
		if err := session.Disconnect(p2p.DiscUselessPeer); err != nil {
			t.Fatal(err)
		}
		if got, want := s.dropped(t), gethp2p.DiscUselessPeer.String(); got != want {
			t.Errorf("it heard %q, want %q", got, want)
		}
	})
}

// exchangeMirror is the middle of a recorded session with a server.
func exchangeMirror(t *testing.T, session *p2p.Session) {
	t.Helper()
	ch := session.Capability(mirrorName)
	if id, _, err := ch.Read(step(t)); err != nil || id != greetingID {
		t.Fatalf("message %#x, error %v; want the greeting", id, err)
	}
	for _, data := range recordedEchoes(session) {
		expectEcho(t, ch, 1, data)
	}
	expectEcho(t, ch, 0xffea, []byte("a code of three bytes"))
	if _, err := session.Ping(step(t)); err != nil {
		t.Fatalf("Ping: %v", err)
	}
}
