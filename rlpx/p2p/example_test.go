package p2p_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"sync"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// echo and upper are what the node of the examples offers: a capability that sends every message
// back, and one that sends it back in capitals.
var (
	echo  = p2p.Capability{Cap: p2p.Cap{Name: "echo", Version: 1}, Length: 16}
	upper = p2p.Capability{Cap: p2p.Cap{Name: "upper", Version: 1}, Length: 1}
)

// Dial a node, agree on a capability, send a message and read one.
func Example() {
	ctx := context.Background()
	node := startNode()
	defer node.stop()
	key, _ := crypto.GenerateKey()

	conn, err := rlpx.Dial(ctx, "tcp", node.addr, node.key, &rlpx.Config{Key: key})
	if err != nil {
		log.Fatal(err)
	}
	session, err := p2p.NewSession(ctx, conn, &p2p.SessionConfig{Name: "example/v1", Capabilities: p2p.Capabilities{echo}})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	if err := session.Capability("echo").Write(0, []byte("hello, world")); err != nil {
		log.Fatal(err)
	}
	id, data, err := session.Capability("echo").Read(ctx)
	fmt.Println(id, string(data), err)
	// Output: 0 hello, world <nil>
}

// Exchange Hello and no more, as a crawler does, and use the connection as it is.
func ExampleHandshake() {
	ctx := context.Background()
	node := startNode()
	defer node.stop()
	key, _ := crypto.GenerateKey()

	conn, err := rlpx.Dial(ctx, "tcp", node.addr, node.key, &rlpx.Config{Key: key})
	if err != nil {
		log.Fatal(err)
	}
	hello, err := p2p.Handshake(ctx, conn, &p2p.Hello{Name: "crawler/v1", Caps: []p2p.Cap{echo.Cap}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(hello.PrintableName(), hello.Caps)

	// Message 0 of the only shared capability.
	if _, err := conn.Write(p2p.BaseLength, []byte("hello, world")); err != nil {
		log.Fatal(err)
	}
	code, data, _, err := conn.Read()
	fmt.Printf("%#x %s %v\n", code, data, err)

	// Say goodbye.
	conn.Write(p2p.DisconnectCode, p2p.AppendDisconnect(nil, p2p.DiscQuitting))
	conn.Close()
	// Output:
	// node/v1 [echo/1 upper/1]
	// 0x10 hello, world <nil>
}

// A dialer that tells apart why it gets no session.
func ExampleNewSession() {
	ctx := context.Background()
	node := startNode()
	defer node.stop()
	key, _ := crypto.GenerateKey()

	conn, err := rlpx.Dial(ctx, "tcp", node.addr, node.key, &rlpx.Config{Key: key})
	if err != nil {
		log.Fatal(err)
	}
	_, err = p2p.NewSession(ctx, conn, &p2p.SessionConfig{
		Name:         "example/v1",
		Capabilities: p2p.Capabilities{{Cap: p2p.Cap{Name: "eth", Version: 68}, Length: 17}},
	})
	var disconnect *p2p.DisconnectError
	var useless *p2p.UselessPeerError
	switch {
	case errors.As(err, &disconnect):
		fmt.Println("the peer said:", disconnect.Reason)
	case errors.As(err, &useless):
		fmt.Println("the peer has other capabilities:", useless.Caps)
	default:
		fmt.Println("no session:", err)
	}
	// Output: the peer has other capabilities: [echo/1 upper/1]
}

// A listener that serves a capability to many peers, each with a goroutine of its own.
func Example_listener() {
	ctx := context.Background()
	key, _ := crypto.GenerateKey()
	listener, err := rlpx.Listen("tcp", "127.0.0.1:0", &rlpx.Config{Key: key})
	if err != nil {
		log.Fatal(err)
	}
	cfg := &p2p.SessionConfig{Name: "node/v1", Capabilities: p2p.Capabilities{echo}}

	var peers sync.WaitGroup
	peers.Go(func() {
		for {
			conn, err := listener.Accept(ctx)
			if err != nil {
				return // the listener was closed
			}
			// Hello in a goroutine too: a peer that is slow with its own must not delay others.
			peers.Go(func() {
				session, err := p2p.NewSession(ctx, conn, cfg)
				if err != nil {
					return
				}
				defer session.Close()
				for ch := session.Capability("echo"); ; {
					id, data, err := ch.Read(ctx)
					if err != nil {
						return
					}
					if err := ch.Write(id, data); err != nil {
						return
					}
				}
			})
		}
	})

	var answers sync.WaitGroup
	for i := range 10 {
		answers.Go(func() {
			session := dial(ctx, listener.Addr().String(), &key.PublicKey, echo)
			defer session.Close()
			session.Capability("echo").Write(0, fmt.Append(nil, "peer ", i))
			if _, data, err := session.Capability("echo").Read(ctx); err != nil || string(data) != fmt.Sprint("peer ", i) {
				fmt.Println(string(data), err)
			}
		})
	}
	answers.Wait()
	listener.Close()
	peers.Wait()
	fmt.Println("10 peers served")
	// Output: 10 peers served
}

// A session with two capabilities. Each is read by a goroutine of its own: one that is not read
// holds up the other in the end.
func Example_twoCapabilities() {
	ctx := context.Background()
	node := startNode()
	defer node.stop()
	session := dial(ctx, node.addr, node.key, echo, upper)
	defer session.Close()

	for _, shared := range session.Shared().All() {
		fmt.Printf("%v has codes %#x to %#x\n", shared.Cap, shared.Offset, shared.Offset+shared.Length-1)
	}
	var readers sync.WaitGroup
	answers := make(map[string]string)
	var mu sync.Mutex
	for _, name := range []string{"echo", "upper"} {
		readers.Go(func() {
			_, data, err := session.Capability(name).Read(ctx)
			if err != nil {
				log.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[name] = string(data)
		})
	}
	for _, name := range []string{"echo", "upper"} {
		if err := session.Capability(name).Write(0, []byte("hello")); err != nil {
			log.Fatal(err)
		}
	}
	readers.Wait()
	fmt.Println(answers["echo"], answers["upper"])
	// Output:
	// echo/1 has codes 0x10 to 0x1f
	// upper/1 has codes 0x20 to 0x20
	// hello HELLO
}

// A node that shuts down tells its peers that it does.
func Example_gracefulShutdown() {
	ctx := context.Background()
	node := startNode()
	session := dial(ctx, node.addr, node.key, echo)
	if _, err := session.Ping(ctx); err != nil { // the node has a session as well
		log.Fatal(err)
	}

	node.stop() // closes the listener and every session, see there

	<-session.Done()
	_, _, err := session.Capability("echo").Read(ctx)
	fmt.Println(err)
	fmt.Println(errors.Is(err, p2p.DiscQuitting))
	// Output:
	// p2p: disconnected by peer: client quitting
	// true
}

// node is a small node for the examples.
type node struct {
	addr     string
	key      *ecdsa.PublicKey
	listener *rlpx.Listener
	cancel   context.CancelFunc
	peers    sync.WaitGroup
}

func startNode() *node {
	key, err := crypto.GenerateKey()
	if err != nil {
		log.Fatal(err)
	}
	listener, err := rlpx.Listen("tcp", "127.0.0.1:0", &rlpx.Config{Key: key})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{addr: listener.Addr().String(), key: &key.PublicKey, listener: listener, cancel: cancel}
	n.peers.Go(func() {
		for {
			conn, err := listener.Accept(ctx)
			if err != nil {
				return
			}
			n.peers.Go(func() { serve(ctx, conn) })
		}
	})
	return n
}

// url is the node's enode URL.
func (n *node) url() string {
	at := netip.MustParseAddrPort(n.addr)
	return (&p2p.Node{Key: n.key, Host: at.Addr().String(), TCP: at.Port(), UDP: at.Port()}).String()
}

// ParseNode takes an enode URL apart, for those who dial by themselves.
func ExampleParseNode() {
	const key = "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798" +
		"483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8"
	for _, at := range []string{"node.example.org:30303?discport=30301", "[fe80::1%25eth0]:30303", "0.0.0.0:30303"} {
		node, err := p2p.ParseNode("enode://" + key + "@" + at)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(node.Addr(), node.UDP)
	}
	// Output:
	// node.example.org:30303 30301
	// [fe80::1%eth0]:30303 30303
	// p2p: invalid enode URL: 0.0.0.0 is a placeholder, not the address of a node
}

// stop shuts the node down: no new peers, then a Disconnect to each of the old ones.
func (n *node) stop() {
	n.listener.Close()
	n.cancel()
	n.peers.Wait()
}

// serve is a peer of the node, until either side ends the session or ctx is done.
func serve(ctx context.Context, conn *rlpx.Conn) {
	session, err := p2p.NewSession(ctx, conn, &p2p.SessionConfig{Name: "node/v1", Capabilities: p2p.Capabilities{echo, upper}})
	if err != nil {
		return
	}
	var handlers sync.WaitGroup
	for _, shared := range session.Shared().All() {
		handlers.Go(func() {
			for ch := session.Capability(shared.Name); ; {
				id, data, err := ch.Read(ctx)
				if err != nil {
					return
				}
				if shared.Name == "upper" {
					data = bytes.ToUpper(data)
				}
				if err := ch.Write(id, data); err != nil {
					return
				}
			}
		})
	}
	handlers.Wait()
	session.Close() // says "client quitting", unless the session has ended
}

// dial starts a session with a new key.
func dial(ctx context.Context, addr string, remote *ecdsa.PublicKey, capabilities ...p2p.Capability) *p2p.Session {
	key, err := crypto.GenerateKey()
	if err != nil {
		log.Fatal(err)
	}
	conn, err := rlpx.Dial(ctx, "tcp", addr, remote, &rlpx.Config{Key: key})
	if err != nil {
		log.Fatal(err)
	}
	session, err := p2p.NewSession(ctx, conn, &p2p.SessionConfig{Name: "example/v1", Capabilities: capabilities})
	if err != nil {
		log.Fatal(err)
	}
	return session
}
