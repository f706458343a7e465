package rlpx

import (
	"container/list"
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// inbound is a connection on its way from a Listener's inner listener to Accept.
// It is the net.Conn under its handshake, whose steps it is told.
type inbound struct {
	net.Conn
	l        *Listener
	ctx      context.Context // ends with deadline, eviction or the listener
	cancel   context.CancelCauseFunc
	deadline time.Time // of the handshake, zero if there is none

	closed    chan struct{}
	closeOnce sync.Once
	closeErr  error

	// Guarded by l.mu.
	waits *list.Element // in l.waiting, nil once it does not wait for auth
	busy  bool          // waits for Allow and not for its peer

	// Of the connection's goroutine alone.
	addr net.Addr // of the peer
	slot bool     // holds one
}

// newInbound is called with a place taken. It calls no method of conn: any of them may wait, also
// for the peer, such as RemoteAddr where a proxy sends the address ahead.
func newInbound(l *Listener, conn net.Conn) *inbound {
	in := &inbound{Conn: conn, l: l, closed: make(chan struct{})}
	in.ctx, in.cancel = context.WithCancelCause(l.ctx)
	if timeout := l.cfg.handshakeTimeout(); timeout > 0 {
		in.deadline = time.Now().Add(timeout)
	}
	l.mu.Lock()
	in.waits = l.waiting.PushBack(in)
	l.mu.Unlock()
	return in
}

// serve performs the handshake and hands the connection to Accept.
func (in *inbound) serve() {
	l := in.l
	conn, err := in.handshake()
	in.stopWaiting()
	in.releaseSlot()
	in.cancel(nil)
	if err == nil {
		err = in.handOver(conn)
	}
	if err != nil {
		l.report(in.addr, err)
	}
	<-l.places // not before report, so that what waits there is bounded
}

// handshake asks Allow and performs the handshake. The connection is closed after an error.
func (in *inbound) handshake() (*Conn, error) {
	ctx := in.ctx
	if !in.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, in.deadline)
		defer cancel()
	}
	if err := in.admit(ctx); err != nil {
		in.Close()
		return nil, err
	}
	conn := Server(in, in.l.cfg)
	conn.crew = &in.l.crew
	conn.deadline.Store(&in.deadline)
	_, err := conn.HandshakeContext(ctx)
	return conn, err
}

// admit learns who the peer is and asks Allow.
func (in *inbound) admit(ctx context.Context) error {
	// Closing the net.Conn is what unblocks its methods. From here on the handshake watches over
	// ctx itself.
	defer context.AfterFunc(ctx, func() { in.Close() })()
	in.addr = in.Conn.RemoteAddr()
	allow := in.l.cfg.Allow
	if allow == nil || ctx.Err() != nil {
		return nil // the handshake says what ended ctx
	}
	in.setBusy(true)
	defer in.setBusy(false)
	defer in.l.crew.outside()()
	if err := allow(in.addr); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return nil
}

// handOver waits for Accept. The time that it takes is ours, and is not taken from what the peer
// has for Hello.
func (in *inbound) handOver(conn *Conn) error {
	conn.crew = nil
	left := time.Until(in.deadline)
	if left <= 0 && !in.deadline.IsZero() {
		conn.Close()
		return &handshakeError{context.DeadlineExceeded}
	}
	select {
	case in.l.ready <- handshaken{conn, left}:
		return nil
	case <-in.l.ctx.Done():
		conn.Close()
		return net.ErrClosed
	}
}

// handshaken is a connection for Accept, and what is left of the time for its handshakes.
type handshaken struct {
	conn *Conn
	left time.Duration
}

// accepted is called by Accept and lets the time go on.
func (h handshaken) accepted() *Conn {
	if deadline := h.conn.deadline.Load(); !deadline.IsZero() {
		later := time.Now().Add(h.left)
		h.conn.deadline.Store(&later)
	}
	return h.conn
}

// turnAway closes a connection for which there is no place, because the listener has ended.
func (l *Listener) turnAway(conn net.Conn) {
	conn.Close()
	l.report(conn.RemoteAddr(), net.ErrClosed)
}

// leaveListener puts a connection whose handshake was performed in a Listener on the net.Conn
// itself. It is called before anybody but callbacks of the handshake knows the connection.
func (c *Conn) leaveListener() {
	if in, ok := c.conn.(*inbound); ok {
		c.conn = in.Conn
	}
}

// authReceived returns with a slot, so that the curve operations, which come next, happen within
// it. The slot is given back when ack is sent: what is left is one multiplication of eight, and a
// peer that does not read must not hold a slot.
func (in *inbound) authReceived() error {
	in.stopWaiting()
	return in.takeSlot()
}

// Close closes the net.Conn, once.
func (in *inbound) Close() error {
	in.closeOnce.Do(func() {
		close(in.closed)
		in.closeErr = in.Conn.Close()
	})
	return in.closeErr
}

func (in *inbound) takeSlot() error {
	select {
	case in.l.slots <- struct{}{}:
		in.slot = true
		return nil
	case <-in.closed: // by a deadline, or with the listener
		return net.ErrClosed
	}
}

func (in *inbound) releaseSlot() {
	if in.slot {
		in.slot = false
		<-in.l.slots
	}
}

func (in *inbound) setBusy(busy bool) {
	in.l.mu.Lock()
	defer in.l.mu.Unlock()
	in.busy = busy
}

func (in *inbound) stopWaiting() {
	in.l.mu.Lock()
	defer in.l.mu.Unlock()
	if in.waits != nil {
		in.l.waiting.Remove(in.waits)
		in.waits = nil
	}
}
