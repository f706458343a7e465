package gethp2p

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	geth "github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

type run = func(*geth.Peer, geth.MsgReadWriter) error

func protocol(name string, version uint, run run) geth.Protocol {
	return geth.Protocol{Name: name, Version: version, Length: 4, Run: run}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// within returns the next value of a channel.
func within[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// server is go-ethereum's own p2p.Server.
type server struct {
	*geth.Server
	dropped chan string // why it lost a peer
}

func startServer(t *testing.T, protocols ...geth.Protocol) *server {
	t.Helper()
	s := &server{dropped: make(chan string, 10), Server: &geth.Server{Config: geth.Config{
		PrivateKey: newKey(t), Name: "a p2p.Server of go-ethereum", MaxPeers: 10, NoDiscovery: true,
		ListenAddr: "127.0.0.1:0", Protocols: protocols,
	}}}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	events := make(chan *geth.PeerEvent, 10)
	sub := s.SubscribeEvents(events)
	t.Cleanup(sub.Unsubscribe)
	go func() {
		for {
			select {
			case e := <-events:
				if e.Type == geth.PeerEventTypeDrop {
					s.dropped <- e.Error
				}
			case <-sub.Err():
				return
			}
		}
	}()
	return s
}

func config(protocols []geth.Protocol) *p2p.SessionConfig {
	return &p2p.SessionConfig{Name: "a session with the adapter", Capabilities: Capabilities(protocols)}
}

// dial runs protocols over a session that dialed the server. It returns the session and what Run
// will.
func dial(t *testing.T, s *server, protocols ...geth.Protocol) (*p2p.Session, <-chan error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	session, err := p2p.Dial(ctx, s.Self().URLv4(), &rlpx.Config{Key: newKey(t)}, config(protocols))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session, start(session, protocols...)
}

func start(session *p2p.Session, protocols ...geth.Protocol) <-chan error {
	result := make(chan error, 1)
	go func() { result <- Run(session, protocols...) }()
	return result
}

// accept has the server dial a listener, and runs protocols over the session.
func accept(t *testing.T, s *server, protocols ...geth.Protocol) (*p2p.Session, <-chan error) {
	t.Helper()
	key := newKey(t)
	listener, err := p2p.Listen("tcp", "127.0.0.1:0", &rlpx.Config{Key: key}, config(protocols))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	addr := listener.Addr().(*net.TCPAddr)
	s.AddPeer(enode.NewV4(&key.PublicKey, addr.IP, addr.Port, addr.Port))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	session, err := listener.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session, start(session, protocols...)
}

// ask sends messages of many sizes under all codes and wants them back.
func ask(_ *geth.Peer, rw geth.MsgReadWriter) error {
	for i, size := range []int{0, 1, 15, 16, 1000, 70_000, 1<<20 + 1} {
		data := make([]byte, size)
		for j := range data {
			data[j] = byte(j * j >> 3)
		}
		code := uint64(i % 4)
		// More follows in the reader than belongs to the message.
		payload := io.MultiReader(bytes.NewReader(data), bytes.NewReader([]byte("more")))
		if err := rw.WriteMsg(geth.Msg{Code: code, Size: uint32(size), Payload: payload}); err != nil {
			return fmt.Errorf("write %d bytes: %w", size, err)
		}
		msg, err := rw.ReadMsg()
		if err != nil {
			return fmt.Errorf("read %d bytes: %w", size, err)
		}
		got, err := io.ReadAll(msg.Payload)
		if err != nil || msg.Code != code || int(msg.Size) != size || msg.ReceivedAt.IsZero() || !bytes.Equal(got, data) {
			return fmt.Errorf("message %d of %d bytes came back as %d of %d, %d, at %v: %w",
				code, size, msg.Code, msg.Size, len(got), msg.ReceivedAt, err)
		}
	}
	return geth.DiscAlreadyConnected // which nothing else here says
}

// echo sends everything back until the end, whose error it returns.
func echo(_ *geth.Peer, rw geth.MsgReadWriter) error {
	for {
		msg, err := rw.ReadMsg()
		if err != nil {
			return err
		}
		if err := rw.WriteMsg(msg); err != nil {
			return err
		}
	}
}

func TestEcho(t *testing.T) {
	for _, direction := range []struct {
		name    string
		connect func(*testing.T, *server, ...geth.Protocol) (*p2p.Session, <-chan error)
	}{{"we dial", dial}, {"the server dials", accept}} {
		t.Run(direction.name, func(t *testing.T) {
			t.Run("we ask", func(t *testing.T) {
				s := startServer(t, protocol("other", 1, echo), protocol("talk", 1, nil), protocol("talk", 2, echo))
				_, result := direction.connect(t, s, protocol("talk", 2, ask), protocol("other", 1, echo))
				if err := within(t, result); !errors.Is(err, geth.DiscAlreadyConnected) {
					t.Fatal(err)
				}
				if got := within(t, s.dropped); got != geth.DiscAlreadyConnected.String() {
					t.Fatal("the server was told:", got)
				}
			})
			t.Run("the server asks", func(t *testing.T) {
				s := startServer(t, protocol("other", 1, echo), protocol("talk", 2, ask))
				_, result := direction.connect(t, s, protocol("talk", 2, echo), protocol("other", 1, echo))
				if err := within(t, result); !errors.Is(err, p2p.DiscAlreadyConnected) {
					t.Fatal(err)
				}
				if got := within(t, s.dropped); got != geth.DiscAlreadyConnected.String() {
					t.Fatal("the server says:", got)
				}
			})
		})
	}
}

// Of what a protocol returns, the peer is told the same as by a p2p.Server.
func TestReasonsOfRun(t *testing.T) {
	undecodable := geth.Msg{Size: 1, Payload: bytes.NewReader([]byte{1})}.Decode(new([]string))
	for _, test := range []struct {
		name   string
		err    error
		reason geth.DiscReason
	}{
		{"nil", nil, geth.DiscQuitting},
		{"reason 0", geth.DiscRequested, geth.DiscRequested},
		{"reason", geth.DiscUselessPeer, geth.DiscUselessPeer},
		{"unknown reason", geth.DiscReason(0x77), 0x77},
		{"bad message", undecodable, geth.DiscProtocolError},
		{"EOF", io.EOF, geth.DiscSubprotocolError},
		{"other", errors.New("had enough"), geth.DiscSubprotocolError},
	} {
		t.Run(test.name, func(t *testing.T) {
			returns := protocol("talk", 1, func(*geth.Peer, geth.MsgReadWriter) error { return test.err })
			t.Run("ours", func(t *testing.T) {
				s := startServer(t, protocol("talk", 1, echo))
				_, result := dial(t, s, returns)
				if err := within(t, result); !errors.Is(err, test.err) {
					t.Error("Run returns", err)
				}
				if got := within(t, s.dropped); got != test.reason.String() {
					t.Error("the server was told:", got)
				}
			})
			t.Run("the server's", func(t *testing.T) {
				s := startServer(t, returns)
				checkRemoteReason(t, s, test.reason)
			})
		})
	}
}

// checkRemoteReason checks what a protocol and Run learn of a Disconnect of the server.
func checkRemoteReason(t *testing.T, s *server, want geth.DiscReason) {
	t.Helper()
	read, written := make(chan error, 2), make(chan error, 1)
	_, result := dial(t, s, protocol("talk", 1, func(_ *geth.Peer, rw geth.MsgReadWriter) error {
		for range 2 {
			_, err := rw.ReadMsg()
			read <- err
		}
		written <- geth.Send(rw, 0, "too late")
		return errors.New("which says nothing new")
	}))
	for range 2 {
		if err := within(t, read); err != want {
			t.Errorf("ReadMsg returns %v, want %v", err, want)
		}
	}
	if err := within(t, written); err != geth.ErrShuttingDown {
		t.Error("WriteMsg returns", err)
	}
	remote := &p2p.DisconnectError{Reason: p2p.DiscReason(want), Remote: true}
	if err := within(t, result); !errors.Is(err, remote) {
		t.Error("Run returns", err)
	}
}

// Peer.Disconnect ends the session with its reason, ours as the server's.
func TestReasonsOfDisconnect(t *testing.T) {
	for _, reason := range []geth.DiscReason{geth.DiscRequested, geth.DiscTooManyPeers, geth.DiscSelf, 0x42} {
		disconnects := protocol("talk", 1, func(peer *geth.Peer, rw geth.MsgReadWriter) error {
			peer.Disconnect(reason)
			_, err := rw.ReadMsg()
			peer.Disconnect(geth.DiscUselessPeer) // which comes too late, and does not wait
			return err
		})
		t.Run(reason.String(), func(t *testing.T) {
			t.Run("ours", func(t *testing.T) {
				s := startServer(t, protocol("talk", 1, echo))
				_, result := dial(t, s, disconnects)
				if err := within(t, result); !errors.Is(err, &p2p.DisconnectError{Reason: p2p.DiscReason(reason)}) {
					t.Error("Run returns", err)
				}
				if got := within(t, s.dropped); got != reason.String() {
					t.Error("the server was told:", got)
				}
			})
			t.Run("the server's", func(t *testing.T) {
				checkRemoteReason(t, startServer(t, disconnects), reason)
			})
		})
	}
}

// After an end without a word of the peer, ReadMsg returns io.EOF.
func TestEndWithoutReason(t *testing.T) {
	for name, end := range map[string]func(ours, theirs *p2p.Session){
		"our own end": func(ours, _ *p2p.Session) { ours.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			read := make(chan error, 1)
			talk := protocol("talk", 1, func(_ *geth.Peer, rw geth.MsgReadWriter) error {
				_, err := rw.ReadMsg()
				read <- err
				return err
			})
			ours, theirs := pipe(t, talk)
			result := start(ours, talk)
			end(ours, theirs)
			if err := within(t, read); err != io.EOF {
				t.Error("ReadMsg returns", err)
			}
			if err := within(t, result); err == nil || err != ours.Err() {
				t.Error("Run returns", err)
			}
		})
	}
}

func pipe(t *testing.T, protocols ...geth.Protocol) (dialed, accepted *p2p.Session) {
	t.Helper()
	a, b, err := p2p.Pipe(config(protocols), config(protocols))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// What cannot be sent changes nothing.
func TestWriteMsgRefuses(t *testing.T) {
	talk := protocol("talk", 1, nil)
	ours, theirs := pipe(t, talk)
	rw := &messages{ours.Capability("talk")}
	for _, test := range []struct {
		msg  geth.Msg
		want error
	}{
		{geth.Msg{Code: 4, Payload: bytes.NewReader(nil)}, p2p.ErrInvalidMessageID},
		{geth.Msg{Code: 1<<64 - 1, Payload: bytes.NewReader(nil)}, p2p.ErrInvalidMessageID},
		{geth.Msg{Size: 3, Payload: bytes.NewReader([]byte("ab"))}, io.ErrUnexpectedEOF},
		{geth.Msg{Size: 1 << 24, Payload: bytes.NewReader(make([]byte, 1<<24))}, rlpx.ErrMessageTooBig},
		{geth.Msg{Size: 1<<32 - 1, Payload: bytes.NewReader(nil)}, rlpx.ErrMessageTooBig},
	} {
		if err := rw.WriteMsg(test.msg); !errors.Is(err, test.want) {
			t.Errorf("%v: %v, want %v", test.msg, err, test.want)
		}
	}
	if got := reasonFor(rw.WriteMsg(geth.Msg{Code: 4})); got != p2p.DiscProtocolError {
		t.Error("a protocol that returns the error of a bad code ends with", got)
	}
	if err := geth.Send(rw, 3, []string{"good"}); err != nil {
		t.Fatal(err)
	}
	msg, err := (&messages{theirs.Capability("talk")}).ReadMsg()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := msg.Decode(&got); err != nil || msg.Code != 3 || !slices.Equal(got, []string{"good"}) {
		t.Fatal(msg, got, err)
	}
}

func TestNoProtocol(t *testing.T) {
	ours, _ := pipe(t, protocol("talk", 1, nil))
	if err := Run(ours, protocol("talk", 2, echo), protocol("other", 1, echo)); err != ErrNoProtocol {
		t.Fatal(err)
	}
	if err := ours.Err(); err != nil {
		t.Fatal("the session ended:", err)
	}
}
