package main

import (
	"errors"
	"net"
	"sync"
)

var errAddress = errors.New("relay: too many connections from this address")

// addresses counts accepted connections by IP address, from before their handshake until they are
// closed.
type addresses struct {
	limit int // 0: none

	mu    sync.Mutex
	open  map[string]string // the IP address of each connection, by its remote address
	hosts map[string]int    // connections by IP address
}

// take is for rlpx.Config.Allow.
func (a *addresses) take(addr net.Addr) error {
	if a.limit <= 0 {
		return nil
	}
	key := addr.String()
	host, _, err := net.SplitHostPort(key)
	if err != nil {
		host = key
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hosts[host] >= a.limit {
		return errAddress
	}
	a.open[key] = host
	a.hosts[host]++
	return nil
}

// release is for rlpx.Config.OnError and for the end of a session. Of a connection that take has
// not counted, or that was released before, it takes no notice.
func (a *addresses) release(addr net.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := addr.String()
	host, ok := a.open[key]
	if !ok {
		return
	}
	delete(a.open, key)
	if a.hosts[host]--; a.hosts[host] == 0 {
		delete(a.hosts, host)
	}
}
