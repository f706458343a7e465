package p2p

import (
	"context"
	"crypto/ecdsa"
	"errors"
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
// A session has one goroutine from NewSession until Done: the reader. It needs nothing of the
// application, which may be idle, except that a capability whose messages are not read stops it
// once its queue is full: see SessionConfig. Messages are written by the goroutines that call
// Write, or by one that exists while Send has left something to be written.
//
// All methods may be called by any goroutine at any time, callbacks included.
type Session struct {
	// The life of a session. Every arrow is one call of end.
	//
	//	           Disconnect, breach                     said, or a second later
	//	running ───────────────────────▶ leaving ───────────────────────────────────┐
	//	   │                             (a goroutine writes our Disconnect,        ▼
	//	   │ a write failed               the reader drops what comes)      closed ▶ done
	//	   ▼           reader finds why, or a second later                          ▲ when the
	//	broken ─────────────────────────────────────────────────────────────────────┘ reader ended
	//	running ──── Disconnect of the peer, end of the connection ─────────────────┘

	// Set at creation, read-only after.
	conn     *rlpx.Conn
	cfg      SessionConfig // without zeros
	snappy   bool
	remote   *Hello
	matched  *Matched
	channels []*Channel // in the order of matched
	start    time.Time

	received atomic.Int64 // when the last message was handled, by clock
	busy     atomic.Bool  // the reader is occupied with a message: a silence is not the peer's
	stats    sessionCounters
	ping     pinger
	timer    *time.Timer // calls tick when something is due

	ending  chan struct{} // closed when err is set
	drained chan struct{} // closed when the reader ended
	closed  chan struct{} // closed when the connection is closed
	done    chan struct{} // closed when both are

	mu       sync.Mutex
	err      error // why the session ended
	writeErr error // why it is broken
	brokenAt int64
}

// NewSession exchanges Hello over a connection whose encrypted handshake is done, as Handshake does
// and within the same time, finds the shared capabilities, and starts a session. If none is shared,
// the error is a *UselessPeerError.
//
// The connection belongs to the session from here on. After an error it is closed, with our
// Disconnect sent before if possible. Limits that were set on it count beside those of the session,
// the smaller one each time: SetReadLimit, SetWriteTimeout, rlpx.Config.MessageLimit for messages
// of capabilities. Deadlines end with Hello.
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
		if useless, ok := errors.AsType[*UselessPeerError](err); ok {
			useless.Hello = s.remote
		}
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
	timeout := s.cfg.WriteTimeout
	if callers := s.conn.WriteTimeout(); callers > 0 {
		timeout = min(timeout, callers)
	}
	s.conn.SetWriteTimeout(timeout)
	s.conn.SetMessageLimit(s.messageLimit)
	s.conn.OnWriteFailed(s.writeFailed)
	s.snappy = s.conn.ConnectionState().Snappy
	s.channels = make([]*Channel, s.matched.Len())
	for i, shared := range s.matched.All() {
		s.channels[i] = newChannel(s, shared)
	}
	s.ending, s.drained = make(chan struct{}), make(chan struct{})
	s.closed, s.done = make(chan struct{}), make(chan struct{})
	s.received.Store(s.clock())
	s.ping.turn = make(chan struct{}, 1)
	s.ping.sent = s.clock()
	s.timer = time.AfterFunc(never, s.tick)
	if f := s.cfg.Trace.Started; f != nil {
		f(s)
	}
	s.tick()
	go s.read()
}

// messageLimit bounds the messages of the peer. Those of the base protocol are no concern of the
// program's own limits.
func (s *Session) messageLimit(code uint64) (plainBytes int, own bool) {
	if code < BaseLength {
		return baseLimit, true
	}
	if shared, _, err := s.matched.Resolve(code); err == nil && shared.MaxMessageSize > 0 {
		return shared.MaxMessageSize, false
	}
	return maxMessageSize, false
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
// its goroutine is gone.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns why the session ended, or nil while it goes on. It is set as soon as the end begins;
// all calls fail with it from then on. It has a *DisconnectError in its chain if either side said
// Disconnect or, in our case, had a reason to; whatever made us say it is in the chain as well.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// End begins the end of the session for the given reason and waits for nothing. The peer is told,
// if that is possible within a second. It reports whether the session had not ended before. What is
// queued is dropped: for reading, and by Send. Where a write has failed, that is the end's reason.
func (s *Session) End(reason DiscReason) bool {
	reason = reason.onWire()
	if err := s.brokenBy(); err != nil {
		s.lost(err) // the end began with that
		return false
	}
	return s.end(&DisconnectError{Reason: reason}, &reason, true)
}

// Disconnect is End, and returns when the peer was told and the connection is closed, which
// takes about a second at most. It returns nil, or what Err does if the session had ended before.
//
// Other calls on the session return at once, except for a Write of which a part may already be on
// the wire: that gets a moment to finish, or else ends the connection without a Disconnect.
// Disconnect does not wait for the reader, so that callbacks may call it: for that there is Done.
func (s *Session) Disconnect(reason DiscReason) error {
	first := s.End(reason)
	<-s.closed
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
	s.end(&breachError{&DisconnectError{Reason: reason}, err}, &reason, false)
}

// lost ends the session because the connection is of no use any more.
func (s *Session) lost(err error) { s.end(fmt.Errorf("p2p: connection lost: %w", err), nil, false) }

// end ends the session. It waits for nothing. The first reason wins: it reports false if there was
// one before. farewell is what the peer is to be told, nil if nothing. If discard, what is queued
// for reading is dropped.
func (s *Session) end(err error, farewell *DiscReason, discard bool) bool {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return false
	}
	s.err = err
	s.timer.Stop()
	close(s.ending)
	s.mu.Unlock()
	for _, ch := range s.channels {
		ch.ended(discard)
	}
	go s.leave(farewell)
	return true
}

// leave says farewell and closes the connection.
func (s *Session) leave(farewell *DiscReason) {
	if farewell != nil {
		timer := time.AfterFunc(disconnectTimeout, func() { s.conn.Close() })
		defer timer.Stop()
		// An end that the peer was not told about is an end all the same.
		_ = sayDisconnect(s.conn, s.Err(), *farewell, s.drained)
	}
	s.conn.Close()
	close(s.closed)
	<-s.drained
	release(s.conn)
	if f := s.cfg.Trace.Ended; f != nil {
		f(s, s.Err())
	}
	close(s.done)
}

// writeFailed is called when writing to the connection has failed for good. The peer's reason may
// be among what we have yet to read, so the reader gets a moment to find it.
func (s *Session) writeFailed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.writeErr != nil {
		return
	}
	s.writeErr, s.brokenAt = err, s.clock()
	s.timer.Reset(disconnectTimeout)
	for _, ch := range s.channels {
		signal(ch.room)
	}
}

// brokenBy returns the error of a write that failed while the session goes on, to find the peer's
// reason; nil if there is none.
func (s *Session) brokenBy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil
	}
	return s.writeErr
}

// broken reports whether the session has ended, or is about to because a write failed.
func (s *Session) broken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil || s.writeErr != nil
}

// written makes a session's error of one of the connection's, for a caller that waits for it.
func (s *Session) written(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, rlpx.ErrMessageTooBig) || ctx != nil && err == ctx.Err() {
		return err
	}
	s.writeFailed(err) // which may be known
	<-s.ending
	return s.Err()
}

// posted makes a session's error of one of the connection's, for a caller that waits for nothing.
func (s *Session) posted(err error) error {
	if err == nil || errors.Is(err, rlpx.ErrMessageTooBig) || errors.Is(err, rlpx.ErrQueueFull) {
		return err
	}
	s.writeFailed(err)
	if ended := s.Err(); ended != nil {
		return ended
	}
	return fmt.Errorf("p2p: connection lost: %w", err)
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
