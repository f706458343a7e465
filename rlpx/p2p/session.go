package p2p

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlpx/transport/rlpx"
)

// A Session carries the messages of the shared capabilities between two nodes. It answers Ping,
// keeps the connection alive, and says Disconnect when it ends.
//
// A session has two goroutines from NewSession until Done: the reader, and the keeper, which writes
// what the base protocol has to say. They need nothing of the application, which may be idle,
// except that a capability whose messages are not read stops the reader once its queue is full: see
// SessionConfig. Messages are written by the goroutines that call Write.
//
// All methods may be called by any goroutine at any time.
type Session struct {
	// Set at creation, read-only after.
	conn     *rlpx.Conn
	cfg      SessionConfig // without zeros
	snappy   bool
	remote   *Hello
	matched  *Matched
	channels []*Channel // in the order of matched
	start    time.Time

	received, sent atomic.Int64 // when a message last was, by clock
	stalled        atomic.Bool  // the reader waits for room in a queue
	stats          sessionCounters

	gate     gate
	pongs    chan struct{} // holds an element while a Pong is queued
	patience *time.Timer   // of the reader, made when first needed
	silence  *time.Timer   // ends the session when the peer is silent for too long
	ping     pinger

	broken  chan struct{} // closed when writing failed; what can still be read may say why
	closing chan struct{} // closed when err is set
	drained chan struct{} // closed when the reader ended
	done    chan struct{} // closed when the keeper ended, after everything else

	mu       sync.Mutex
	err      error       // why the session ended
	farewell *DiscReason // what the peer is to be told, nil if nothing
	writeErr error       // why broken was closed
	timer    *time.Timer // ends a broken session, or closes the connection of an ended one
}

// NewSession exchanges Hello over a connection whose encrypted handshake is done, as Handshake does
// and within the same time, finds the shared capabilities, and starts a session. If none is shared,
// the error is a *UselessPeerError.
//
// The connection belongs to the session from here on. After an error it is closed, with our
// Disconnect sent before if possible.
func NewSession(ctx context.Context, conn *rlpx.Conn, cfg *SessionConfig) (*Session, error) {
	s := &Session{conn: conn, cfg: cfg.withDefaults(), start: time.Now()}
	if err := s.cfg.Capabilities.Validate(); err != nil {
		Refuse(conn, DiscRequested)
		return nil, err
	}
	var err error
	if s.remote, err = Handshake(ctx, conn, s.cfg.hello()); err != nil {
		return nil, err
	}
	if s.matched, err = Match(s.cfg.Capabilities, s.remote.Caps); err != nil {
		Refuse(conn, ReasonFor(err))
		return nil, err
	}
	s.run()
	return s, nil
}

// run starts the session.
func (s *Session) run() {
	// Whatever bounded the handshakes must not bound the session.
	s.conn.SetDeadline(time.Time{})
	s.snappy = s.conn.ConnectionState().Snappy
	s.channels = make([]*Channel, s.matched.Len())
	for i, shared := range s.matched.All() {
		s.channels[i] = newChannel(s, shared)
	}
	s.gate.init(s.conn, s.cfg.WriteTimeout)
	s.ping.init()
	s.pongs = make(chan struct{}, 1)
	s.broken, s.closing = make(chan struct{}), make(chan struct{})
	s.drained, s.done = make(chan struct{}), make(chan struct{})
	s.received.Store(s.clock())
	s.sent.Store(s.clock())
	s.silence = time.AfterFunc(never, s.checkSilence)
	s.silence.Reset(s.cfg.ReadTimeout)
	go s.read()
	go s.keep()
}

// clock is the time since the session was made, in nanoseconds.
func (s *Session) clock() int64 { return int64(time.Since(s.start)) }

// Remote returns the peer's Hello. It must not be modified.
func (s *Session) Remote() *Hello { return s.remote }

// RemoteKey returns the static key that the peer proved to own.
func (s *Session) RemoteKey() *ecdsa.PublicKey { return s.conn.ConnectionState().RemoteKey }

// LocalAddr returns the local address of the connection.
func (s *Session) LocalAddr() net.Addr { return s.conn.LocalAddr() }

// RemoteAddr returns the remote address of the connection.
func (s *Session) RemoteAddr() net.Addr { return s.conn.RemoteAddr() }

// ConnectionState returns the state of the connection, which counts all messages of the session.
func (s *Session) ConnectionState() rlpx.ConnectionState { return s.conn.ConnectionState() }

// Shared returns the capabilities that both sides have.
func (s *Session) Shared() *Matched { return s.matched }

// Capability returns the channel of the shared capability of that name, nil if it is not shared.
func (s *Session) Capability(name string) *Channel {
	if shared, ok := s.matched.Find(name); ok {
		return s.channels[shared.Index]
	}
	return nil
}

// Done returns a channel that is closed when the session has ended, its connection is closed and
// its goroutines are gone.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns why the session ended, or nil while it goes on. It is set as soon as the end begins;
// all calls fail with it from then on. It has a *DisconnectError in its chain if either side said
// Disconnect or, in our case, had a reason to; whatever made us say it is in the chain as well.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Disconnect ends the session for the given reason. It tells the peer, if that is possible within a
// second, and returns nil when Done is closed. If the session has ended before, for whatever
// reason, it waits for Done as well and returns what Err does.
//
// It must not be called by the reader itself, which is what calls rlpx.Config.MessageLimit: that
// would wait for itself. There, call it in a goroutine of its own.
//
// What is queued for reading is dropped. Other calls on the session return at once, except for a
// Write of which a part may already be on the wire: that gets a moment to finish, or else ends the
// connection without a Disconnect.
func (s *Session) Disconnect(reason DiscReason) error {
	reason = reason.onWire()
	first := s.end(&DisconnectError{Reason: reason}, &reason)
	if first {
		for _, ch := range s.channels {
			ch.discard()
		}
	}
	<-s.done
	if first {
		return nil
	}
	return s.Err()
}

// Close ends the session as Disconnect does, with DiscQuitting. It returns nil, however often it is
// called and however the session ended.
func (s *Session) Close() error {
	s.Disconnect(DiscQuitting)
	return nil
}

// breach ends the session because of err, which is not the connection's fault, and tells the peer.
func (s *Session) breach(err error) {
	reason := ReasonFor(err)
	s.end(&breachError{&DisconnectError{Reason: reason}, err}, &reason)
}

// lost ends the session because the connection is of no use any more.
func (s *Session) lost(err error) { s.end(fmt.Errorf("p2p: connection lost: %w", err), nil) }

// end begins the end of the session, for the keeper to finish. It reports false if it began before:
// the first reason wins.
func (s *Session) end(err error, farewell *DiscReason) bool {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return false
	}
	s.err, s.farewell = err, farewell
	if s.timer != nil {
		s.timer.Stop()
	}
	if farewell != nil {
		// Whatever the keeper waits for, this ends it.
		s.timer = time.AfterFunc(disconnectTimeout, func() { s.conn.Close() })
	}
	s.mu.Unlock()

	close(s.closing)
	s.gate.close()
	if farewell == nil {
		s.conn.Close()
	}
	return true
}

// writeFailed is called when writing to the connection has failed for good. The peer's reason may
// be among what we have yet to read, so the reader gets a moment to find it.
func (s *Session) writeFailed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.writeErr != nil {
		return
	}
	s.writeErr = err
	close(s.broken)
	s.timer = time.AfterFunc(disconnectTimeout, func() { s.lost(err) })
}

// finish is the last act of the keeper.
func (s *Session) finish() {
	if s.farewell != nil { // which does not change any more
		<-s.gate.idle
		s.conn.SetWriteDeadline(time.Now().Add(disconnectTimeout))
		// An end that the peer was not told about is an end all the same.
		_ = sayDisconnect(s.conn, *s.farewell, s.drained)
	}
	s.conn.Close()
	<-s.drained
	release(s.conn)
	s.timerStop()
	s.silence.Stop()
	close(s.done)
}

func (s *Session) timerStop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
}

// SessionStats counts messages of the base protocol that a peer sent.
type SessionStats struct {
	Pings   uint64 // Pings; each is answered, or under a flood several together
	Pongs   uint64 // Pongs, asked for or not
	Ignored uint64 // messages under codes that the specification reserves
}

type sessionCounters struct{ pings, pongs, ignored atomic.Uint64 }

// Stats returns the counters of the session.
func (s *Session) Stats() SessionStats {
	return SessionStats{Pings: s.stats.pings.Load(), Pongs: s.stats.pongs.Load(), Ignored: s.stats.ignored.Load()}
}
