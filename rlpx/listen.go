package rlpx

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Reasons for which a Listener gives up a connection, as Config.OnError learns them.
var (
	// ErrRefused: Config.Allow returned an error, which is in the chain.
	ErrRefused = errors.New("rlpx: connection refused")

	// ErrEvicted: of all connections that waited for their peer's auth, this one
	// had waited longest when there was no room for a new one.
	ErrEvicted = errors.New("rlpx: evicted in favour of a new connection")
)

// Temporary errors of the inner listener are retried after a pause that starts with the
// smaller value, doubles with each error in a row and stops at the larger one, as in net/http.
const (
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// Listener accepts connections and performs their handshakes side by side.
//
// # What is bounded by what
//
// A connection takes one of Config.MaxPending places from the moment it comes out of the inner
// listener until Accept returns it. Config.HandshakeTimeout bounds its handshake from that same
// moment on.
//
// Waiting for a peer costs a place, and no more. Only when the whole auth packet is there does a
// handshake take one of Config.MaxHandshakes slots, for the curve operations, and it gives that
// back before it writes ack. Nothing that a peer does or fails to do therefore occupies a slot for
// longer than our own computing takes, and peers that stall delay nobody. When they fill all
// places, the one that has waited longest makes room. That is not per address; a Config.Allow that
// counts connections by address, with OnError, is.
//
// # Goroutines
//
// There is one that accepts, from [NewListener] on, so handshakes do not
// depend on a pending Accept; and one for each place taken. All end with Close. Each call
// of Config.OnError has one of its own, and up to Config.MaxPending of these delay nobody.
type Listener struct {
	inner net.Listener
	cfg   *Config

	ctx     context.Context // ends with the listener
	cancel  context.CancelCauseFunc
	places  chan struct{}   // holds one element for each place taken
	slots   chan struct{}   // holds one element for each slot taken
	reports chan struct{}   // holds one element for each call of OnError
	ready   chan handshaken // unbuffered: whoever sends knows that Accept has it

	closeInner func() error // closes inner once
	crew       crew         // goroutines of the listener but for those of OnError

	mu      sync.Mutex
	err     error      // why the listener ended, nil until it does
	waiting *list.List // of *inbound that wait for auth, oldest first
}

// Listen listens on addr, as net.Listen does, and starts a [Listener] there. The
// Config's key is checked first.
func Listen(network, addr string, cfg *Config) (*Listener, error) {
	if err := cfg.checkKey(); err != nil {
		return nil, err
	}
	inner, err := net.Listen(network, addr)
	if err != nil {
		return nil, fmt.Errorf("rlpx: %w", err)
	}
	return NewListener(inner, cfg), nil
}

// NewListener starts a [Listener] on inner, which belongs to it from then on. If the
// Config has no valid key, inner is closed and Accept returns that error.
func NewListener(inner net.Listener, cfg *Config) *Listener {
	err := cfg.checkKey()
	if cfg == nil {
		cfg = new(Config)
	}
	l := &Listener{
		inner:      inner,
		cfg:        cfg,
		places:     make(chan struct{}, cfg.maxPending()),
		slots:      make(chan struct{}, cfg.maxHandshakes()),
		reports:    make(chan struct{}, cfg.maxPending()),
		ready:      make(chan handshaken),
		closeInner: sync.OnceValue(inner.Close),
		waiting:    list.New(),
	}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	if err != nil {
		l.end(err)
		return l
	}
	l.crew.start(l.run)
	return l
}

// Addr returns the address of the inner listener.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

// Accept returns the next connection whose handshake is complete. Who the peer
// is, is not proven yet: see [ConnectionState]. The connection belongs to the caller.
//
// Accept returns ctx's error when ctx is done; no connection is lost to that. It returns
// net.ErrClosed after Close, and if the inner listener failed, that error. It may
// be called by several goroutines at once.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case h := <-l.ready:
		return h.accepted(), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		return nil, l.err
	}
}

// Close ends the listener: it closes the inner listener and every connection that Accept has not
// returned, and waits until all goroutines have ended, but for those that are in a callback: these
// end when that returns. So every callback of the Config may call Close. It may be called more than
// once and at any time; every call returns what closing the inner listener returned.
func (l *Listener) Close() error {
	l.end(net.ErrClosed)
	l.crew.wait()
	return l.closeInner()
}

// end makes everything stop, and waits for nothing.
func (l *Listener) end(err error) {
	l.mu.Lock()
	if l.err == nil || err == net.ErrClosed {
		l.err = err
	}
	l.mu.Unlock()
	l.cancel(err)
	l.closeInner()
}

// report has a goroutine of its own call OnError, so that it holds up neither peers
// nor Close. Of these goroutines there are no more than places: report waits for its
// turn, but not once the listener has ended.
func (l *Listener) report(addr net.Addr, err error) {
	if l.cfg.OnError == nil {
		return
	}
	select {
	case l.reports <- struct{}{}:
		go func() {
			defer func() { <-l.reports }()
			l.cfg.OnError(addr, err)
		}()
	case <-l.ctx.Done():
		go l.cfg.OnError(addr, err)
	}
}

// run accepts connections until the listener ends.
func (l *Listener) run() {
	for pause := time.Duration(0); ; {
		conn, err := l.inner.Accept()
		switch {
		case err == nil:
			pause = 0
			l.admit(conn)
		case l.ctx.Err() == nil && (isShortage(err) || isTemporary(err)):
			pause = min(max(2*pause, minAcceptPause), maxAcceptPause)
			l.retry(err, pause)
		default:
			l.end(err) // without effect if the listener was closed
			return
		}
	}
}

// retry deals with an error of the inner listener after which it can go on. It
// returns after the pause, or when the listener ended.
func (l *Listener) retry(err error, pause time.Duration) {
	if isShortage(err) {
		l.evict() // a peer that stalls holds some of what is short
	}
	l.report(l.Addr(), fmt.Errorf("rlpx: accepting again in %v: %w", pause, err))
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.ctx.Done():
	}
}

// isTemporary reports whether err says that the next Accept may succeed.
func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// admit starts the handshake of a new connection. Whatever may wait for the peer or for a callback
// happens in the connection's own goroutine.
func (l *Listener) admit(conn net.Conn) {
	if !l.takePlace() {
		l.crew.start(func() { l.turnAway(conn) })
		return
	}
	l.crew.start(newInbound(l, conn).serve)
}

// takePlace takes a place, that of the oldest waiting connection if need be. It returns false
// when the listener ended.
func (l *Listener) takePlace() bool {
	select {
	case l.places <- struct{}{}:
		return true
	default:
	}
	l.evict()
	select {
	case l.places <- struct{}{}:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// evict ends the connection that has waited longest for its peer, if there is one.
func (l *Listener) evict() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := l.waiting.Front(); e != nil; e = e.Next() {
		if in := e.Value.(*inbound); !in.busy {
			l.waiting.Remove(e)
			in.waits = nil
			in.cancel(ErrEvicted)
			return
		}
	}
}
