package p2p

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// lostPing is for how long we wait for the Pong of a Ping before we send another that a caller asks
// for. Pongs bear nothing that tells which Ping they answer: with two Pings under way, times would
// be wrong if the peer answered only one. A Pong that comes later still may be taken for the next.
const lostPing = 15 * time.Second

// keep is the keeper: it writes the messages of the base protocol, Pings when either side is silent,
// and finishes the session when it ends.
func (s *Session) keep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.closing:
			s.finish()
			return
		case <-s.pongs:
			s.writeControl(PongCode, AppendPong(nil))
		case <-s.ping.wake:
			s.keepAlive(timer)
		case <-timer.C:
			s.keepAlive(timer)
		}
	}
}

// checkSilence ends the session when the peer was silent for too long. It is called by a timer and
// not by the keeper, which may be stuck in a write that such a peer does not take.
func (s *Session) checkSilence() {
	// In this order: see stall.
	stalled := s.stalled.Load()
	received, now := s.received.Load(), s.clock()
	left := time.Duration(received-now) + s.cfg.ReadTimeout
	if stalled {
		left = s.cfg.ReadTimeout
	}
	switch {
	case left <= 0:
		s.breach(ErrReadTimeout)
	case s.Err() == nil:
		s.silence.Reset(left)
	}
}

// keepAlive sends the Ping that is due, if any, and sets timer to when one may be due again. A Ping shows
// whether a silent peer is there, or shows a peer that we are.
func (s *Session) keepAlive(timer *time.Timer) {
	due := s.nextPing()
	if now := s.clock(); due <= now {
		s.ping.sends(now)
		s.writeControl(PingCode, AppendPing(nil))
		due = s.nextPing()
	}
	// Times only move on: nothing is due earlier, unless a caller asks.
	timer.Reset(time.Duration(due - s.clock()))
}

// nextPing returns when the next Ping is due.
func (s *Session) nextPing() int64 {
	interval := int64(s.cfg.PingInterval)
	return s.ping.next(s.clock(), min(s.received.Load(), s.sent.Load())+interval, interval)
}

// Ping sends a Ping and returns how long its Pong took, the time that the Ping waited for messages
// under way included. Several at once wait for each other. If ctx is done before, its error is
// returned and the session goes on. The error matches ErrPingNotSent if the Ping never went out: it
// waits, for some seconds, while one before it is unanswered.
func (s *Session) Ping(ctx context.Context) (time.Duration, error) {
	select {
	case s.ping.turn <- struct{}{}:
		defer func() { <-s.ping.turn }()
	case <-s.closing:
		return 0, s.Err()
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", ErrPingNotSent, ctx.Err())
	}
	answer := s.ping.ask()
	select {
	case took := <-answer:
		return took, nil
	case <-s.closing:
		return 0, s.Err()
	case <-ctx.Done():
		if s.ping.forget() {
			return 0, fmt.Errorf("%w: %w", ErrPingNotSent, ctx.Err())
		}
		return 0, ctx.Err()
	}
}

// A pinger knows which Ping the next Pong is for. At most one is under way, except that a
// keep-alive Ping does not wait for ever.
type pinger struct {
	turn chan struct{} // holds an element while a caller is at it
	wake chan struct{} // holds an element when the keeper has to look again

	mu       sync.Mutex
	caller   chan time.Duration // gets the time of the caller's Ping, nil if there is none
	wanted   bool               // the caller's Ping is not sent yet
	underWay bool               // a Ping is not answered yet
	callers  bool               // that Ping is the caller's
	sent     int64              // when that Ping was sent
	last     int64              // when a Ping was last sent
}

func (p *pinger) init() {
	p.turn, p.wake = make(chan struct{}, 1), make(chan struct{}, 1)
}

// ask asks the keeper for a Ping on behalf of the one caller whose turn it is.
func (p *pinger) ask() <-chan time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.caller, p.wanted = make(chan time.Duration, 1), true
	signal(p.wake)
	return p.caller
}

// forget is called when the caller does not wait any more. It reports whether its Ping was still to be sent.
func (p *pinger) forget() (unsent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	unsent = p.wanted
	p.caller, p.wanted, p.callers = nil, false, false
	return unsent
}

// next returns when the next Ping is due, given when a keep-alive is.
func (p *pinger) next(now, keepAlive, interval int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	due := max(keepAlive, p.last+interval)
	switch {
	case p.wanted && p.underWay:
		due = min(due, p.sent+int64(lostPing))
	case p.wanted:
		due = now
	}
	return due
}

// sends is called when a Ping is about to be sent.
func (p *pinger) sends(now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = now
	if p.underWay && p.callers {
		return // the next Pong is still for the Ping that the caller waits for
	}
	p.underWay, p.sent = true, now
	p.callers, p.wanted = p.wanted, false
}

// answered is called when a Pong came.
func (p *pinger) answered(now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.underWay {
		return
	}
	p.underWay = false
	if p.callers {
		p.callers = false
		p.caller <- time.Duration(now - p.sent)
	}
	if p.wanted {
		signal(p.wake)
	}
}
