package rlpx

import (
	"container/list"
	"context"
	"net"
)

// inbound is a connection on its way from a Listener's inner listener to Accept.
// It is the net.Conn under its handshake, because that is where one sees how far
// the handshake has come.
type inbound struct {
	net.Conn
	l      *Listener
	addr   net.Addr // of the peer
	ctx    context.Context
	cancel context.CancelCauseFunc
	closed chan struct{}

	waits *list.Element // in l.waiting, nil once it does not wait for auth; guarded by l.mu

	// Of the handshake's goroutine alone.
	received int  // bytes of auth
	slot     bool // holds one
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

// Read returns the last bytes of auth only with a slot, so that what follows them, the curve
// operations, happens within it. The handshake's driver asks for the two bytes
// of the size, then for exactly the rest of the packet.
func (in *inbound) Read(p []byte) (int, error) {
	n, err := in.Conn.Read(p)
	if in.received += n; in.received > 2 && n == len(p) {
		in.stopWaiting()
		if err := in.takeSlot(); err != nil {
			return 0, err // with the bytes, io.ReadFull would drop the error
		}
	}
	return n, err
}

// Write gives the slot back: what is written is ack, and nothing is left to compute that would count.
func (in *inbound) Write(p []byte) (int, error) {
	in.releaseSlot()
	return in.Conn.Write(p)
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
