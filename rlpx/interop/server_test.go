package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/log"
	gethp2p "github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// The capability of a server. Messages are echoed under the id under which they came. It is so long
// that its codes take one, two and three bytes, and another capability lies before it.
const (
	mirrorName    = "mirror"
	mirrorVersion = 2
	mirrorLength  = 70000
	greetingID    = mirrorLength - 1 // what the server says first
	quitID        = mirrorLength - 2 // makes the handler return; see quits

	auxName   = "aux"
	auxLength = 5
)

var greeting = []byte("\xc5hello")

// mirrorCapabilities are those of a server, as ours.
func mirrorCapabilities() p2p.Capabilities {
	return p2p.Capabilities{
		{Cap: p2p.Cap{Name: mirrorName, Version: mirrorVersion}, Length: mirrorLength},
		{Cap: p2p.Cap{Name: mirrorName, Version: 1}, Length: 1}, // a server has only the other
		{Cap: p2p.Cap{Name: auxName, Version: 1}, Length: auxLength},
	}
}

// server is go-ethereum's p2p.Server in this process.
type server struct {
	*gethp2p.Server
	peers chan *gethp2p.Peer      // each that it took
	drops chan *gethp2p.PeerEvent // each that it lost
}

func startServer(t *testing.T, maxPeers int) *server {
	t.Helper()
	s := &server{peers: make(chan *gethp2p.Peer, 100), drops: make(chan *gethp2p.PeerEvent, 100)}
	s.Server = &gethp2p.Server{Config: gethp2p.Config{
		PrivateKey:  newKey(t),
		Name:        "geth p2p.Server",
		MaxPeers:    maxPeers,
		NoDiscovery: true,
		ListenAddr:  "127.0.0.1:0",
		Protocols: []gethp2p.Protocol{
			{Name: mirrorName, Version: mirrorVersion, Length: mirrorLength, Run: s.mirror},
			{Name: auxName, Version: 1, Length: auxLength, Run: echo},
		},
		Logger: log.NewLogger(log.NewTerminalHandlerWithLevel(newJournal(t, "p2p.Server"), slog.Level(log.LevelTrace), false)),
	}}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	events := make(chan *gethp2p.PeerEvent, 100)
	sub := s.SubscribeEvents(events)
	t.Cleanup(sub.Unsubscribe)
	go func() {
		for {
			select {
			case event := <-events:
				if event.Type == gethp2p.PeerEventTypeDrop {
					s.drops <- event
				}
			case <-sub.Err(): // closed by Unsubscribe
				return
			}
		}
	}()
	return s
}

func (s *server) mirror(peer *gethp2p.Peer, rw gethp2p.MsgReadWriter) error {
	s.peers <- peer
	msg := gethp2p.Msg{Code: greetingID, Size: uint32(len(greeting)), Payload: bytes.NewReader(greeting)}
	if err := rw.WriteMsg(msg); err != nil {
		return err
	}
	return echo(peer, rw)
}

func echo(_ *gethp2p.Peer, rw gethp2p.MsgReadWriter) error {
	for {
		msg, err := rw.ReadMsg()
		if err != nil {
			return err
		}
		data, err := io.ReadAll(msg.Payload)
		if err != nil {
			return err
		}
		msg.Payload = bytes.NewReader(data)
		if msg.Code == quitID {
			return quits[data[0]].end(msg)
		}
		if err := rw.WriteMsg(gethp2p.Msg{Code: msg.Code, Size: msg.Size, Payload: msg.Payload}); err != nil {
			return err
		}
	}
}

// dropped waits until the server has lost a peer, and returns why.
func (s *server) dropped(t *testing.T) string {
	t.Helper()
	select {
	case event := <-s.drops:
		return event.Error
	case <-step(t).Done():
		t.Fatal("the server keeps the peer")
		return ""
	}
}

// peer returns the next peer that the server took.
func (s *server) peer(t *testing.T) *gethp2p.Peer {
	t.Helper()
	select {
	case peer := <-s.peers:
		return peer
	case <-step(t).Done():
		t.Fatal("the server does not take the peer")
		return nil
	}
}

// role says who dials.
type role string

const (
	weDial  role = "we dial"
	weServe role = "it dials"
)

// connect makes a connection with the encrypted handshake done.
func (s *server) connect(t *testing.T, who role) *rlpx.Conn {
	t.Helper()
	if who == weServe {
		l := listen(t)
		s.AddPeer(enode.MustParseV4(l.url))
		return l.accept(t)
	}
	conn, err := rlpx.Dial(step(t), "tcp", s.ListenAddr, &s.PrivateKey.PublicKey, ourConfig(newKey(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// session makes a session and reads the greeting.
func (s *server) session(t *testing.T, who role, cfg *p2p.SessionConfig) *p2p.Session {
	t.Helper()
	session := newSession(t, s.connect(t, who), cfg)
	id, data, err := session.Capability(mirrorName).Read(step(t))
	if err != nil || id != greetingID || !bytes.Equal(data, greeting) {
		t.Fatalf("first message %#x %q, error %v; want the greeting", id, data, err)
	}
	return session
}

func mirrorConfig(version uint64) *p2p.SessionConfig {
	cfg := sessionConfig(mirrorCapabilities())
	cfg.Version = version
	return cfg
}

// overRoles runs a test with either side as the initiator, with and without snappy.
func overRoles(t *testing.T, test func(t *testing.T, who role, version uint64)) {
	for _, who := range []role{weDial, weServe} {
		for _, version := range []uint64{4, 5} {
			t.Run(fmt.Sprintf("%s/Hello=%d", who, version), func(t *testing.T) { test(t, who, version) })
		}
	}
}

// TestServerMessages exchanges messages of all sizes and codes with go-ethereum's p2p.Server.
func TestServerMessages(t *testing.T) {
	s := startServer(t, 20)
	overRoles(t, func(t *testing.T, who role, version uint64) {
		session := s.session(t, who, mirrorConfig(version))
		peer := s.peer(t)
		if session.Remote().Name != s.Name || peer.Name() != "interop" {
			t.Errorf("names: %q and %q", session.Remote().Name, peer.Name())
		}
		if got, want := session.ConnectionState().Snappy, version >= 5; got != want {
			t.Fatalf("snappy %v, want %v", got, want)
		}
		if (who == weDial) != peer.Inbound() {
			t.Errorf("the peer is inbound: %v", peer.Inbound())
		}
		r := gethRow(t, gethServer, who, version)
		seenSession(t, r, session)
		mirror, aux := session.Capability(mirrorName), session.Capability(auxName)
		if o := mirror.Shared().Offset; o != p2p.BaseLength+auxLength {
			t.Errorf("offset %#x", o)
		}

		for _, ch := range []*p2p.Channel{mirror, aux} {
			for _, id := range []uint64{0, 1, 0x6a, 0x6b, 0xea, 0xeb, 0xffea, 0xffeb, quitID - 1} {
				if id < ch.Shared().Length {
					expectEcho(t, ch, id, []byte("some data"))
				}
			}
			if err := ch.Write(ch.Shared().Length, nil); !errors.Is(err, p2p.ErrInvalidMessageID) {
				t.Errorf("id beyond the capability: %v", err)
			}
		}
		for _, size := range []int{0, 1, 13, 14, 15, 16, 17, 1 << 10, 64 << 10, 1 << 20} {
			expectEcho(t, mirror, 1, compressible(size))
			expectEcho(t, mirror, 1, incompressible(size))
		}
		for range 10 {
			if _, err := session.Ping(step(t)); err != nil {
				t.Fatalf("Ping: %v", err)
			}
		}
		seen(t, r, pingColumn, oursAnswered)
		if err := session.Close(); err != nil {
			t.Error(err)
		}
		if reason := s.dropped(t); reason != gethp2p.DiscQuitting.String() {
			t.Errorf("the server lost us because of %q", reason)
		}
	})
}

// expectEcho sends a message and waits for it to come back.
func expectEcho(t *testing.T, ch *p2p.Channel, id uint64, data []byte) {
	t.Helper()
	ctx := step(t)
	if err := ch.Write(id, data); err != nil {
		t.Fatalf("%d bytes: %v", len(data), err)
	}
	gotID, got, err := ch.Read(ctx)
	if err != nil {
		t.Fatalf("%d bytes: %v", len(data), err)
	}
	if gotID != id || !bytes.Equal(got, data) {
		t.Fatalf("sent id %#x and %d bytes, got id %#x and %d bytes, equal %v", id, len(data), gotID, len(got), bytes.Equal(got, data))
	}
}

// TestServerManyMessages sends while it receives, from several goroutines.
func TestServerManyMessages(t *testing.T) {
	s := startServer(t, 20)
	overRoles(t, func(t *testing.T, who role, version uint64) {
		session := s.session(t, who, mirrorConfig(version))
		const writers, messages = 4, 500
		ctx := step(t)
		errs := make(chan error, writers+1)
		for w := range uint64(writers) {
			go func() {
				ch := session.Capability(mirrorName)
				for i := range messages {
					if err := ch.Write(w, fmt.Appendf(nil, "%d %s", i, compressible(i%300))); err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		go func() {
			ch := session.Capability(mirrorName)
			var next [writers]int // of each writer
			for range writers * messages {
				id, data, err := ch.Read(ctx)
				if err != nil {
					errs <- err
					return
				}
				i := next[id]
				next[id]++
				if want := fmt.Appendf(nil, "%d %s", i, compressible(i%300)); !bytes.Equal(data, want) {
					errs <- fmt.Errorf("message %d of writer %d came as %q", i, id, data)
					return
				}
			}
			errs <- nil
		}()
		for range writers + 1 {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestServerIdle leaves sessions alone for longer than either side waits for a message: the
// keep-alive Pings of both sides must be answered.
func TestServerIdle(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 35 seconds")
	}
	t.Parallel()
	s := startServer(t, 20)
	idle := time.After(p2p.DefaultReadTimeout + 5*time.Second)
	var sessions []*p2p.Session
	for _, who := range []role{weDial, weServe} {
		for _, version := range []uint64{4, 5} {
			sessions = append(sessions, s.session(t, who, mirrorConfig(version)))
			seen(t, gethRow(t, gethServer, who, version), pingColumn, itsAnswered)
		}
		// One that never sends a Ping of its own lives on our answers to the server's.
		cfg := mirrorConfig(5)
		cfg.PingInterval = -1
		sessions = append(sessions, s.session(t, who, cfg))
	}
	<-idle
	for _, session := range sessions {
		if err := session.Err(); err != nil {
			t.Fatal(err)
		}
		if session.Stats().Pings < 2 {
			t.Errorf("the server sent %d Pings", session.Stats().Pings)
		}
		expectEcho(t, session.Capability(mirrorName), 1, []byte("awake"))
	}
	if n := s.PeerCount(); n != len(sessions) {
		t.Errorf("the server has %d peers", n)
	}
}

// TestServerWrongKey dials a server under a key that is not its own. It hangs up, and that is no
// timeout.
func TestServerWrongKey(t *testing.T) {
	s := startServer(t, 20)
	_, err := rlpx.Dial(step(t), "tcp", s.ListenAddr, &newKey(t).PublicKey, ourConfig(newKey(t)))
	if !errors.Is(err, rlpx.ErrHandshake) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Dial: %v", err)
	}
}
