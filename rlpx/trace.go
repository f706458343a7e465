package rlpx

import "time"

// Trace is a set of callbacks for Config.Trace, in the style of net/http/httptrace. Any of
// them may be nil. The first argument is the connection, which tells connections apart; for
// numbers alone [Conn.ConnectionState] is cheaper.
//
// # What a callback may do
//
// Callbacks are called by the goroutine that does the work, in the middle of it, so that a callback
// that takes its time holds up that direction. They must not read from or write to any connection,
// nor call CloseWrite or a handshake, which may wait for themselves. Everything else on the
// connection is allowed: Close, ConnectionState, SetSnappy, limits, deadlines, addresses, and Send,
// which does not wait. A callback that panics ends its direction: see [PanicError].
//
// One Trace serves many connections at once, and both directions of each, so callbacks must be safe
// for concurrent use. Calling them allocates nothing.
//
// # Order
//
// The callbacks of a handshake come one after the other, and return before the handshake does.
// Those of the reading direction do, too, within the calls of Read.
//
// In the writing direction FrameWritten is called for one frame at a time, in the order of the
// wire, whoever writes it and with whatever method. So is Flushed for one call on the net.Conn at a
// time, and the two do not overlap. The FrameWritten of a frame always returns before the Flushed
// that counts it is called. WriteFailed may overlap with either.
type Trace struct {
	// AuthSent and AckReceived are called for an initiator, AuthReceived and AckSent for a
	// recipient: when the call of Write with the whole packet, or that of Read with the last byte
	// of it, has returned. What was received is not yet decrypted then. In a Listener they may hold
	// one of Config.MaxHandshakes slots, as VerifyPeer does.
	AuthSent, AuthReceived, AckSent, AckReceived func(c *Conn, step TraceStep)

	// HandshakeDone is called once, when a handshake has succeeded or failed, with what it took
	// and the error that it returns. Until then the connection must not be used outside
	// of callbacks. InitWithSecrets is no handshake.
	HandshakeDone func(c *Conn, took time.Duration, err error)

	// FrameRead is called by Read for each message that it returns, however the frame arrived: in
	// one piece, in many, with others, or after timeouts.
	FrameRead func(c *Conn, frame TraceFrame)

	// FrameWritten is called when the last byte of a frame was sealed and has its place in the
	// order of the wire. It is yet to be written to the net.Conn, which is what Flushed reports: at
	// once, or with other frames. WriteBatch and Broadcast report each of their frames.
	FrameWritten func(c *Conn, frame TraceFrame)

	// Flushed is called after each call of Write on the net.Conn, by whoever made it, which may be
	// for the frames of others. The end of a handshake comes first: its packets are not reported
	// here.
	Flushed func(c *Conn, flush TraceFlush)

	// ReadFailed and WriteFailed are called with the first fatal error of each direction, which all
	// later calls return. That is io.EOF when the peer has hung up, and net.ErrClosed when a call
	// finds that the connection was closed on our side. Where no call comes, nothing is reported. A
	// read timeout and a message that is too large to be sent are not fatal. The error may be kept.
	ReadFailed, WriteFailed func(c *Conn, err error)
}

// TraceStep is a packet of a handshake that was sent or received.
type TraceStep struct {
	Size int // of the packet, in bytes, with its prefix

	// Took is the time since the step before, or since the handshake began. AuthSent and AckSent
	// are the time for our curve operations; AuthReceived and AckReceived that for the peer's and
	// the way, and in a Listener for the wait for a slot. After AckReceived and AckSent there are
	// curve operations, until HandshakeDone.
	Took time.Duration

	// Elapsed is the time since the handshake began.
	Elapsed time.Duration
}

// TraceFrame is a message in its frame. Sizes are in bytes.
type TraceFrame struct {
	Code      uint64
	PlainSize int // message data before compression
	DataSize  int // message data as on the wire: what Read and Write return
	WireSize  int // the whole frame: header, code, data, padding and MACs
}

// TraceFlush is a call of Write on the net.Conn.
type TraceFlush struct {
	// Frames is how many frames end in these bytes. A frame of more than about 1 MiB is written in
	// pieces, each with a call of its own, of which all but the last count no frame.
	Frames int

	Size int           // bytes that went through; all of them, unless Err is set
	Took time.Duration // by the call
	Err  error         // what makes the writing direction fail; how many of the Frames went through is unknown then
}

// traceRead is called with in.mu held.
func (c *Conn) traceRead(code uint64, plain, data int) {
	if t := c.cfg.Trace; t != nil && t.FrameRead != nil {
		t.FrameRead(c, TraceFrame{code, plain, data, wireLen(dataSize(code, data))})
	}
}

// traceWritten is called by the owner of the sending direction.
func (c *Conn) traceWritten(frame TraceFrame) {
	if t := c.cfg.Trace; t != nil && t.FrameWritten != nil {
		t.FrameWritten(c, frame)
	}
}

// traceFlush begins a call on the net.Conn, and traceFlushed ends it. No lock is held, but there is
// one call at a time.
func (c *Conn) traceFlush() (start time.Time) {
	if t := c.cfg.Trace; t != nil && t.Flushed != nil {
		start = time.Now()
	}
	return start
}

func (c *Conn) traceFlushed(start time.Time, frames, size int, err error) {
	if t := c.cfg.Trace; t != nil && t.Flushed != nil {
		t.Flushed(c, TraceFlush{Frames: frames, Size: size, Took: time.Since(start), Err: err})
	}
}

// traceReadFailed and traceWriteFailed report the first error of a direction, whose lock is held.
func (c *Conn) traceReadFailed(err error) {
	if t := c.cfg.Trace; t != nil && t.ReadFailed != nil {
		t.ReadFailed(c, err)
	}
}

func (c *Conn) traceWriteFailed(err error) {
	if f := c.onWriteFailed.Load(); f != nil {
		(*f)(err)
	}
	if t := c.cfg.Trace; t != nil && t.WriteFailed != nil {
		t.WriteFailed(c, err)
	}
}

// tracedHandshake reports the steps of a handshake to a Trace.
type tracedHandshake struct {
	c           *Conn
	start, last time.Time
}

// traceHandshake begins a handshake. It returns nil if there is nobody to tell.
func (c *Conn) traceHandshake() *tracedHandshake {
	if c.cfg.Trace == nil {
		return nil
	}
	now := time.Now()
	return &tracedHandshake{c: c, start: now, last: now}
}

// done reports the end of the handshake, with no locks held.
func (h *tracedHandshake) done(err error) {
	if report := h.c.cfg.Trace.HandshakeDone; report != nil {
		defer h.c.crew.outside()()
		report(h.c, time.Since(h.start), err)
	}
}

func (h *tracedHandshake) received(size int) {
	t := h.c.cfg.Trace
	h.step(t.AuthReceived, t.AckReceived, size)
}

func (h *tracedHandshake) sent(size int) {
	t := h.c.cfg.Trace
	h.step(t.AckSent, t.AuthSent, size)
}

// step reports a packet to the callback of the role that we have.
func (h *tracedHandshake) step(recipient, initiator func(*Conn, TraceStep), size int) {
	report := recipient
	if h.c.dialer {
		report = initiator
	}
	now := time.Now()
	step := TraceStep{Size: size, Took: now.Sub(h.last), Elapsed: now.Sub(h.start)}
	h.last = now
	if report != nil {
		defer h.c.crew.outside()()
		report(h.c, step)
	}
}
