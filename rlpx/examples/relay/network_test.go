package main

import (
	"context"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// inMemory runs a test on a network of pipes, with a clock that only goes on when everybody waits:
// the second that a Disconnect gets to arrive is then enough however busy the machine is. The test
// fails if it leaves goroutines.
func inMemory(t *testing.T, test func(t *testing.T, n *network)) {
	synctest.Test(t, func(t *testing.T) {
		test(t, &network{listeners: map[string]*listener{}})
	})
}

// network connects by net.Pipe. All of it is at 127.0.0.1.
type network struct {
	mu        sync.Mutex
	port      int // the last that was used
	listeners map[string]*listener
}

func (n *network) next() *net.TCPAddr {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.port++
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: n.port}
}

func (n *network) listen() net.Listener {
	l := &listener{addr: n.next(), conns: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[l.addr.String()] = l
	return l
}

// dial is a DialContext.
func (n *network) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, syscall.ECONNREFUSED
	}
	time.Sleep(time.Millisecond) // so that those who dial at the same time meet
	from := n.next()
	a, b := net.Pipe()
	select {
	case l.conns <- &end{b, l.addr, from}:
		return &end{a, from, l.addr}, nil
	case <-l.closed:
		return nil, syscall.ECONNREFUSED
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// end is an end of a pipe that has addresses.
type end struct {
	net.Conn
	local, remote net.Addr
}

func (e *end) LocalAddr() net.Addr  { return e.local }
func (e *end) RemoteAddr() net.Addr { return e.remote }

type listener struct {
	addr   *net.TCPAddr
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Addr() net.Addr { return l.addr }

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// hostPort takes an address apart that is known to be good.
func hostPort(addr string) (string, uint16) {
	host, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.ParseUint(port, 10, 16)
	return host, uint16(n)
}
