package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// world is a network in memory. What its nodes do stands in kinds.
type world struct {
	t    *testing.T
	self *ecdsa.PrivateKey // of the crawler

	mu          sync.Mutex
	nodes       map[string]func(ctx context.Context) (net.Conn, error) // what a dial does, by address
	dials       int
	visits      int // the most that were under way at once
	open, most  int // connections
	longestOpen time.Duration
}

// add makes a node that dial is for and returns its enode URL.
func (w *world) add(key *ecdsa.PrivateKey, dial func(ctx context.Context) (net.Conn, error)) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.nodes)
	node := p2p.Node{Key: &key.PublicKey, Host: fmt.Sprintf("10.0.%d.%d", n/250, 1+n%250), TCP: 30303, UDP: 30303}
	w.nodes[node.Addr()] = dial
	return node.String()
}

// connect is for New.
func (w *world) connect(ctx context.Context, _, addr string) (net.Conn, error) {
	w.mu.Lock()
	dial := w.nodes[addr]
	if w.dials++; w.dials%4 == 0 {
		w.visits = max(w.visits, countStacks(".(*Crawler).visit("))
	}
	w.mu.Unlock()
	conn, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open++
	w.most = max(w.most, w.open)
	return &counted{Conn: conn, w: w, opened: time.Now()}, nil
}

// countStacks counts in how many goroutines a function is running.
func countStacks(function string) int {
	buf := make([]byte, 4<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), function)
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	w      *world
	opened time.Time
	once   sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() {
		c.w.mu.Lock()
		defer c.w.mu.Unlock()
		c.w.open--
		c.w.longestOpen = max(c.w.longestOpen, time.Since(c.opened))
	})
	return c.Conn.Close()
}

// kind is what a node does, and what the crawler should make of it.
type kind struct {
	name string
	want Outcome
	make func(w *world) (url string)
}

// kinds are all ways in which a visit goes.
var kinds = []kind{
	{"a node", Met, said(func(c *rlpx.Conn) { session(c, offered...) })},
	{"takes no goodbye", Met, said(func(c *rlpx.Conn) { exchangeHello(c); time.Sleep(4 * timeout) })},
	{"stays after goodbye", Met, said(func(c *rlpx.Conn) { exchangeHello(c); silence(c.NetConn()) })},

	{"no URL", InvalidURL, func(*world) string { return "enode://nobody@10.0.0.1:30303" }},
	{"no name", NotResolved, failed(&net.DNSError{Err: "no such host", Name: "node.invalid", IsNotFound: true})},
	{"names not answered", NotResolved, failed(&net.DNSError{Err: "i/o timeout", Name: "node.invalid", IsTimeout: true})},
	{"nobody listens", Refused, failed(os.NewSyscallError("connect", syscall.ECONNREFUSED))},
	{"nobody listens, Windows", Refused, failed(os.NewSyscallError("connectex", wsaConnRefused))},
	{"no route", NotConnected, failed(os.NewSyscallError("connect", syscall.EHOSTUNREACH))},
	{"the system gave up", ConnectTimeout, failed(os.NewSyscallError("connect", syscall.ETIMEDOUT))},
	{"no answer", ConnectTimeout, func(w *world) string {
		return w.add(newKey(w.t), func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() })
	}},

	{"hangs up", HungUp, accepts(func(net.Conn, *ecdsa.PrivateKey) {})},
	{"another key", HungUp, accepts(func(conn net.Conn, _ *ecdsa.PrivateKey) {
		another, _ := crypto.GenerateKey()
		rlpx.Server(conn, &rlpx.Config{Key: another}).HandshakeContext(context.Background())
	})},
	{"HTTP", NotRLPx, accepts(func(conn net.Conn, _ *ecdsa.PrivateKey) {
		go io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
		silence(conn)
	})},
	{"noise", BadHandshake, accepts(func(conn net.Conn, _ *ecdsa.PrivateKey) {
		go conn.Write(append([]byte{400 >> 8, 400 & 0xff}, make([]byte, 400)...))
		silence(conn)
	})},
	{"silent", HandshakeTimeout, accepts(func(conn net.Conn, _ *ecdsa.PrivateKey) { silence(conn) })},
	{"reads nothing", HandshakeTimeout, accepts(func(conn net.Conn, _ *ecdsa.PrivateKey) { time.Sleep(4 * timeout) })},
	{"a byte a second", HandshakeTimeout, accepts(func(conn net.Conn, key *ecdsa.PrivateKey) {
		accepted(slow{conn}, key)
	})},
	{"a byte a second of Hello", HelloTimeout, accepts(func(conn net.Conn, key *ecdsa.PrivateKey) {
		p, err := rlpxtest.Accept(context.Background(), conn, key)
		if err != nil {
			return
		}
		go silence(conn)
		p.Dribble(p.Egress.Seal(rlpxtest.Data(p2p.HelloCode, make([]byte, 100))), func(int) { time.Sleep(time.Second) })
	})},
	{"network down", HandshakeLost, func(w *world) string {
		return w.add(newKey(w.t), func(context.Context) (net.Conn, error) {
			a, b := net.Pipe()
			go silence(b)
			return rlpxtest.FailRead(a, 0, os.NewSyscallError("read", syscall.ENETDOWN), false), nil
		})
	}},

	{"no Hello", HelloTimeout, said(func(c *rlpx.Conn) { silence(c.NetConn()) })},
	{"closes without Hello", HelloLost, said(func(c *rlpx.Conn) {})},
	{"no room", told(p2p.DiscTooManyPeers), said(func(c *rlpx.Conn) { p2p.Refuse(c, p2p.DiscTooManyPeers) })},
	{"known already", told(p2p.DiscAlreadyConnected), said(func(c *rlpx.Conn) { p2p.Refuse(c, p2p.DiscAlreadyConnected) })},
	{"finds us useless", told(p2p.DiscUselessPeer), said(func(c *rlpx.Conn) { p2p.Refuse(c, p2p.DiscUselessPeer) })},
	{"gives no reason", told(p2p.DiscUnspecified), says(p2p.DisconnectCode, func(*rlpx.Conn) any { return []uint{} })},
	{"an unknown reason", told(0x42), says(p2p.DisconnectCode, func(*rlpx.Conn) any { return []uint{0x42} })},
	{"ourselves", Self, func(w *world) string {
		return w.add(w.self, accepting(w.self, func(conn net.Conn, key *ecdsa.PrivateKey) {
			if c, err := accepted(conn, key); err == nil {
				session(c, offered...)
			}
		}))
	}},
	{"another protocol", NothingShared, said(func(c *rlpx.Conn) {
		session(c, p2p.Capability{Cap: p2p.Cap{Name: "bzz", Version: 1}, Length: 1})
	})},
	{"no capability at all", NothingShared, says(p2p.HelloCode, func(c *rlpx.Conn) any { return helloOf(nodeID(c)) })},
	{"another identity", WrongIdentity, says(p2p.HelloCode, func(*rlpx.Conn) any { return helloOf(bytes.Repeat([]byte{1}, p2p.IDLength)) })},
	{"no identity", WrongIdentity, says(p2p.HelloCode, func(*rlpx.Conn) any { return helloOf(make([]byte, p2p.IDLength)) })},
	{"half an identity", WrongIdentity, says(p2p.HelloCode, func(*rlpx.Conn) any { return helloOf(make([]byte, p2p.IDLength/2)) })},
	{"not RLP", BadHello, says(p2p.HelloCode, func(*rlpx.Conn) any { return "Hello" })},
	{"too large", BadHello, says(p2p.HelloCode, func(*rlpx.Conn) any { return make([]byte, 1+p2p.HelloLimit) })},
	{"another message first", NotHello, says(p2p.BaseLength, func(*rlpx.Conn) any { return []uint{} })},
	{"empty frame", BadFrame, raw(func(p *rlpxtest.RawPeer) { p.SendData(nil) })},
	{"damaged frame", Unproven, raw(func(p *rlpxtest.RawPeer) {
		frame := p.Egress.Seal(rlpxtest.Data(p2p.HelloCode, nil))
		frame[20] ^= 1
		p.Send(frame)
	})},
}

// failed is a node that cannot be connected to.
func failed(err error) func(w *world) string {
	return func(w *world) string {
		return w.add(newKey(w.t), func(context.Context) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
		})
	}
}

// accepts is a node that accepts connections, for each of which it runs script, and closes them
// then.
func accepts(script func(conn net.Conn, key *ecdsa.PrivateKey)) func(w *world) string {
	return func(w *world) string {
		key := newKey(w.t)
		return w.add(key, accepting(key, script))
	}
}

func accepting(key *ecdsa.PrivateKey, script func(conn net.Conn, key *ecdsa.PrivateKey)) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		a, b := net.Pipe()
		go func() {
			defer b.Close()
			script(b, key)
		}()
		return a, nil
	}
}

func accepted(conn net.Conn, key *ecdsa.PrivateKey) (*rlpx.Conn, error) {
	c := rlpx.Server(conn, &rlpx.Config{Key: key, HandshakeTimeout: -1})
	_, err := c.HandshakeContext(context.Background())
	return c, err
}

// said is a node that runs script after the encrypted handshake.
func said(script func(c *rlpx.Conn)) func(w *world) string {
	return accepts(func(conn net.Conn, key *ecdsa.PrivateKey) {
		if c, err := accepted(conn, key); err == nil {
			script(c)
		}
	})
}

// raw is said for those who break the rules of frames.
func raw(script func(p *rlpxtest.RawPeer)) func(w *world) string {
	return accepts(func(conn net.Conn, key *ecdsa.PrivateKey) {
		p, err := rlpxtest.Accept(context.Background(), conn, key)
		if err != nil {
			return
		}
		go silence(conn)
		script(p)
		time.Sleep(time.Second) // until it is read
	})
}

// says is a node whose first message after the handshake is the given one.
func says(code uint64, payload func(c *rlpx.Conn) any) func(w *world) string {
	return said(func(c *rlpx.Conn) {
		data, err := rlp.EncodeToBytes(payload(c))
		if err != nil {
			panic(err)
		}
		go c.Write(code, data)
		silence(c.NetConn())
	})
}

// session is what an honest node does.
func session(c *rlpx.Conn, caps ...p2p.Capability) {
	s, err := p2p.NewSession(context.Background(), c, &p2p.SessionConfig{Name: "node/v1", Capabilities: caps})
	if err == nil {
		<-s.Done()
	}
}

// exchangeHello says Hello and no more.
func exchangeHello(c *rlpx.Conn) {
	p2p.Handshake(context.Background(), c, &p2p.Hello{Name: "node/v1", Caps: []p2p.Cap{offered[0].Cap}})
}

// helloOf is a Hello without capabilities.
func helloOf(id []byte) any {
	return []any{p2p.Version, "node/v1", []p2p.Cap{}, uint(0), id}
}

func nodeID(c *rlpx.Conn) []byte { return crypto.FromECDSAPub(c.ConnectionState().LocalKey)[1:] }

// silence reads to the end.
func silence(conn net.Conn) { io.Copy(io.Discard, conn) }

// slow writes a byte a second.
type slow struct{ net.Conn }

func (s slow) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := s.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
		time.Sleep(time.Second)
	}
	return len(p), nil
}
