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

// tick does what is due, and has the timer call it when something may be due again: the end of a
// session that is broken, the end of patience with a silent peer, a Ping.
func (s *Session) tick() {
	now := s.clock()
	s.mu.Lock()
	over, broken, writeErr := s.err != nil, s.writeErr != nil, s.writeErr
	brokenFor := time.Duration(now - s.brokenAt)
	s.mu.Unlock()
	switch {
	case over:
		return
	case broken && brokenFor >= disconnectTimeout:
		s.lost(writeErr)
		return
	case broken:
		s.again(disconnectTimeout - brokenFor)
		return
	}

	// In this order: the reader stores received before it clears busy.
	busy, received := s.busy.Load(), s.received.Load()
	silence := s.cfg.ReadTimeout
	if !busy {
		silence -= time.Duration(now - received)
	}
	if silence <= 0 {
		s.breach(ErrReadTimeout)
		return
	}
	due := s.nextPing(now, received)
	if due <= now {
		s.ping.sends(now)
		s.sendPing()
		due = s.nextPing(now, received)
	}
	s.again(min(silence, time.Duration(due-now)))
}

// again sets the timer, unless the session has ended.
func (s *Session) again(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writeErr != nil { // perhaps since d was computed
		d = min(d, disconnectTimeout)
	}
	if s.err == nil {
		s.timer.Reset(d)
	}
}

// nextPing returns when the next Ping is due. A Ping shows whether a silent peer is there, or shows
// a peer that we are.
func (s *Session) nextPing(now, received int64) int64 {
	sent := int64(0)
	if last := s.conn.ConnectionState().LastWrite; !last.IsZero() {
		sent = int64(last.Sub(s.start))
	}
	interval := int64(s.cfg.PingInterval)
	return s.ping.next(now, min(received, max(sent, 0))+interval, interval)
}

// sendPing sends a Ping. If one is queued already, that does.
func (s *Session) sendPing() { _ = s.conn.SendControl(PingCode, AppendPing(nil)) }

// answered is called when a Pong came.
func (s *Session) answered() {
	took, known, send := s.ping.answered(s.clock())
	if send {
		s.sendPing()
	}
	if f := s.cfg.Trace.Pong; f != nil && known {
		f(s, took)
	}
}

// Ping sends a Ping and returns how long its Pong took, the time that the Ping waited for the call
// under way included. Several at once wait for each other. If ctx is done before, its error is
// returned and the session goes on. The error matches ErrPingNotSent if the Ping never went out: it
// waits, for some seconds, while one before it is unanswered.
//
// Ping no more than once a second. Clients such as reth take five Pings at once and one more each
// second, those of the keep-alive included, and end the session of a peer that sends more.
func (s *Session) Ping(ctx context.Context) (time.Duration, error) {
	select {
	case s.ping.turn <- struct{}{}:
		defer func() { <-s.ping.turn }()
	case <-s.ending:
		return 0, s.Err()
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", ErrPingNotSent, ctx.Err())
	}
	answer, send := s.ping.ask(s.clock())
	if send {
		s.sendPing()
	} else {
		s.tick() // which knows when one before it is given up
	}
	select {
	case took := <-answer:
		return took, nil
	case <-s.ending:
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

	mu       sync.Mutex
	caller   chan time.Duration // gets the time of the caller's Ping, nil if there is none
	wanted   bool               // the caller's Ping is not sent yet
	underWay bool               // a Ping is not answered yet
	callers  bool               // that Ping is the caller's
	sent     int64              // when that Ping was sent
	last     int64              // when a Ping was last sent
}

// ask notes a Ping of the one caller whose turn it is. It reports whether the caller is to send it
// now; else it is sent when the one under way is answered or given up.
func (p *pinger) ask(now int64) (answer <-chan time.Duration, send bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.caller, p.wanted = make(chan time.Duration, 1), true
	if p.underWay {
		return p.caller, false
	}
	p.start(now)
	return p.caller, true
}

// forget is called when the caller does not wait any more. It reports whether its Ping was still to
// be sent.
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

// sends is called when a Ping is about to be sent that is due.
func (p *pinger) sends(now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.underWay && p.callers {
		p.last = now
		return // the next Pong is still for the Ping that the caller waits for
	}
	p.start(now)
}

// start notes that a Ping is sent now, the caller's if it wants one. It is called with mu held.
func (p *pinger) start(now int64) {
	p.underWay, p.sent, p.last = true, now, now
	p.callers, p.wanted = p.wanted, false
}

// answered is called when a Pong came. It returns how long it took, if we know, and whether the
// caller's Ping is to be sent now.
func (p *pinger) answered(now int64) (took time.Duration, known, send bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.underWay {
		return 0, false, false
	}
	took = time.Duration(now - p.sent)
	p.underWay = false
	if p.callers {
		p.callers = false
		p.caller <- took
	}
	if p.wanted {
		p.start(now)
		send = true
	}
	return took, true, send
}
