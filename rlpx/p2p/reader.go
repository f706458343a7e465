package p2p

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-rlpx/transport/rlpx"
)

// pongPatience is for how long the reader waits with a Ping until the Pong before it has gone out.
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
			s.end(readDisconnect(data, wireSize, s.snappy, err), nil)
			return
		case errors.Is(err, rlpx.ErrProtocol):
			s.breach(err)
			io.Copy(io.Discard, s.conn.NetConn())
			return
		case err != nil:
			s.lost(err)
			return
		}
		s.received.Store(s.clock())
		if !dropping {
			dropping = !s.receive(code, data)
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
		s.queuePong()
	case code == PongCode:
		s.stats.pongs.Add(1)
		s.ping.answered(s.clock())
	default:
		// Messages of old versions of the base protocol, which the specification reserves.
		s.stats.ignored.Add(1)
	}
	return true
}

// route gives a message of a capability to its channel.
func (s *Session) route(code uint64, data []byte) bool {
	shared, id, err := s.matched.Resolve(code)
	if err != nil {
		s.breach(err)
		return false
	}
	ch := s.channels[shared.Index]
	return ch.offer(id, data) || s.stall(ch, id, data)
}

// stall waits for room in the queue of ch.
func (s *Session) stall(ch *Channel, id uint64, data []byte) bool {
	s.stalled.Store(true)
	defer func() {
		// The peer was not silent, we were deaf.
		s.received.Store(s.clock())
		s.stalled.Store(false)
	}()
	timer := time.NewTimer(s.cfg.StallTimeout)
	defer timer.Stop()
	for !ch.offer(id, data) {
		select {
		case <-ch.room:
		case <-timer.C:
			s.breach(fmt.Errorf("%w: %s, %v", ErrStalled, ch.shared.Cap, s.cfg.StallTimeout))
			return false
		case <-s.broken:
			return false
		case <-s.closing:
			return false
		}
	}
	return true
}

func (s *Session) queuePong() {
	select {
	case s.pongs <- struct{}{}:
		return
	default:
	}
	if s.patience == nil {
		s.patience = time.NewTimer(pongPatience)
	} else {
		s.patience.Reset(pongPatience)
	}
	defer s.patience.Stop()
	select {
	case s.pongs <- struct{}{}:
	case <-s.patience.C:
	case <-s.broken:
	case <-s.closing:
	}
}
