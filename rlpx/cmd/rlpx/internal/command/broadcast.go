package command

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/measure"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// demoPeers is how many peers a well-connected node has.
const demoPeers = 48

// broadcast sends messages from a node to many peers, checks them and prints how it went.
func (d *demo) broadcast(ctx context.Context, from *demoNode, t *traffic) error {
	ctx, fail := context.WithCancelCause(ctx) // by a peer that gets what it should not
	defer fail(nil)
	var got tally
	channels, peers, err := d.gather(ctx, from, func() *crowdPeer {
		return &crowdPeer{traffic: t, got: &got, fail: fail, over: make(chan struct{})}
	})
	defer func() {
		for _, ch := range channels {
			ch.Session().End(p2p.DiscQuitting)
		}
		for _, p := range peers {
			p.close()
		}
	}()
	if err != nil {
		return err
	}
	start := time.Now()
	stop := d.watch(fmt.Sprintf("%s -> %d peers", from.name, len(peers)), start, &got)
	sent, err := t.sendAll(ctx, channels, d.each)
	for _, p := range peers {
		if err == nil {
			err = p.wait(ctx)
		}
	}
	took := time.Since(start)
	stop()
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	d.out.printf("broadcast    %s -> %d peers: %d messages of %s in %s, %.0f/s, %s to all, every byte as sent\n", from.name,
		len(peers), sent, byteCount(blockSize), short(took), float64(sent)/took.Seconds(), rate(got.bytes.Load(), took))
	return nil
}

// sendAll sends blocks to all channels until the time is over, one at least, then the end message.
// It returns the number of blocks.
func (t *traffic) sendAll(ctx context.Context, channels []*p2p.Channel, duration time.Duration) (n int, err error) {
	start := time.Now()
	send := func(id uint64, data []byte) error {
		for i, err := range p2p.Broadcast(ctx, channels, id, data) {
			if err != nil {
				return fmt.Errorf("sending message %d to peer %d: %w", n, i, err)
			}
		}
		return nil
	}
	for n == 0 || time.Since(start) < duration {
		if err := send(t.block(n)); err != nil {
			return n, err
		}
		n++
	}
	return n, send(endID, endOf(n))
}

// gather makes peers that dial the node. It returns the node's ends of their sessions. What it
// returns with an error is to be closed as well.
func (d *demo) gather(ctx context.Context, node *demoNode, newPeer func() *crowdPeer) (channels []*p2p.Channel, peers []*crowdPeer, err error) {
	l, at, err := node.listen()
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	err = both(ctx,
		func(ctx context.Context) error {
			for range demoPeers {
				s, err := l.Accept(ctx)
				if err != nil {
					return err
				}
				channels = append(channels, s.Capability(demoCap.Name))
			}
			return nil
		},
		func(ctx context.Context) (err error) {
			for i := range demoPeers {
				p := newPeer()
				if p.demoNode, err = d.newNode(fmt.Sprintf("peer-%d", i)); err != nil {
					return err
				}
				cfg := p.sessionConfig()
				cfg.Capabilities[0].Handle = p.handle
				if p.session, err = p2p.Dial(ctx, at.String(), p.cfg, cfg); err != nil {
					return err
				}
				peers = append(peers, p)
			}
			return nil
		})
	return channels, peers, err
}

// crowdPeer is one of the peers that a broadcast goes to.
type crowdPeer struct {
	*demoNode
	traffic *traffic
	got     *tally
	fail    func(error)   // ends the broadcast
	n       int           // messages received; only handle uses it
	over    chan struct{} // closed by the end message
}

// handle is called by the session for each message, with data that is lent.
func (p *crowdPeer) handle(_ *p2p.Channel, id uint64, data []byte) error {
	err := p.check(id, data)
	if err != nil {
		p.fail(err)
	}
	return err
}

func (p *crowdPeer) check(id uint64, data []byte) error {
	if id == endID {
		err := checkEnd(data, p.n)
		if err == nil {
			close(p.over)
		}
		return err
	}
	wantID, want := p.traffic.block(p.n)
	if err := measure.Compare(p.n, wantID, want, id, data); err != nil {
		return err
	}
	p.n++
	p.got.messages.Add(1)
	p.got.bytes.Add(int64(len(data)))
	return nil
}

// wait waits for the end message.
func (p *crowdPeer) wait(ctx context.Context) error {
	select {
	case <-p.over:
		return nil
	case <-p.session.Done():
		return fmt.Errorf("%s: %w", p.name, p.session.Err())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
