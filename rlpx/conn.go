package rlpx

import (
	"crypto/ecdsa"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is an RLPx connection over a net.Conn, which must not be used for
// anything else meanwhile. See the package documentation for concurrency,
// ownership and errors.
type Conn struct {
	// Set at creation, read-only after.
	conn     net.Conn
	cfg      *Config
	dialDest *ecdsa.PublicKey // static key of the peer; nil for a recipient
	dialer   bool             // initiator of the handshake

	handshakeMu  sync.Mutex // held while a handshake runs
	handshakeErr error      // of a failed handshake; guarded by handshakeMu
	phase        atomic.Int32
	local        *ecdsa.PublicKey // set before phase becomes established, as is remote
	remote       *ecdsa.PublicKey
	deadline     atomic.Pointer[time.Time] // of the handshake, if the Config gave it one; nil until it begins
	crew         *crew                     // that runs the handshake, nil outside of a Listener

	// The two directions share nothing mutable but what follows them.
	in  readHalf
	out writeHalf

	socket *socket // the net.Conn, if it is a socket that we can wait on and try to write to; set like remote

	onWriteFailed atomic.Pointer[func(error)]                         // OnWriteFailed
	protocolLimit atomic.Pointer[func(code uint64) (n int, own bool)] // SetMessageLimit

	snappy atomic.Bool
	proven atomic.Bool // a frame of the peer verified

	closed    atomic.Bool
	closeOnce sync.Once
	closeErr  error
	dead      atomic.Pointer[error] // why both directions ended, if it was not Close
}

// Phases of a connection.
const (
	phaseNew int32 = iota
	phaseEstablished
	phaseFailed
)

// NewConn wraps conn. If dialDest is not nil the connection is the initiator of
// the handshake and dialDest the static key of the peer, else it is the recipient.
//
// NewConn and [Conn.Handshake] are go-ethereum's way in: the deadlines that are set on
// the connection bound the handshake. [Client] and [Server] take a Config.
func NewConn(conn net.Conn, dialDest *ecdsa.PublicKey) *Conn {
	c := newConn(conn, dialDest, &Config{HandshakeTimeout: -1})
	c.dialer = dialDest != nil
	return c
}

// Client wraps conn as the initiator of a handshake with the peer whose static
// key is remote. Call [Conn.HandshakeContext] before anything else: unlike in
// crypto/tls, Read and Write do not, and panic without it.
func Client(conn net.Conn, remote *ecdsa.PublicKey, cfg *Config) *Conn {
	c := newConn(conn, remote, cfg)
	c.dialer = true
	return c
}

// Server wraps conn as the recipient of a handshake. Call [Conn.HandshakeContext]
// before anything else, as for Client.
func Server(conn net.Conn, cfg *Config) *Conn {
	return newConn(conn, nil, cfg)
}

func newConn(conn net.Conn, dialDest *ecdsa.PublicKey, cfg *Config) *Conn {
	if cfg == nil {
		cfg = new(Config)
	}
	c := &Conn{conn: conn, dialDest: dialDest, cfg: cfg}
	c.in.conn, c.out.conn = c, c
	c.out.watchdog.conn = c
	c.out.run = c.drain
	return c
}

// SetSnappy switches the compression of messages on or off, for both directions and from the next
// message on. Call it once both Hello messages went through. A message that was received but not
// yet returned by Read counts as a next message.
func (c *Conn) SetSnappy(enabled bool) { c.snappy.Store(enabled) }

// SetReadLimit bounds the size of frames that Read accepts, in bytes of frame data: the code
// and the payload as they are on the wire. A larger frame is refused as soon as its
// header verifies, before its data is read. Zero or less means 2^24-1, the protocol's own
// limit. It concerns frames whose header was not yet read.
func (c *Conn) SetReadLimit(wireBytes int) { c.in.limit.Store(int64(wireBytes)) }

// ReadLimit returns what SetReadLimit was last called with.
func (c *Conn) ReadLimit() int { return int(c.in.limit.Load()) }

// SetMessageLimit bounds the messages that Read accepts as Config.MessageLimit does, beside it: the
// smaller of the two counts, or this one alone for a code that it claims as its own. It is for
// protocols that know more about their messages than the Config did; package p2p sets it. Nil ends
// it.
func (c *Conn) SetMessageLimit(limit func(code uint64) (plainBytes int, own bool)) {
	if limit == nil {
		c.protocolLimit.Store(nil)
		return
	}
	c.protocolLimit.Store(&limit)
}

// messageLimit is the plain size allowed for messages of the given code.
func (c *Conn) messageLimit(code uint64) int {
	f := c.protocolLimit.Load()
	if f == nil {
		return c.cfg.messageLimit(code)
	}
	limit, own := (*f)(code)
	limit = max(0, min(limit, c.cfg.maxMessageSize()))
	if !own {
		limit = min(limit, c.cfg.messageLimit(code))
	}
	return limit
}

// OnWriteFailed has f called with the first fatal error of the writing direction, as
// Trace.WriteFailed is. It is for protocols on top, to learn of it where nobody waits for a write.
// f must not wait. Set it before anything is written.
func (c *Conn) OnWriteFailed(f func(err error)) { c.onWriteFailed.Store(&f) }

// SetDeadline sets the read and the write deadline of the net.Conn.
func (c *Conn) SetDeadline(t time.Time) error { return c.conn.SetDeadline(t) }

// SetReadDeadline sets the read deadline of the net.Conn. Read returns a
// timeout error when it expires, and may be called again with a later deadline.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.conn.SetReadDeadline(t) }

// SetWriteDeadline sets the write deadline of the net.Conn. A write that fails
// because of it is fatal: part of a frame may be under way.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.conn.SetWriteDeadline(t) }

// LocalAddr returns the local address of the net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.conn.LocalAddr() }

// RemoteAddr returns the remote address of the net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

// NetConn returns the wrapped net.Conn. Reading from it or writing to it breaks
// the connection.
func (c *Conn) NetConn() net.Conn { return c.conn }

// Close closes the net.Conn, once however often it is called. Everything that
// is blocked on the connection returns with net.ErrClosed.
func (c *Conn) Close() error {
	c.closeOnce.Do(func() {
		c.closed.Store(true)
		defer c.out.watchdog.stop()
		c.closeErr = c.conn.Close()
	})
	return c.closeErr
}

// abort ends both directions with err and closes the net.Conn.
func (c *Conn) abort(err error) {
	c.dead.CompareAndSwap(nil, &err)
	c.Close()
}

// ended returns why the connection as a whole ended, nil while it has not.
func (c *Conn) ended() error {
	if err := c.dead.Load(); err != nil {
		return *err
	}
	if c.closed.Load() {
		return net.ErrClosed
	}
	return nil
}

// ioError is what an error of the net.Conn means: the reason for which the
// connection was closed under the call, or the error itself.
func (c *Conn) ioError(err error) error {
	if err == nil {
		return nil
	}
	if ended := c.ended(); ended != nil {
		return ended
	}
	return err
}

func (c *Conn) mustBeEstablished(method string) error {
	switch c.phase.Load() {
	case phaseEstablished:
		return nil
	case phaseFailed:
		c.handshakeMu.Lock()
		defer c.handshakeMu.Unlock()
		return c.handshakeErr
	default:
		panic("rlpx: " + method + " before the handshake")
	}
}
