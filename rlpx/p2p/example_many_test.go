package p2p_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// Dial through a proxy: DialContext is that of the proxy's client, and here one of our own.
func ExampleDialer() {
	node := startNode()
	defer node.stop()
	key, _ := crypto.GenerateKey()
	dialer := &p2p.Dialer{
		RLPx:    &rlpx.Config{Key: key},
		Session: &p2p.SessionConfig{Name: "example/v1", Capabilities: p2p.Capabilities{echo}},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			fmt.Println("the proxy is asked for the node:", addr == node.addr)
			var d net.Dialer
			return d.DialContext(ctx, network, addr)
		},
	}
	session, err := dialer.Dial(context.Background(), node.url())
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	fmt.Println(session.Remote().PrintableName())
	// Output:
	// the proxy is asked for the node: true
	// node/v1
}

// A listener that takes nobody from this machine, and says whom it turned away and why. OnError is
// told of connections that Allow refused, and of those that failed in either handshake.
func ExampleListener() {
	refused := errors.New("no peers from here")
	reports := make(chan error, 1)
	key, _ := crypto.GenerateKey()
	conn := &rlpx.Config{
		Key: key,
		Allow: func(addr net.Addr) error {
			if addr.(*net.TCPAddr).IP.IsLoopback() {
				return refused
			}
			return nil
		},
		OnError: func(addr net.Addr, err error) { reports <- err },
	}
	listener, err := p2p.Listen("tcp", "127.0.0.1:0", conn, &p2p.SessionConfig{Capabilities: p2p.Capabilities{echo}})
	if err != nil {
		log.Fatal(err)
	}
	defer listener.Close()

	stranger, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer stranger.Close()
	fmt.Println(errors.Is(<-reports, refused))
	// Output: true
}

// Many small messages with few calls on the network, and a Handle function that is lent each of
// them.
func ExampleChannel_WriteBatch() {
	done := make(chan struct{})
	handler := echo
	handler.Handle = func(_ *p2p.Channel, id uint64, data []byte) error {
		fmt.Println(id, string(data))
		if id == 2 {
			close(done)
		}
		return nil
	}
	a, b := sessions(handler)
	defer a.Close()
	defer b.Close()
	msgs := []p2p.Message{{ID: 0, Data: []byte("one")}, {ID: 1, Data: []byte("two")}, {ID: 2, Data: []byte("three")}}
	if err := a.Capability("echo").WriteBatch(context.Background(), msgs); err != nil {
		log.Fatal(err)
	}
	<-done
	// Output:
	// 0 one
	// 1 two
	// 2 three
}

// Send never waits: a peer that does not keep up has rlpx.ErrQueueFull, and whoever sends decides
// what that means.
func ExampleChannel_Send() {
	release := make(chan struct{})
	busy := echo
	busy.Handle = func(*p2p.Channel, uint64, []byte) error {
		<-release // the peer is occupied with the first message
		return nil
	}
	a, b := sessions(busy)
	defer a.Close()
	defer b.Close()
	defer close(release)
	for {
		err := a.Capability("echo").Send(0, make([]byte, 100<<10))
		if errors.Is(err, rlpx.ErrQueueFull) {
			fmt.Println("the peer does not keep up, and the session goes on:", a.Err() == nil)
			return
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output: the peer does not keep up, and the session goes on: true
}

// One message to many peers, without waiting for any of them.
func ExampleSendAll() {
	received := make(chan string)
	handler := echo
	handler.Handle = func(_ *p2p.Channel, _ uint64, data []byte) error {
		received <- string(data)
		return nil
	}
	var channels []*p2p.Channel
	for range 3 {
		a, b := sessions(handler)
		defer a.Close()
		defer b.Close()
		channels = append(channels, a.Capability("echo"))
	}
	channels = append(channels, nil) // of a peer that does not share the capability
	for i, err := range p2p.SendAll(channels, 0, []byte("a new block")) {
		if err != nil {
			fmt.Printf("peer %d: %v\n", i, err)
		}
	}
	for range 3 {
		fmt.Println(<-received)
	}
	// Output:
	// peer 3: p2p: capability is not shared with the peer
	// a new block
	// a new block
	// a new block
}

// One message to many peers, until all have it.
func ExampleBroadcast() {
	var channels []*p2p.Channel
	var peers []*p2p.Session
	for range 3 {
		a, b := sessions(echo)
		defer a.Close()
		defer b.Close()
		channels, peers = append(channels, a.Capability("echo")), append(peers, b)
	}
	ctx := context.Background()
	fmt.Println(p2p.Broadcast(ctx, channels, 0, []byte("a new block")) == nil)
	for _, p := range peers {
		_, data, err := p.Capability("echo").Read(ctx)
		fmt.Println(string(data), err)
	}
	// Output:
	// true
	// a new block <nil>
	// a new block <nil>
	// a new block <nil>
}

// sessions returns two sessions with each other, of which the second has the given capability.
func sessions(listener p2p.Capability) (*p2p.Session, *p2p.Session) {
	a, b, err := p2p.Pipe(&p2p.SessionConfig{Capabilities: p2p.Capabilities{echo}}, &p2p.SessionConfig{Capabilities: p2p.Capabilities{listener}})
	if err != nil {
		log.Fatal(err)
	}
	return a, b
}
