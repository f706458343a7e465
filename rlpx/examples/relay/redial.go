package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

var errFull = errors.New("relay: enough peers")

// keep holds a session with a node until ctx is done.
func (r *Relay) keep(ctx context.Context, node *p2p.Node) {
	dialer := &p2p.Dialer{RLPx: r.conn, Session: r.session, DialContext: r.cfg.DialContext}
	pause := r.cfg.MinPause
	for ctx.Err() == nil {
		// Whoever dialled, one session is enough.
		if s := r.with(node); s != nil {
			lasted := wait(ctx, s)
			if lasted >= r.cfg.MaxPause {
				pause = r.cfg.MinPause
			}
		} else if err := r.dial(ctx, dialer, node); err != nil {
			if ctx.Err() != nil {
				return
			}
			r.cfg.Event(Event{Kind: NotDialled, Addr: node.Addr(), Err: err})
		} else {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		// Half of the pause is random, so that nodes that lost each other do not meet again and
		// again.
		next := pause/2 + rand.N(pause/2+1)
		r.cfg.Event(Event{Kind: DialPause, Addr: node.Addr(), Pause: next})
		sleep(ctx, next)
		pause = min(2*pause, r.cfg.MaxPause)
	}
}

// dial starts a session with a node. It returns nil if there is one afterwards.
func (r *Relay) dial(ctx context.Context, dialer *p2p.Dialer, node *p2p.Node) error {
	if len(*r.list.Load()) >= r.cfg.MaxPeers {
		return errFull // started would see to that too, but only after the work of two handshakes
	}
	s, err := dialer.DialNode(ctx, node)
	if r.with(node) != nil {
		return nil // perhaps another one, which came in meanwhile
	}
	if err == nil {
		<-s.Done() // started has refused it, or it has ended at once
		err = s.Err()
	}
	return err
}

// with returns the session with a node, nil if there is none.
func (r *Relay) with(node *p2p.Node) *p2p.Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.peers[nodeID(node.Key)]; p != nil {
		return p.session
	}
	return nil
}

// wait returns when a session has ended, or ctx. It returns for how long that took.
func wait(ctx context.Context, s *p2p.Session) time.Duration {
	start := time.Now()
	select {
	case <-s.Done():
	case <-ctx.Done():
	}
	return time.Since(start)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
