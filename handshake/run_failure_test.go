package handshake

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// TestDeadline: at every point where the remote can stop, one deadline ends the handshake, on the
// dot, and the connection is closed once.
func TestDeadline(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	auth := seal(t, b, encode(t, authFields(t, a, b)))
	ack := seal(t, a, encode(t, ackFields(t)))
	// What the remote does before it falls silent.
	initiator := func(ctx context.Context, c net.Conn) error {
		_, err := Initiate(ctx, c, a.PrivateKey, &b.PublicKey, nil)
		return err
	}
	recipient := func(ctx context.Context, c net.Conn) error {
		_, err := Respond(ctx, c, b.PrivateKey, nil, nil)
		return err
	}
	reads := func(c net.Conn) { io.Copy(io.Discard, c) }
	partOfAck := func(n int) func(net.Conn) {
		return func(c net.Conn) {
			go reads(c)
			c.Write(ack[:n])
		}
	}
	legacy := append([]byte{4, 0x8c}, make([]byte, 305)...)
	dribble := func(packet []byte) func(net.Conn) {
		return func(c net.Conn) {
			go reads(c)
			for _, x := range packet {
				time.Sleep(time.Second) // many of these fit: the deadline is not of one read
				if _, err := c.Write([]byte{x}); err != nil {
					return
				}
			}
		}
	}
	for name, tt := range map[string]struct {
		run    func(context.Context, net.Conn) error
		remote func(net.Conn)
		step   string
	}{
		"initiator, auth is not read":       {initiator, func(net.Conn) {}, StepAuth},
		"initiator, auth is read in part":   {initiator, func(c net.Conn) { io.CopyN(io.Discard, c, 100) }, StepAuth},
		"initiator, no ack":                 {initiator, reads, StepAck},
		"initiator, ack dribbles":           {initiator, dribble(ack), StepAck},
		"recipient, nothing":                {recipient, func(net.Conn) {}, StepAuth},
		"recipient, one byte":               {recipient, func(c net.Conn) { c.Write(auth[:1]) }, StepAuth},
		"recipient, size only":              {recipient, func(c net.Conn) { c.Write(auth[:2]) }, StepAuth},
		"recipient, auth dribbles":          {recipient, dribble(auth), StepAuth},
		"recipient, auth but for a byte":    {recipient, func(c net.Conn) { c.Write(auth[:len(auth)-1]) }, StepAuth},
		"recipient, the ack is not read":    {recipient, func(c net.Conn) { c.Write(auth) }, StepAck},
		"recipient, legacy auth, waits on":  {recipient, func(c net.Conn) { c.Write(legacy) }, StepAuth},
		"recipient, a byte of ack is read":  {recipient, func(c net.Conn) { c.Write(auth); c.Read([]byte{0}) }, StepAck},
		"initiator, ack but for a byte":     {initiator, partOfAck(len(ack) - 1), StepAck},
		"initiator, ack size and then none": {initiator, partOfAck(2), StepAck},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				c1, c2 := net.Pipe()
				var remote sync.WaitGroup
				defer remote.Wait()
				defer c2.Close()
				remote.Go(func() { tt.remote(c2) })
				c := &countedConn{Conn: c1}
				before := time.Now()
				err := tt.run(ctx, c)
				refused(t, name, err, context.DeadlineExceeded)
				var e *Error
				if errors.As(err, &e) && e.Step != tt.step {
					t.Errorf("step %s, want %s", e.Step, tt.step)
				}
				var ne net.Error
				if !errors.As(err, &ne) || !ne.Timeout() {
					t.Error("no timeout as net.Error has it")
				}
				if took := time.Since(before); took != 5*time.Second {
					t.Errorf("it took %v", took)
				}
				if n := c.closes.Load(); n != 1 {
					t.Errorf("closed %d times", n)
				}
			})
		})
	}
}

// TestCancel: the close of a slow connection has returned when the driver does, and the cause is
// told.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := newTestKey(t)
		cause := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		c1, c2 := net.Pipe()
		defer c2.Close()
		slow := &slowCloser{Conn: c1}
		result := respond(ctx, slow, key, nil)
		synctest.Wait()
		cancel(cause)
		r := <-result
		refused(t, "cancelled", r.err, context.Canceled)
		if !errors.Is(r.err, cause) {
			t.Errorf("cause is lost: %v", r.err)
		}
		var ne net.Error
		if !errors.As(r.err, &ne) || ne.Timeout() || ne.Temporary() {
			t.Error("a cancelled handshake is no timeout")
		}
		if !slow.done.Load() {
			t.Error("the driver returned before the close did")
		}
	})
}

type slowCloser struct {
	net.Conn
	done atomic.Bool
}

func (c *slowCloser) Close() error {
	err := c.Conn.Close()
	time.Sleep(time.Second)
	c.done.Store(true)
	return err
}

// TestDone: a context that is done at the start writes nothing, and one that ends with the last
// step still wins.
func TestDone(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	auth := must(newInitiatorFor(t, a, b).WriteAuth(nil))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &closer{script: newScript(auth)}
	_, err := Initiate(ctx, c, a.PrivateKey, &b.PublicKey, nil)
	refused(t, "initiator", err, context.Canceled)
	if c.calls != 0 || c.closed.Load() != 1 {
		t.Errorf("%d writes, %d closes", c.calls, c.closed.Load())
	}
	// A connection that cannot be closed is not used either.
	s := newScript(auth)
	_, err = Respond(ctx, s, b.PrivateKey, nil, nil)
	refused(t, "recipient", err, context.Canceled)
	if s.calls != 0 || s.in.Len() != len(auth) {
		t.Error("used after the end of the context")
	}

	ctx, cancel = context.WithCancel(t.Context())
	c = &closer{script: newScript(auth)}
	got, err := Respond(ctx, writeHook{c, cancel}, b.PrivateKey, nil, nil)
	refused(t, "with the last write", err, context.Canceled)
	if !reflect.DeepEqual(got, Secrets{}) || c.closed.Load() != 1 {
		t.Errorf("secrets in spite of the error, or %d closes", c.closed.Load())
	}
}

// writeHook calls f after each write.
type writeHook struct {
	*closer
	f func()
}

func (h writeHook) Write(b []byte) (int, error) {
	n, err := h.closer.Write(b)
	h.f()
	return n, err
}

// TestIOErrors: what the connection returns stays in the chain, and a reset is the remote closing.
func TestIOErrors(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	auth := must(newInitiatorFor(t, a, b).WriteAuth(nil))(t)
	other := errors.New("other")
	reset := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	pipe := &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}
	early, ready := bytes.NewReader(auth[:9]), bytes.NewReader(auth)
	windows := func(number syscall.Errno) error {
		return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("wsarecv", number)}
	}
	for name, tt := range map[string]struct {
		rw   io.ReadWriter
		want []error
	}{
		"read":            {faulty{read: other}, []error{other}},
		"read deadline":   {faulty{read: os.ErrDeadlineExceeded}, []error{os.ErrDeadlineExceeded}},
		"read reset":      {faulty{read: reset}, []error{ErrRemoteClosed, syscall.ECONNRESET}},
		"own close":       {faulty{read: net.ErrClosed}, []error{net.ErrClosed}},
		"read later":      {faulty{data: bytes.NewReader(auth[:50]), read: other}, []error{other}},
		"reset later":     {faulty{data: early, read: reset}, []error{ErrRemoteClosed, syscall.ECONNRESET}},
		"Windows, reset":  {faulty{read: windows(10054)}, []error{ErrRemoteClosed, syscall.Errno(10054)}},
		"Windows, abort":  {faulty{read: windows(10053)}, []error{ErrRemoteClosed, syscall.Errno(10053)}},
		"own pipe closed": {faulty{read: io.ErrClosedPipe}, []error{io.ErrClosedPipe}},
		"pipe closed":     {faulty{data: ready, write: io.ErrClosedPipe}, []error{ErrRemoteClosed, io.ErrClosedPipe}},
		"write":           {faulty{data: bytes.NewReader(auth), write: other}, []error{other}},
		"write to closed": {faulty{data: bytes.NewReader(auth), write: pipe}, []error{ErrRemoteClosed, syscall.EPIPE}},
		"short write":     {faulty{data: bytes.NewReader(auth), short: true}, []error{io.ErrShortWrite}},
	} {
		_, err := Respond(t.Context(), tt.rw, b.PrivateKey, nil, nil)
		for _, want := range tt.want {
			refused(t, name, err, want)
		}
		if closed := errors.Is(err, ErrRemoteClosed); closed != (tt.want[0] == ErrRemoteClosed) {
			t.Errorf("%s: remote closed: %v", name, closed)
		}
		if timeout := err.(net.Error).Timeout(); timeout != (name == "read deadline") {
			t.Errorf("%s: timeout: %v", name, timeout)
		}
	}
	_, err := Initiate(t.Context(), faulty{write: other}, a.PrivateKey, &b.PublicKey, nil)
	refused(t, "initiator", err, other)
	if want := "rlpx: handshake: initiator sending auth: other"; err.Error() != want {
		t.Errorf("text %q, want %q", err, want)
	}
	_, err = Respond(t.Context(), newScript(nil), b.PrivateKey, nil, nil)
	want := "rlpx: handshake: recipient reading auth: " +
		"remote closed the connection during the handshake (0 bytes received)"
	if err.Error() != want {
		t.Errorf("text %q, want %q", err, want)
	}
	if _, err := Initiate(t.Context(), newScript(nil), nil, &b.PublicKey, nil); !errors.Is(err, ErrInvalidPrivateKey) {
		t.Errorf("nil key: %v", err)
	}
	if _, err := Respond(t.Context(), newScript(nil), nil, nil, nil); !errors.Is(err, ErrInvalidPrivateKey) {
		t.Errorf("nil key: %v", err)
	}
	broken := iotest.ErrReader(other)
	if _, err := Initiate(t.Context(), newScript(nil), a.PrivateKey, &b.PublicKey, broken); !errors.Is(err, other) {
		t.Errorf("rand: %v", err)
	}
	if _, err := Respond(t.Context(), newScript(auth), b.PrivateKey, broken, nil); !errors.Is(err, other) {
		t.Errorf("rand: %v", err)
	}
}

// TestPipeClosed: over a net.Pipe the remote closing is ErrRemoteClosed at every point, and our own
// end closing is not.
func TestPipeClosed(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	auth := must(newInitiatorFor(t, a, b).WriteAuth(nil))(t)
	initiator := func(c net.Conn) error {
		_, err := Initiate(t.Context(), c, a.PrivateKey, &b.PublicKey, nil)
		return err
	}
	recipient := func(c net.Conn) error {
		_, err := Respond(t.Context(), c, b.PrivateKey, nil, nil)
		return err
	}
	for name, tt := range map[string]struct {
		run   func(net.Conn) error
		reads int64
		auth  []byte // written after that
		step  string
		cause error
	}{
		"before auth":            {initiator, 0, nil, StepAuth, io.ErrClosedPipe},
		"after a part of auth":   {initiator, 9, nil, StepAuth, io.ErrClosedPipe},
		"without auth":           {recipient, 0, nil, StepAuth, io.EOF},
		"within auth":            {recipient, 0, auth[:9], StepAuth, io.ErrUnexpectedEOF},
		"instead of reading ack": {recipient, 0, auth, StepAck, io.ErrClosedPipe},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer ours.Close()
			var remote sync.WaitGroup
			defer remote.Wait()
			remote.Go(func() {
				io.CopyN(io.Discard, theirs, tt.reads)
				if len(tt.auth) > 0 { // even nothing is written only to a reader
					theirs.Write(tt.auth)
				}
				theirs.Close()
			})
			err := tt.run(ours)
			refused(t, name, err, ErrRemoteClosed)
			refused(t, name, err, tt.cause)
			var e *Error
			if errors.As(err, &e) && e.Step != tt.step {
				t.Errorf("step %s, want %s", e.Step, tt.step)
			}
		})
	}
	t.Run("our own end", func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		ours.Close()
		if err := recipient(ours); errors.Is(err, ErrRemoteClosed) || !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("error %v", err)
		}
	})
}

// faulty is a connection that fails after its data.
type faulty struct {
	data        io.Reader
	read, write error
	short       bool
}

func (f faulty) Read(b []byte) (int, error) {
	if f.data != nil {
		if n, err := f.data.Read(b); err == nil {
			return n, nil
		}
	}
	return 0, f.read
}

func (f faulty) Write(b []byte) (int, error) {
	if f.short {
		return len(b) - 1, nil
	}
	return len(b), f.write
}

// TestNoGoroutine: without an end of the context the driver runs on the caller's goroutine alone.
func TestNoGoroutine(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	auth := must(newInitiatorFor(t, a, b).WriteAuth(nil))(t)
	before := runtime.NumGoroutine()
	during := 0
	verify := func(*ecdsa.PublicKey) error {
		during = runtime.NumGoroutine()
		return nil
	}
	_, err := Respond(context.WithoutCancel(t.Context()), newScript(auth), b.PrivateKey, nil, verify)
	if err != nil || during > before {
		t.Errorf("%d goroutines, %d before: %v", during, before, err)
	}
}

// TestMemory: many peers that announce the greatest packet and send nothing more cost little.
func TestMemory(t *testing.T) {
	key := newTestKey(t)
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	const peers = 50
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range peers {
		c1, c2 := net.Pipe()
		wg.Go(func() { Respond(ctx, c2, key.PrivateKey, nil, nil) })
		must(c1.Write([]byte{8, 0}))(t)
		must(c1.Write([]byte{4}))(t) // the buffer is there now
	}
	runtime.ReadMemStats(&after)
	cancel()
	wg.Wait()
	if per := (after.TotalAlloc - before.TotalAlloc) / peers; per > 16<<10 {
		t.Errorf("%d bytes for each", per)
	}
}
