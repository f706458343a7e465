package rlpxtest

import (
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Counting counts the calls that reach a net.Conn. Counters may be read at any time.
type Counting struct {
	net.Conn
	Reads, Writes, Closes, Deadlines atomic.Int64
	BytesRead, BytesWritten          atomic.Int64
}

// Count wraps conn.
func Count(conn net.Conn) *Counting { return &Counting{Conn: conn} }

func (c *Counting) Read(p []byte) (int, error) {
	c.Reads.Add(1)
	n, err := c.Conn.Read(p)
	c.BytesRead.Add(int64(n))
	return n, err
}

func (c *Counting) Write(p []byte) (int, error) {
	c.Writes.Add(1)
	n, err := c.Conn.Write(p)
	c.BytesWritten.Add(int64(n))
	return n, err
}

func (c *Counting) Close() error {
	c.Closes.Add(1)
	return c.Conn.Close()
}

func (c *Counting) SetDeadline(t time.Time) error {
	c.Deadlines.Add(1)
	return c.Conn.SetDeadline(t)
}

func (c *Counting) SetReadDeadline(t time.Time) error {
	c.Deadlines.Add(1)
	return c.Conn.SetReadDeadline(t)
}

func (c *Counting) SetWriteDeadline(t time.Time) error {
	c.Deadlines.Add(1)
	return c.Conn.SetWriteDeadline(t)
}

// CloseWrite closes the writing direction of the net.Conn underneath.
func (c *Counting) CloseWrite() error {
	return c.Conn.(interface{ CloseWrite() error }).CloseWrite()
}

// Filter changes what passes a net.Conn. A nil function leaves its method alone.
type Filter struct {
	net.Conn
	OnRead  func(inner net.Conn, p []byte) (int, error)
	OnWrite func(inner net.Conn, p []byte) (int, error)
}

func (f *Filter) Read(p []byte) (int, error) {
	if f.OnRead == nil {
		return f.Conn.Read(p)
	}
	return f.OnRead(f.Conn, p)
}

func (f *Filter) Write(p []byte) (int, error) {
	if f.OnWrite == nil {
		return f.Conn.Write(p)
	}
	return f.OnWrite(f.Conn, p)
}

// OneByte delivers one byte a Read.
func OneByte(conn net.Conn) net.Conn {
	return &Filter{Conn: conn, OnRead: func(inner net.Conn, p []byte) (int, error) {
		return inner.Read(p[:min(1, len(p))])
	}}
}

// SplitAt ends a Read at byte k of what is received, whatever comes together.
func SplitAt(conn net.Conn, k int) net.Conn {
	seen := 0
	return &Filter{Conn: conn, OnRead: func(inner net.Conn, p []byte) (int, error) {
		if seen < k {
			p = p[:min(len(p), k-seen)]
		}
		n, err := inner.Read(p)
		seen += n
		return n, err
	}}
}

// Damage flips bits of byte k of what is received.
func Damage(conn net.Conn, k int, bits byte) net.Conn {
	seen := 0
	return &Filter{Conn: conn, OnRead: func(inner net.Conn, p []byte) (int, error) {
		n, err := inner.Read(p)
		if i := k - seen; i >= 0 && i < n {
			p[i] ^= bits
		}
		seen += n
		return n, err
	}}
}

// FailRead delivers k bytes and then err, together with the last of them if
// together is set and else from the next Read on.
func FailRead(conn net.Conn, k int, err error, together bool) net.Conn {
	seen := 0
	return &Filter{Conn: conn, OnRead: func(inner net.Conn, p []byte) (int, error) {
		if seen >= k {
			return 0, err
		}
		n, e := inner.Read(p[:min(len(p), k-seen)])
		seen += n
		if e == nil && together && seen >= k {
			e = err
		}
		return n, e
	}}
}

// TimeoutAt lets one Read fail with a timeout after k bytes, as often as times says, and
// goes on after that.
func TimeoutAt(conn net.Conn, k, times int) net.Conn {
	seen := 0
	return &Filter{Conn: conn, OnRead: func(inner net.Conn, p []byte) (int, error) {
		if seen == k && times > 0 {
			times--
			return 0, Timeout
		}
		if seen < k {
			p = p[:min(len(p), k-seen)]
		}
		n, err := inner.Read(p)
		seen += n
		return n, err
	}}
}

// Timeout is the error of an expired deadline as the net package returns it.
var Timeout error = &net.OpError{Op: "read", Net: "test", Err: os.ErrDeadlineExceeded}

// ShortWrite lets the first k bytes through and then returns how much of the
// call that was, with err, which may be nil as a faulty net.Conn would have it.
func ShortWrite(conn net.Conn, k int, err error) net.Conn {
	seen := 0
	return &Filter{Conn: conn, OnWrite: func(inner net.Conn, p []byte) (int, error) {
		if seen+len(p) <= k {
			n, e := inner.Write(p)
			seen += n
			return n, e
		}
		n, e := 0, error(nil)
		if seen < k {
			n, e = inner.Write(p[:k-seen])
			seen += n
		}
		if e == nil {
			e = err
		}
		return n, e
	}}
}

// Script is a net.Conn without a peer: Read delivers what was given, then EOF,
// and Write records. Its zero value is empty. Feed and Written may be called at any time.
type Script struct {
	mu      sync.Mutex
	in      []byte
	out     []byte
	discard bool
	closed  bool
}

// NewScript returns a Script that delivers in.
func NewScript(in []byte) *Script { return &Script{in: in} }

// Discard makes a Script that counts on nobody looking at what is written.
func Discard() *Script { return &Script{discard: true} }

// Feed delivers more, and does not copy it.
func (s *Script) Feed(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.in) == 0 {
		s.in = p
		return
	}
	s.in = append(s.in, p...)
}

// Written returns what was written since the last call.
func (s *Script) Written() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.out
	s.out = nil
	return out
}

func (s *Script) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, net.ErrClosed
	}
	if len(s.in) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.in)
	s.in = s.in[n:]
	return n, nil
}

func (s *Script) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, net.ErrClosed
	}
	if !s.discard {
		s.out = append(s.out, p...)
	}
	return len(p), nil
}

func (s *Script) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	s.closed = true
	return nil
}

type scriptAddr struct{}

func (scriptAddr) Network() string { return "test" }
func (scriptAddr) String() string  { return "script" }

func (s *Script) LocalAddr() net.Addr              { return scriptAddr{} }
func (s *Script) RemoteAddr() net.Addr             { return scriptAddr{} }
func (s *Script) SetDeadline(time.Time) error      { return nil }
func (s *Script) SetReadDeadline(time.Time) error  { return nil }
func (s *Script) SetWriteDeadline(time.Time) error { return nil }

// Gate is a net.Conn whose Writes wait to be let through, and which Close releases. It may
// be used by several goroutines at once.
type Gate struct {
	net.Conn
	entered chan int      // length of each Write that has arrived
	pass    chan struct{} // one for each Write that may go on
	closed  chan struct{}
	once    sync.Once
}

// NewGate wraps conn.
func NewGate(conn net.Conn) *Gate {
	return &Gate{Conn: conn, entered: make(chan int), pass: make(chan struct{}), closed: make(chan struct{})}
}

// Entered waits for a Write and returns its length.
func (g *Gate) Entered() int { return <-g.entered }

// Pass lets a Write go on.
func (g *Gate) Pass() { g.pass <- struct{}{} }

// Open lets all Writes go on from now on.
func (g *Gate) Open() {
	go func() {
		for {
			select {
			case <-g.entered:
			case g.pass <- struct{}{}:
			case <-g.closed:
				return
			}
		}
	}()
}

func (g *Gate) Write(p []byte) (int, error) {
	select {
	case g.entered <- len(p):
	case <-g.closed:
		return 0, net.ErrClosed
	}
	select {
	case <-g.pass:
	case <-g.closed:
		return 0, net.ErrClosed
	}
	return g.Conn.Write(p)
}

func (g *Gate) Close() error {
	g.once.Do(func() { close(g.closed) })
	return g.Conn.Close()
}

// TCPPair returns the two ends of a loopback TCP connection.
func TCPPair() (dialed, accepted net.Conn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	dialed, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	accepted, err = l.Accept()
	if err != nil {
		dialed.Close()
		return nil, nil, err
	}
	return dialed, accepted, nil
}
