package p2p

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-rlpx/transport/rlpx"
)

// Listener accepts sessions. Both handshakes of all peers run side by side, the encrypted one in an
// rlpx.Listener with its bounds, and Hello in a goroutine for each connection that starts at once,
// so that its time is its own: a peer that stalls takes nothing from others.
//
// Connections that are busy with Hello, and sessions that wait for Accept, are at most
// rlpx.Config.MaxPending together. When there is no room, the oldest of those busy with Hello is
// closed. A session that waits for Accept is alive: it answers Ping, and the functions of its
// capabilities are called.
type Listener struct {
	inner *rlpx.Listener
	conn  *rlpx.Config
	cfg   *SessionConfig

	ctx    context.Context // ends with the listener
	cancel context.CancelFunc
	places chan struct{} // holds an element for each connection that Accept has not returned
	ready  chan *Session // unbuffered: whoever sends knows that Accept has it
	active sync.WaitGroup

	mu     sync.Mutex
	err    error
	hellos []*hello // connections that are busy with it, oldest first
}

// hello is a connection that is busy with Hello.
type hello struct{ cancel context.CancelCauseFunc }

// Listen listens on addr, as net.Listen does, and starts a Listener there. conn must have a Key.
//
// If the port is 0, the system chooses one, which Addr tells and Node.String makes an enode URL of.
// To announce it in Hello, call rlpx.Listen first, set SessionConfig.ListenPort, and then
// NewListener.
func Listen(network, addr string, conn *rlpx.Config, cfg *SessionConfig) (*Listener, error) {
	if err := cfg.withDefaults().Capabilities.Validate(); err != nil {
		return nil, err
	}
	inner, err := rlpx.Listen(network, addr, conn)
	if err != nil {
		return nil, err
	}
	return NewListener(inner, conn, cfg), nil
}

// NewListener starts a Listener on inner, which belongs to it from then on. conn is the Config of
// inner, of which MaxPending and OnError are used here too: OnError is also told of the connections
// whose Hello failed, and of the sessions that ended before Accept returned them. Of the latter,
// SessionTrace.Ended learns, too, and who the peer was.
func NewListener(inner *rlpx.Listener, conn *rlpx.Config, cfg *SessionConfig) *Listener {
	if conn == nil {
		conn = new(rlpx.Config)
	}
	pending := conn.MaxPending
	if pending <= 0 {
		pending = rlpx.DefaultMaxPending
	}
	l := &Listener{
		inner: inner, conn: conn, cfg: cfg,
		places: make(chan struct{}, pending),
		ready:  make(chan *Session),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.active.Go(l.run)
	return l
}

// Addr returns the address of the inner listener.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

// Accept returns the next session. It belongs to the caller, who turns away what there is no room
// for, or who is connected already, with End and the reason: the peer is told. Accept returns ctx's
// error when ctx is done; no session is lost to that. It returns net.ErrClosed after Close, and if
// the inner listener failed, that error. It may be called by several goroutines at once.
func (l *Listener) Accept(ctx context.Context) (*Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for {
		select {
		case s := <-l.ready:
			if err := s.Err(); err != nil { // it has ended while it waited
				go l.drop(s.RemoteAddr(), err)
				continue
			}
			<-l.places
			return s, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-l.ctx.Done():
			l.mu.Lock()
			defer l.mu.Unlock()
			return nil, l.err
		}
	}
}

// Close ends the listener, every connection that is busy with Hello, and with DiscQuitting every
// session that Accept has not returned. It waits until all goroutines have ended, which takes about
// a second. It waits no longer than two, for the sake of a callback that calls it and that it would
// wait for; callbacks had better use End.
func (l *Listener) Close() error {
	l.End()
	err := l.inner.Close()
	over := make(chan struct{})
	go func() {
		l.active.Wait()
		close(over)
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C:
	}
	return err
}

// closeTimeout is more than the end of a session or of a Hello takes.
const closeTimeout = 2 * disconnectTimeout

// End is Close without the wait.
func (l *Listener) End() { l.end(net.ErrClosed) }

func (l *Listener) end(err error) {
	l.mu.Lock()
	if l.err == nil {
		l.err = err
	}
	l.mu.Unlock()
	l.cancel()
}

// run accepts connections until the listener ends.
func (l *Listener) run() {
	defer l.inner.Close()
	for {
		if !l.takePlace() {
			return
		}
		conn, err := l.inner.Accept(l.ctx)
		if err != nil {
			<-l.places
			l.end(err)
			return
		}
		ctx, cancel := context.WithCancelCause(l.ctx)
		busy := &hello{cancel}
		l.mu.Lock()
		l.hellos = append(l.hellos, busy)
		l.mu.Unlock()
		l.active.Go(func() { l.serve(ctx, busy, conn) })
	}
}

// takePlace takes a place, that of the oldest connection busy with Hello if need be. It returns
// false when the listener ended.
func (l *Listener) takePlace() bool {
	select {
	case l.places <- struct{}{}:
		return l.ctx.Err() == nil
	default:
	}
	l.mu.Lock()
	if len(l.hellos) > 0 {
		l.hellos[0].cancel(rlpx.ErrEvicted)
		l.hellos = slices.Delete(l.hellos, 0, 1)
	}
	l.mu.Unlock()
	select {
	case l.places <- struct{}{}:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// serve exchanges Hello and hands the session to Accept. It holds a place.
func (l *Listener) serve(ctx context.Context, busy *hello, conn *rlpx.Conn) {
	addr := conn.RemoteAddr()
	s, err := NewSession(ctx, conn, l.cfg)
	l.mu.Lock()
	l.hellos = slices.DeleteFunc(l.hellos, func(h *hello) bool { return h == busy }) // unless it was evicted
	l.mu.Unlock()
	evicted := context.Cause(ctx) == rlpx.ErrEvicted
	busy.cancel(nil)
	if err != nil {
		if evicted {
			err = fmt.Errorf("%w: %w", rlpx.ErrEvicted, err)
		}
		l.drop(addr, err)
		return
	}
	select {
	case l.ready <- s: // whoever takes it gives the place back
	case <-s.Done():
		l.drop(addr, s.Err())
	case <-l.ctx.Done():
		s.Close()
		l.drop(addr, s.Err())
	}
}

// drop tells OnError of a connection that Accept does not return, and gives back its place. Until
// then it counts, which bounds the calls of a slow OnError.
func (l *Listener) drop(addr net.Addr, err error) {
	if l.conn.OnError != nil {
		l.conn.OnError(addr, err)
	}
	<-l.places
}
