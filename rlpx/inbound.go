package rlpx

import (
	"container/list"
	"context"
	"net"
)

// inbound is a connection on its way from a Listener's inner listener to Accept.
// It is the net.Conn under its handshake, whose steps it is told.
type inbound struct {
	net.Conn
	l      *Listener
	addr   net.Addr // of the peer
	ctx    context.Context
	cancel context.CancelCauseFunc
	closed chan struct{}

	waits *list.Element // in l.waiting, nil once it does not wait for auth; guarded by l.mu

	// Of the handshake's goroutine alone.
	slot bool // holds one
}

// newInbound is called with a place taken.
func newInbound(l *Listener, conn net.Conn, addr net.Addr) *inbound {
	in := &inbound{Conn: conn, l: l, addr: addr, closed: make(chan struct{})}
	in.ctx, in.cancel = context.WithCancelCause(l.ctx)
	l.mu.Lock()
	in.waits = l.waiting.PushBack(in)
	l.mu.Unlock()
	return in
}

// serve performs the handshake and hands the connection to Accept.
func (in *inbound) serve() {
	l := in.l
	conn := Server(in, l.cfg)
	_, err := conn.HandshakeContext(in.ctx)
	in.stopWaiting()
	in.releaseSlot()
	in.cancel(nil)
	if err == nil {
		select {
		case l.ready <- conn:
		case <-l.ctx.Done():
			conn.Close()
			err = net.ErrClosed
		}
	}
	if err != nil {
		l.report(in.addr, err)
	}
	<-l.places // not before report, so that what waits there is bounded
}

// leaveListener puts a connection whose handshake was performed in a Listener on the net.Conn
// itself. It is called before anybody but callbacks of the handshake knows the connection.
func (c *Conn) leaveListener() {
	if in, ok := c.conn.(*inbound); ok {
		c.conn = in.Conn
	}
}

// authReceived returns with a slot, so that the curve operations, which come next, happen within it. The slot is given
// back when ack is sent: what is left is one multiplication of eight, and a peer that does not read must not hold a slot.
func (in *inbound) authReceived() error {
	in.stopWaiting()
	return in.takeSlot()
}

// Close is called once, by the Conn over it.
func (in *inbound) Close() error {
	close(in.closed)
	return in.Conn.Close()
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

func (in *inbound) stopWaiting() {
	in.l.mu.Lock()
	defer in.l.mu.Unlock()
	if in.waits != nil {
		in.l.waiting.Remove(in.waits)
		in.waits = nil
	}
}
