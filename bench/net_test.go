package bench

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// connect returns a connection of the given kind: "pipe" or "tcp".
func connect(tb testing.TB, network string) (a, b net.Conn) {
	tb.Helper()
	if network == "pipe" {
		return net.Pipe()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	// The kernel completes the connection before anybody accepts it.
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		tb.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		tb.Fatal(err)
	}
	return a, b
}

// inert is the part of a net.Conn that does nothing.
type inert struct{}

func (inert) Write(p []byte) (int, error)      { return len(p), nil }
func (inert) Close() error                     { return nil }
func (inert) LocalAddr() net.Addr              { return new(net.TCPAddr) }
func (inert) RemoteAddr() net.Addr             { return new(net.TCPAddr) }
func (inert) SetDeadline(time.Time) error      { return nil }
func (inert) SetReadDeadline(time.Time) error  { return nil }
func (inert) SetWriteDeadline(time.Time) error { return nil }

// sink discards what is written.
type sink struct{ inert }

func (sink) Read([]byte) (int, error) { return 0, io.EOF }

// recorder keeps what is written.
type recorder struct {
	sink
	kept []byte
}

func (r *recorder) Write(p []byte) (int, error) {
	r.kept = append(r.kept, p...)
	return len(p), nil
}

// tape plays a recording, as a socket does into which all of it has arrived.
type tape struct {
	inert
	rest []byte
}

func (t *tape) Read(p []byte) (int, error) {
	if len(t.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// staller plays a recording and then blocks until it is closed.
type staller struct {
	tape
	once    sync.Once
	stalled chan struct{} // closed when a Read blocks
	closed  chan struct{}
}

func newStaller(recording []byte) *staller {
	return &staller{tape: tape{rest: recording}, stalled: make(chan struct{}), closed: make(chan struct{})}
}

func (s *staller) Read(p []byte) (int, error) {
	if len(s.rest) > 0 {
		return s.tape.Read(p)
	}
	s.once.Do(func() { close(s.stalled) })
	<-s.closed
	return 0, net.ErrClosed
}

func (s *staller) Close() error {
	close(s.closed)
	return nil
}

// record returns a stream of frames, count messages with the given data, as
// the other end of a session with secrets s would send them.
func record(tb testing.TB, s secrets, data []byte, count int, snappy bool) []byte {
	tb.Helper()
	r := new(recorder)
	c := reference.resume(r, s.peer())
	c.SetSnappy(snappy)
	for range count {
		mustWrite(tb, c, data)
	}
	return r.kept
}
