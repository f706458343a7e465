package main

import (
	"context"
	"crypto/ecdsa"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

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

// patient has no times, so that a busy machine ends no session.
var patient = p2p.SessionConfig{PingInterval: -1, ReadTimeout: -1, WriteTimeout: -1, StallTimeout: -1}

// running is a relay under test, with what it has reported.
type running struct {
	*Relay
	t     *testing.T
	net   *network // nil: TCP
	addr  string
	key   *ecdsa.PrivateKey
	close func() // ends the relay and waits for it

	mu     sync.Mutex
	events []Event
}

// start runs a relay until the end of the test, on the loopback interface if n is nil.
func start(t *testing.T, n *network, cfg Config) *running {
	t.Helper()
	if cfg.Key == nil {
		cfg.Key = newKey(t)
	}
	var inner net.Listener
	var err error
	if n != nil {
		inner, cfg.DialContext = n.listen(), n.dial
	} else if inner, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, net: n, addr: inner.Addr().String(), key: cfg.Key}
	cfg.Session = patient
	cfg.Event = func(e Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	}
	if r.Relay, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	r.Relay.conn.HandshakeTimeout = -1
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() {
		if err := r.Run(ctx, smallBuffers{inner}); err != nil {
			t.Error(err)
		}
	})
	r.close = func() { cancel(); run.Wait() }
	t.Cleanup(r.close)
	return r
}

// smallBuffers keeps the system from holding megabytes for peers that do not read.
type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		if tcp, ok := conn.(*net.TCPConn); ok {
			tcp.SetWriteBuffer(64 << 10)
		}
	}
	return conn, err
}

// node is the relay as those see it who dial it.
func (r *running) node() *p2p.Node {
	host, port := hostPort(r.addr)
	return &p2p.Node{Key: &r.key.PublicKey, Host: host, TCP: port}
}

// dial starts a session with the relay. A nil handle leaves messages to Channel.Read.
func (r *running) dial(key *ecdsa.PrivateKey, handle func(*p2p.Channel, uint64, []byte) error) (*p2p.Session, error) {
	offered := Capability
	offered.Handle = handle
	cfg := patient
	cfg.Capabilities = p2p.Capabilities{offered}
	dialer := p2p.Dialer{RLPx: &rlpx.Config{Key: key, HandshakeTimeout: -1}, Session: &cfg}
	if r.net != nil {
		dialer.DialContext = r.net.dial
	}
	return dialer.DialNode(r.t.Context(), r.node())
}

// mustDial is dial with a new key, and waits until the relay has the peer.
func (r *running) mustDial(handle func(*p2p.Channel, uint64, []byte) error) *p2p.Session {
	r.t.Helper()
	before := len(r.Peers())
	s, err := r.dial(newKey(r.t), handle)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { s.Close() })
	r.eventually("a peer more", func() bool { return len(r.Peers()) > before })
	return s
}

func (r *running) eventually(what string, ok func() bool) {
	r.t.Helper()
	wait := func() bool { return eventually(r.t, ok) }
	if r.net != nil {
		wait = func() bool { return rlpxtest.Eventually(ok) } // by the clock of synctest
	}
	if !wait() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.t.Fatalf("waited for %s; events: %v", what, r.events)
	}
}

// eventually reports whether ok becomes true. It has the time that the whole test has, so that a
// busy machine is no failure.
func eventually(t *testing.T, ok func() bool) bool {
	for {
		if rlpxtest.Eventually(ok) {
			return true
		}
		if end, limited := t.Deadline(); !limited || time.Until(end) < 2*time.Minute {
			return false
		}
	}
}

// of returns the events of a kind.
func (r *running) of(kind EventKind) (events []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == kind {
			events = append(events, e)
		}
	}
	return events
}
