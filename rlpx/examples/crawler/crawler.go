package main

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"iter"
	"net"
	"sync"
	"time"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// atOnce is how many nodes are visited at the same time.
const atOnce = 32

// offered is what we announce. Nodes turn those away that share nothing with them, so it is what
// nodes of a blockchain have.
var offered = p2p.Capabilities{
	{Cap: p2p.Cap{Name: "eth", Version: 68}, Length: 17, Handle: ignore},
	{Cap: p2p.Cap{Name: "eth", Version: 69}, Length: 18, Handle: ignore},
	{Cap: p2p.Cap{Name: "eth", Version: 70}, Length: 18, Handle: ignore},
	{Cap: p2p.Cap{Name: "snap", Version: 1}, Length: 8, Handle: ignore},
}

func ignore(*p2p.Channel, uint64, []byte) error { return nil }

// Crawler visits nodes. Make one with New.
type Crawler struct {
	dialer  p2p.Dialer
	connect func(ctx context.Context, network, addr string) (net.Conn, error)
	timeout time.Duration
}

// New makes a crawler that has the given key. The timeout bounds the connecting to a node, name
// lookup included, and again both handshakes. A nil connect stands for a net.Dialer.
func New(key *ecdsa.PrivateKey, timeout time.Duration, connect func(ctx context.Context, network, addr string) (net.Conn, error)) *Crawler {
	if connect == nil {
		connect = new(net.Dialer).DialContext
	}
	c := &Crawler{connect: connect, timeout: timeout}
	c.dialer = p2p.Dialer{
		RLPx:        &rlpx.Config{Key: key, HandshakeTimeout: timeout},
		Session:     &p2p.SessionConfig{Name: "crawler/v1", Capabilities: offered},
		DialContext: c.dial,
	}
	return c
}

// dial connects, within a time of its own.
func (c *Crawler) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.connect(ctx, network, addr)
}

// Result is what became of a visit.
type Result struct {
	URL     string // as it was given
	Outcome Outcome
	Hello   *p2p.Hello // if Outcome is Met or NothingShared
	Err     error      // otherwise
}

// Crawl visits nodes until all are visited or ctx is done. found is called once for each visit that
// came to an end, one call after the other. When Crawl returns, no connection and no goroutine is
// left.
func (c *Crawler) Crawl(ctx context.Context, urls iter.Seq[string], found func(Result)) {
	next := make(chan string)
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for url := range next {
				r := c.visit(ctx, url)
				if ctx.Err() != nil {
					continue // the visit was cut short, which says nothing of the node
				}
				mu.Lock()
				found(r)
				mu.Unlock()
			}
		})
	}
	for url := range urls {
		select {
		case next <- url:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	workers.Wait()
}

// visit dials a node and says goodbye.
func (c *Crawler) visit(ctx context.Context, url string) Result {
	s, err := c.dialer.Dial(ctx, url)
	if err != nil {
		r := Result{URL: url, Outcome: outcomeOf(err), Err: err}
		if useless, ok := errors.AsType[*p2p.UselessPeerError](err); ok {
			r.Hello = useless.Hello
		}
		return r
	}
	s.Close()
	<-s.Done()
	return Result{URL: url, Outcome: Met, Hello: s.Remote()}
}
