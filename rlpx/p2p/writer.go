package p2p

import (
	"errors"
	"sync"
	"time"

	"github.com/go-rlpx/transport/rlpx"
)

const (
	// maxUnderWay is how many bytes of messages may be under way in the connection at once, unless
	// it is one message. The connection writes small messages of several goroutines with one call,
	// so one at a time would be too few; but what is under way goes out before a Ping or a Pong.
	maxUnderWay = 256 << 10

	// writeGrace is what writes that are under way get for one of them to finish, time and again,
	// when the session ends. Part of a frame may be on the wire: then a Disconnect can come after
	// the whole frame, or not at all.
	writeGrace = 100 * time.Millisecond
)

// write sends a message of a capability.
func (s *Session) write(code uint64, data []byte) error {
	if !s.gate.enter(len(data)) {
		return s.Err()
	}
	_, err := s.conn.Write(code, data)
	s.gate.leave(len(data))
	switch {
	case err == nil:
		s.sent.Store(s.clock())
		return nil
	case errors.Is(err, rlpx.ErrMessageTooBig):
		return err
	}
	s.writeFailed(err)
	<-s.closing
	return s.Err()
}

// writeControl sends a message of the base protocol, ahead of all messages that are not under way
// yet. Only the keeper calls it.
func (s *Session) writeControl(code uint64, payload []byte) {
	if !s.gate.hold() {
		return
	}
	_, err := s.conn.Write(code, payload)
	s.gate.release()
	if err != nil {
		s.writeFailed(err)
		return
	}
	s.sent.Store(s.clock())
}

// A gate admits writers to the connection, in the order in which they came and no more of them than
// maxUnderWay allows. While the keeper holds it, it admits nobody, so that a control message waits
// for what is under way only. It also times the writes: as long as there are any, one has to finish
// within timeout.
type gate struct {
	conn    *rlpx.Conn
	timeout time.Duration
	idle    chan struct{} // closed when the gate is closed and nothing is under way any more

	mu      sync.Mutex
	closed  bool
	held    bool
	writers int // under way, the keeper included
	bytes   int // of messages under way
	waiting []*waiter
}

type waiter struct {
	size     int
	admitted chan bool // gets one element
}

func (g *gate) init(conn *rlpx.Conn, timeout time.Duration) {
	g.conn, g.timeout, g.idle = conn, timeout, make(chan struct{})
}

// enter waits to be admitted with a message of the given size. It reports false, at once, when the
// gate is closed. Whoever was admitted calls leave.
func (g *gate) enter(size int) bool {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return false
	}
	if len(g.waiting) == 0 && g.fits(size) {
		g.start(size)
		g.mu.Unlock()
		return true
	}
	w := &waiter{size: size, admitted: make(chan bool, 1)}
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	return <-w.admitted
}

func (g *gate) fits(size int) bool {
	return !g.held && (g.writers == 0 || size <= maxUnderWay-g.bytes)
}

func (g *gate) start(size int) {
	g.writers++
	g.bytes += size
	if g.writers == 1 {
		g.conn.SetWriteDeadline(time.Now().Add(g.timeout))
	}
}

func (g *gate) leave(size int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.finished(size)
}

func (g *gate) finished(size int) {
	g.writers--
	g.bytes -= size
	switch {
	case g.closed && g.writers == 0:
		close(g.idle)
	case g.closed:
		g.conn.SetWriteDeadline(time.Now().Add(writeGrace))
	default:
		if g.writers > 0 {
			g.conn.SetWriteDeadline(time.Now().Add(g.timeout))
		}
		for len(g.waiting) > 0 && g.fits(g.waiting[0].size) {
			w := g.waiting[0]
			g.waiting[0] = nil
			g.waiting = g.waiting[1:]
			g.start(w.size)
			w.admitted <- true
		}
	}
}

// hold admits the keeper at once, and nobody after it until release. It reports false when the gate
// is closed.
func (g *gate) hold() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.held = true
	g.start(0)
	return true
}

func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = false
	g.finished(0)
}

// close admits nobody any more, and gives writeGrace to what is under way.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, w := range g.waiting {
		w.admitted <- false
	}
	g.waiting = nil
	if g.writers == 0 {
		close(g.idle)
		return
	}
	g.conn.SetWriteDeadline(time.Now().Add(writeGrace))
}
