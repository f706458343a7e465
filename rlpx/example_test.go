package rlpx_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/rlpx"
)

// Connect through a proxy: DialContext is that of the proxy's client, and here one of our own.
func ExampleDialer() {
	ctx := context.Background()
	nodeKey, _ := crypto.GenerateKey()
	node, err := rlpx.Listen("tcp", "127.0.0.1:0", &rlpx.Config{Key: nodeKey})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()

	key, _ := crypto.GenerateKey()
	dialer := &rlpx.Dialer{
		Config: &rlpx.Config{Key: key},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			fmt.Println("the proxy is asked for", addr)
			var d net.Dialer
			return d.DialContext(ctx, network, node.Addr().String())
		},
	}
	conn, err := dialer.Dial(ctx, "tcp", "node.example.org:30303", &nodeKey.PublicKey)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	fmt.Println("it is the node:", conn.ConnectionState().RemoteKey.Equal(&nodeKey.PublicKey))
	// Output:
	// the proxy is asked for node.example.org:30303
	// it is the node: true
}

// A listener that takes nobody from this machine, and says whom it turned away and why.
func ExampleListener() {
	refused := errors.New("no peers from here")
	reports := make(chan error, 1)
	key, _ := crypto.GenerateKey()
	listener, err := rlpx.Listen("tcp", "127.0.0.1:0", &rlpx.Config{
		Key: key,
		Allow: func(addr net.Addr) error {
			if addr.(*net.TCPAddr).IP.IsLoopback() {
				return refused
			}
			return nil
		},
		OnError: func(addr net.Addr, err error) { reports <- err },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer listener.Close()

	stranger, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer stranger.Close()
	report := <-reports
	fmt.Println(errors.Is(report, rlpx.ErrRefused), errors.Is(report, refused))
	// Output: true true
}

// Many small messages with few calls on the network.
func ExampleConn_WriteBatch() {
	a, b := pipe()
	defer a.Close()
	defer b.Close()
	go a.WriteBatch([]rlpx.Message{{Code: 16, Data: []byte("one")}, {Code: 17, Data: []byte("two")}})
	for range 2 {
		code, data, _, err := b.Read()
		fmt.Println(code, string(data), err)
	}
	// Output:
	// 16 one <nil>
	// 17 two <nil>
}

// A peer that does not read costs its queue and no more: Send never waits.
func ExampleConn_Send() {
	a, b := pipe()
	defer a.Close()
	defer b.Close()
	queued := 0
	for {
		err := a.Send(16, make([]byte, 100<<10)) // b does not read
		if errors.Is(err, rlpx.ErrQueueFull) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		queued++
	}
	fmt.Println("some were queued:", queued > 0)
	// Output: some were queued: true
}

// One message to many peers, without waiting for any.
func ExampleSendAll() {
	var targets []rlpx.Target
	var peers []*rlpx.Conn
	for range 5 {
		a, b := pipe()
		defer a.Close()
		defer b.Close()
		targets, peers = append(targets, rlpx.Target{Conn: a, Code: 16}), append(peers, b)
	}
	targets[4].Conn.Close()
	for i, err := range rlpx.SendAll(targets, []byte("a new block")) { // nil if all went well
		if err != nil {
			fmt.Printf("peer %d: closed %v\n", i, errors.Is(err, net.ErrClosed))
		}
	}
	for _, p := range peers[:4] {
		_, data, _, err := p.Read()
		fmt.Println(string(data), err)
	}
	// Output:
	// peer 4: closed true
	// a new block <nil>
	// a new block <nil>
	// a new block <nil>
	// a new block <nil>
}

// One message to many peers, until all have it. Where no peer may hold that up, use WriteAll with a
// context.
func ExampleBroadcast() {
	var conns []*rlpx.Conn
	received := make(chan string)
	for range 3 {
		a, b := pipe()
		defer a.Close()
		defer b.Close()
		conns = append(conns, a)
		go func() {
			_, data, _, _ := b.Read()
			received <- string(data)
		}()
	}
	errs := rlpx.Broadcast(conns, 16, []byte("a new block"))
	fmt.Println(errs == nil)
	for range conns {
		fmt.Println(<-received)
	}
	// Output:
	// true
	// a new block
	// a new block
	// a new block
}

// pipe returns two connections with each other.
func pipe() (*rlpx.Conn, *rlpx.Conn) {
	a, b, err := rlpx.Pipe(nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	return a, b
}
