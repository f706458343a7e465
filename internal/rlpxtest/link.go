package rlpxtest

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Shape is what a [Link] does to the bytes that pass, in each direction.
type Shape struct {
	Delay  time.Duration // one way
	Jitter time.Duration // added to Delay, between nothing and this; bytes stay in order
	Rate   int           // bytes per second; 0 for no limit

	// Loss is the share of segments that are lost. TCP sends them again, so what
	// an application sees of it is that this and all later bytes are late by Retransmit.
	Loss       float64
	Retransmit time.Duration
}

const (
	linkSegment = 1448     // payload of a TCP segment on Ethernet
	linkBurst   = 16 << 10 // the most that is under way as one piece
	linkWindow  = 16       // pieces under way in one direction before the sender is held up
)

// Link carries bytes between two net.Conns, its own ends of two connections, as a slow and lossy
// network would. An end of one direction is passed on. It may be used by several goroutines at
// once.
type Link struct {
	a, b  net.Conn
	shape Shape
	pumps sync.WaitGroup
	cut   atomic.Bool
	ended chan struct{}
	once  sync.Once
}

// NewLink starts a link between a and b, which it owns.
func NewLink(a, b net.Conn, shape Shape, seed uint64) *Link {
	l := &Link{a: a, b: b, shape: shape, ended: make(chan struct{})}
	l.pumps.Go(func() { l.pump(a, b, rand.New(rand.NewPCG(seed, 1))) })
	l.pumps.Go(func() { l.pump(b, a, rand.New(rand.NewPCG(seed, 2))) })
	go func() {
		l.pumps.Wait()
		l.end()
	}()
	return l
}

// Cut resets both connections, whatever is under way.
func (l *Link) Cut() {
	l.cut.Store(true)
	l.end()
}

// WasCut reports whether Cut was called.
func (l *Link) WasCut() bool { return l.cut.Load() }

// Wait returns when nothing passes any more.
func (l *Link) Wait() {
	l.pumps.Wait()
	<-l.ended
}

func (l *Link) end() {
	l.once.Do(func() {
		close(l.ended)
		if l.WasCut() {
			Reset(l.a)
			Reset(l.b)
			return
		}
		l.a.Close()
		l.b.Close()
	})
}

// piece is what was received at once, and when it is due at the other end.
type piece struct {
	p   []byte
	due time.Time
}

// pump carries one direction.
func (l *Link) pump(from, to net.Conn, r *rand.Rand) {
	pieces := make(chan piece, linkWindow)
	l.pumps.Go(func() { l.deliver(pieces, from, to) })
	defer close(pieces)
	var last time.Time // when the previous piece is due
	for {
		p := make([]byte, 1+r.IntN(linkBurst))
		n, err := from.Read(p)
		if n > 0 {
			now := time.Now()
			due := now.Add(l.shape.Delay)
			if l.shape.Jitter > 0 {
				due = due.Add(time.Duration(r.Int64N(int64(l.shape.Jitter))))
			}
			if due.Before(last) {
				due = last
			}
			if l.shape.Rate > 0 {
				due = due.Add(time.Duration(n) * time.Second / time.Duration(l.shape.Rate))
			}
			for range (n + linkSegment - 1) / linkSegment {
				if r.Float64() < l.shape.Loss {
					due = due.Add(l.shape.Retransmit)
				}
			}
			last = due
			select {
			case pieces <- piece{p[:n], due}:
			case <-l.ended:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *Link) deliver(pieces <-chan piece, from, to net.Conn) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for p := range pieces {
		timer.Reset(time.Until(p.due))
		select {
		case <-timer.C:
		case <-l.ended:
			return
		}
		if _, err := to.Write(p.p); err != nil {
			// Nobody takes it: the sender is to notice, as by a reset.
			from.Close()
			for range pieces {
			}
			return
		}
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	} else {
		to.Close()
	}
}
