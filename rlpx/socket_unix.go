//go:build unix

package rlpx

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// socket is a net.Conn of which the system's calls are made here: to wait for bytes without holding
// a buffer for them, and to write what goes without waiting.
type socket struct {
	conn net.Conn
	raw  syscall.RawConn

	// Of the reader. The methods' values are made once: a method value made anew allocates.
	arrival func(fd uintptr) bool
	in      *readHalf
	got     int
	readErr error

	// Of the owner of the sending direction.
	attempt  func(fd uintptr) bool
	pending  []byte
	put      int
	writeErr error
}

// newSocket returns nil for whatever is not a TCP or Unix stream socket itself. What wraps one has
// methods of its own that must be called.
func newSocket(conn net.Conn) *socket {
	var raw syscall.RawConn
	var err error
	switch conn := conn.(type) {
	case *net.TCPConn:
		raw, err = conn.SyscallConn()
	case *net.UnixConn:
		if conn.LocalAddr().Network() != "unix" {
			return nil
		}
		raw, err = conn.SyscallConn()
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	s := &socket{conn: conn, raw: raw}
	s.arrival, s.attempt = s.tryRead, s.tryWrite
	return s
}

// read waits for bytes and reads them into an empty buffer of in. It holds none while it waits.
func (s *socket) read(in *readHalf) (n int, err error) {
	s.in, s.got, s.readErr = in, 0, nil
	err = s.raw.Read(s.arrival)
	s.in = nil
	if s.got == 0 && in.buf.Held() {
		in.release()
	}
	if err == nil {
		err = s.readErr
	}
	return s.got, s.opError("read", err)
}

// tryRead is called when there may be bytes. It reports false to wait.
func (s *socket) tryRead(fd uintptr) bool {
	buf := s.in.forArrival()
	n, err := retry(syscall.Read, fd, buf)
	if err == syscall.EAGAIN {
		s.in.release()
		return false
	}
	switch {
	case err != nil:
		s.readErr = os.NewSyscallError("read", err)
	case n == 0:
		s.readErr = io.EOF
	}
	s.got = n
	return true
}

// write writes as much of p as goes without waiting.
func (s *socket) write(p []byte) (n int, err error) {
	s.pending, s.put, s.writeErr = p, 0, nil
	err = s.raw.Write(s.attempt)
	s.pending = nil
	if err == nil {
		err = s.writeErr
	}
	return s.put, s.opError("write", err)
}

func (s *socket) tryWrite(fd uintptr) bool {
	n, err := retry(syscall.Write, fd, s.pending)
	if err != nil && err != syscall.EAGAIN {
		s.writeErr = os.NewSyscallError("write", err)
	}
	s.put = n
	return true
}

// retry makes a call until no signal interrupts it. It returns no negative number.
func retry(call func(fd int, p []byte) (int, error), fd uintptr, p []byte) (int, error) {
	for {
		n, err := call(int(fd), p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

// opError gives an error the form that it has from the methods of the net.Conn.
func (s *socket) opError(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if raw, ok := errors.AsType[*net.OpError](err); ok {
		err = raw.Err
	}
	return &net.OpError{
		Op: op, Net: s.conn.LocalAddr().Network(),
		Source: s.conn.LocalAddr(), Addr: s.conn.RemoteAddr(), Err: err,
	}
}
