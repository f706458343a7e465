package rlpx

import (
	"crypto/ecdsa"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlpx/transport/handshake"
	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// peerAddr is the address of a peer that a test made up.
type peerAddr string

func (peerAddr) Network() string  { return "test" }
func (a peerAddr) String() string { return string(a) }

// watchedConn counts how often it is closed.
type watchedConn struct {
	net.Conn
	addr   peerAddr
	closes atomic.Int32
}

func (c *watchedConn) RemoteAddr() net.Addr { return c.addr }

func (c *watchedConn) Close() error {
	c.closes.Add(1)
	return c.Conn.Close()
}

// pipeListener is a net.Listener whose connections come from connect and whose errors from fail.
type pipeListener struct {
	next   chan func() (net.Conn, error)
	closed chan struct{}
	closes atomic.Int32
}

func newPipeListener() *pipeListener {
	return &pipeListener{next: make(chan func() (net.Conn, error)), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case next := <-l.next:
		return next()
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Addr() net.Addr { return peerAddr("listener") }

func (l *pipeListener) Close() error {
	if l.closes.Add(1) == 1 {
		close(l.closed)
	}
	return nil
}

// connect returns the peer's end of a new connection and the listener's end. It returns when that
// is accepted.
func (l *pipeListener) connect(addr string) (net.Conn, *watchedConn) {
	theirs, ours := net.Pipe()
	watched := &watchedConn{Conn: ours, addr: peerAddr(addr)}
	l.next <- func() (net.Conn, error) { return watched, nil }
	return theirs, watched
}

func (l *pipeListener) fail(err error) {
	l.next <- func() (net.Conn, error) { return nil, err }
}

// report is a call of Config.OnError.
type report struct {
	addr string
	err  error
	at   time.Time
}

// reports returns an OnError and the channel that it sends to.
func reports() (func(net.Addr, error), chan report) {
	ch := make(chan report, 4096)
	return func(addr net.Addr, err error) { ch <- report{addr.String(), err, time.Now()} }, ch
}

// authFor returns an auth packet to the owner of key.
func authFor(t testing.TB, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	h, err := handshake.NewInitiator(newKey(t), &key.PublicKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	auth, err := h.WriteAuth(nil)
	if err != nil {
		t.Fatal(err)
	}
	return auth
}

func mustListen(t testing.TB, cfg *Config) *Listener {
	t.Helper()
	l, err := Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// openFiles counts the file descriptors of the process, where the system shows them.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// settle fails the test unless goroutines and file descriptors go back to what they were.
func settle(t *testing.T, goroutines, files int) {
	t.Helper()
	if rlpxtest.Eventually(func() bool { return runtime.NumGoroutine() <= goroutines && openFiles() <= files }) {
		return
	}
	stacks := make([]byte, 1<<20)
	t.Fatalf("%d goroutines and %d files, had %d and %d\n%s", runtime.NumGoroutine(), openFiles(), goroutines, files,
		stacks[:runtime.Stack(stacks, true)])
}
