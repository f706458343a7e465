package p2p

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/go-rlpx/transport/rlpx"
)

// pongPatience is for how long the reader waits with a Ping until the Pong before it is on its way.
// After that the two get one Pong. A peer that floods us with Pings and does not read has its flood
// slowed down by this, and never costs more than one Pong; one whose Pings just came together gets
// all its Pongs.
const pongPatience = 10 * time.Millisecond

// read is the reader. After the end of the session has begun it reads on and drops what comes: the
// peer may not be able to read our Disconnect before it has written.
func (s *Session) read() {
	defer close(s.drained)
	for dropping := false; ; {
		code, data, wireSize, err := s.conn.Read()
		switch {
		case code == DisconnectCode:
			s.end(readDisconnect(data, wireSize, s.snappy, err), nil, false)
			return
		case errors.Is(err, rlpx.ErrProtocol):
			s.breach(err)
			io.Copy(io.Discard, s.conn.NetConn())
			return
		case err != nil:
			s.lost(err)
			return
		}
		if !dropping {
			s.busy.Store(true)
			dropping = !s.receive(code, data)
			s.received.Store(s.clock())
			s.busy.Store(false)
		}
	}
}

// receive handles a message other than Disconnect. It reports false if messages are to be dropped
// from here on.
func (s *Session) receive(code uint64, data []byte) bool {
	switch {
	case code >= BaseLength:
		return s.route(code, data)
	case code == HelloCode:
		s.breach(fmt.Errorf("%w: second Hello", ErrUnexpectedMessage))
		return false
	case code == PingCode:
		s.stats.pings.Add(1)
		s.pong()
	case code == PongCode:
		s.stats.pongs.Add(1)
		s.answered()
	default:
		// Messages of old versions of the base protocol, which the specification reserves.
		s.stats.ignored.Add(1)
	}
	return true
}

// route gives a message of a capability to its channel.
func (s *Session) route(code uint64, data []byte) bool {
	ch, id, err := s.resolve(code)
	if err != nil {
		s.breach(err)
		return false
	}
	if ch.shared.Handle != nil {
		return s.handle(ch, id, data)
	}
	return ch.offer(id, data) || s.stall(ch, id, data)
}

// resolve returns the channel that a code belongs to, and the message id there.
func (s *Session) resolve(code uint64) (*Channel, uint64, error) {
	for _, ch := range s.channels {
		if id := code - ch.shared.Offset; id < ch.shared.Length {
			return ch, id, nil
		}
	}
	_, _, err := s.matched.Resolve(code)
	return nil, 0, err
}

// handle has the capability's function handle a message.
func (s *Session) handle(ch *Channel, id uint64, data []byte) bool {
	select {
	case <-s.ending:
		return false
	default:
	}
	if err := ch.shared.Handle(ch, id, data); err != nil {
		s.breach(err)
		return false
	}
	return true
}

// stall waits for room in the queue of ch.
func (s *Session) stall(ch *Channel, id uint64, data []byte) bool {
	start := time.Now()
	if f := s.cfg.Trace.Stalled; f != nil {
		defer func() { f(s, ch, time.Since(start)) }()
	}
	timer := time.NewTimer(s.cfg.StallTimeout)
	defer timer.Stop()
	for !ch.offer(id, data) {
		select {
		case <-ch.room:
		case <-timer.C:
			s.breach(fmt.Errorf("%w: %s, %v", ErrStalled, ch.shared.Cap, s.cfg.StallTimeout))
			return false
		}
		if s.broken() {
			return false
		}
	}
	return true
}

// pong answers a Ping.
func (s *Session) pong() {
	if !errors.Is(s.conn.SendControl(PongCode, AppendPong(nil)), rlpx.ErrQueueFull) {
		return // or writing has failed, which the session learns otherwise
	}
	// The Pong before is still queued.
	runtime.Gosched()
	for waited := time.Duration(0); waited < pongPatience && !s.broken(); waited += pongPatience / 10 {
		if !errors.Is(s.conn.SendControl(PongCode, AppendPong(nil)), rlpx.ErrQueueFull) {
			return
		}
		time.Sleep(pongPatience / 10)
	}
}
