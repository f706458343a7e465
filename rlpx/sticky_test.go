package rlpx

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// The first fatal error of a direction is its last.

func TestReadErrorsArePermanent(t *testing.T) {
	fault := errors.New("fault of the net.Conn")
	good := rlpxtest.Data(5, pattern(100, 1))
	for _, tc := range []struct {
		name   string
		build  func(*rlpxtest.Direction) []byte
		wrap   func(net.Conn) net.Conn
		cfg    *Config
		snappy bool
		limit  int
		good   int // messages before
		is     error
		both   bool // writing ends too, and the net.Conn is closed
	}{
		{name: "EOF", build: sealing(good), good: 1, is: io.EOF},
		{name: "EOF in a header", build: func(d *rlpxtest.Direction) []byte { return d.Seal(good)[:9] }, is: io.ErrUnexpectedEOF},
		{name: "EOF after a header", build: func(d *rlpxtest.Direction) []byte { return d.Seal(good)[:headerWire] }, is: io.ErrUnexpectedEOF},
		{name: "EOF in a frame", build: func(d *rlpxtest.Direction) []byte { return d.Seal(good)[:100] }, is: io.ErrUnexpectedEOF},
		{name: "fault", build: sealing(good), wrap: func(c net.Conn) net.Conn { return rlpxtest.FailRead(c, 40, fault, false) }, is: fault},
		{name: "fault that comes with bytes", build: sealing(good), wrap: func(c net.Conn) net.Conn { return rlpxtest.FailRead(c, wireLen(len(good)), fault, true) }, good: 1, is: fault},
		{name: "no progress", build: sealing(), wrap: func(c net.Conn) net.Conn {
			return &rlpxtest.Filter{Conn: c, OnRead: func(net.Conn, []byte) (int, error) { return 0, nil }}
		}, is: io.ErrNoProgress},
		{name: "header MAC", build: sealing(good), wrap: func(c net.Conn) net.Conn { return rlpxtest.Damage(c, 3, 1) }, is: ErrAuthentication, both: true},
		{name: "frame MAC", build: sealing(good, good), wrap: func(c net.Conn) net.Conn { return rlpxtest.Damage(c, wireLen(len(good))+50, 1) }, good: 1, is: ErrAuthentication, both: true},
		{name: "zero frame", build: sealing(good, nil, good), good: 1, is: ErrProtocol},
		{name: "code", build: sealing(good, []byte{0}, good), good: 1, is: ErrProtocol},
		{name: "snappy", build: sealing(good, good), snappy: true, is: ErrProtocol},
		{name: "snappy, large", build: sealing(rlpxtest.Data(5, append([]byte{0x80, 0x80, 0x40}, make([]byte, 1<<20)...))), snappy: true, is: ErrProtocol},
		{name: "declared size", build: sealing(rlpxtest.Data(5, snappy.Encode(nil, make([]byte, 1000)))), snappy: true, cfg: &Config{MaxMessageSize: 999}, is: ErrMessageTooBig},
		{name: "size", build: sealing(good), cfg: &Config{MaxMessageSize: 99}, is: ErrMessageTooBig},
		{name: "read limit", build: sealing(good), limit: 50, is: ErrMessageTooBig},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn, counting, script := recorded(tc.cfg, tc.wrap, tc.build)
			conn.SetReadLimit(tc.limit)
			conn.SetSnappy(tc.snappy)
			for range tc.good {
				wantRead(t, conn, 5, good[1:])
			}
			_, data, wireSize, err := conn.Read()
			if !errors.Is(err, tc.is) || data != nil || wireSize != 0 {
				t.Fatalf("Read: %d bytes, %d, %v, want %v", len(data), wireSize, err, tc.is)
			}
			wantDead(t, conn, counting, err)
			if tc.both {
				wantWriteDead(t, conn, counting, err)
				if n := counting.Closes.Load(); n != 1 {
					t.Errorf("net.Conn closed %d times", n)
				}
			} else {
				if _, err := conn.Write(1, []byte{0xC0}); err != nil || len(script.Written()) == 0 {
					t.Errorf("Write: %v", err)
				}
				if n := counting.Closes.Load(); n != 0 {
					t.Errorf("net.Conn closed %d times", n)
				}
			}
			for range 3 {
				conn.Close()
			}
			if n := counting.Closes.Load(); n != 1 {
				t.Errorf("net.Conn closed %d times", n)
			}
		})
	}
}

func TestWriteErrorsArePermanent(t *testing.T) {
	fault := errors.New("fault of the net.Conn")
	for _, size := range []int{0, 100, 1 << 20, 3 << 20} {
		wire := wireLen(1 + size)
		for _, at := range []int{0, 1, headerWire, wire / 2, wire - 1} {
			for _, tc := range []struct {
				name     string
				err, is  error
				snappyOn bool
			}{
				{"fault", fault, fault, false},
				{"timeout", &net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}, os.ErrDeadlineExceeded, false},
				{"short without an error", nil, io.ErrShortWrite, false},
				{"fault, snappy", fault, fault, true},
			} {
				if tc.snappyOn && at > 0 {
					continue // the length on the wire is another
				}
				t.Run(fmt.Sprintf("%d/%d/%s", size, at, tc.name), func(t *testing.T) {
					sec, _ := rlpxtest.NewSecrets(3)
					counting := rlpxtest.Count(rlpxtest.ShortWrite(rlpxtest.NewScript(nil), at, tc.err))
					conn := initConn(counting, nil, sec)
					conn.SetSnappy(tc.snappyOn)
					_, err := conn.Write(1, make([]byte, size))
					if !errors.Is(err, tc.is) {
						t.Fatalf("Write: %v, want %v", err, tc.is)
					}
					wantWriteDead(t, conn, counting, err)
					// A size error does not hide it, and it does not become a size error.
					if _, again := conn.Write(1, make([]byte, maxUint24+1)); !errors.Is(again, ErrMessageTooBig) && again != err {
						t.Errorf("Write of too much: %v", again)
					}
					if _, again := conn.Write(1, nil); again != err {
						t.Errorf("Write: %v", again)
					}
					conn.Close()
					conn.Close()
					if n := counting.Closes.Load(); n != 1 {
						t.Errorf("net.Conn closed %d times", n)
					}
				})
			}
		}
	}
}

// Writing that failed does not end reading: what the peer said may explain it.
func TestReadAfterWriteError(t *testing.T) {
	conn, _, _ := recorded(nil, func(c net.Conn) net.Conn { return rlpxtest.ShortWrite(c, 3, io.ErrClosedPipe) }, sealing([]byte{1, 0xC1, 0x04}))
	if _, err := conn.Write(1, nil); !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}
	wantRead(t, conn, 1, []byte{0xC1, 0x04})
	wantClean(t, conn)
}

func TestCloseWrite(t *testing.T) {
	a, b := tcpPipe(t)
	ca, cb := pairOver(t, a, b)
	exchange(t, ca, cb, 1, []byte("last"))
	if err := ca.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	wantClean(t, cb)
	if _, err := ca.Write(1, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write after CloseWrite: %v", err)
	}
	if err := ca.CloseWrite(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second CloseWrite: %v", err)
	}
	exchange(t, cb, ca, 2, []byte("the other direction goes on"))

	pipe, other := net.Pipe()
	cp, co := pairOver(t, pipe, other)
	if err := cp.CloseWrite(); err == nil {
		t.Error("a pipe has no CloseWrite")
	}
	exchange(t, cp, co, 1, []byte("nothing happened"))
}

// CloseWrite waits for what is under way.
func TestCloseWriteAfterWriters(t *testing.T) {
	a, b := tcpPipe(t)
	counting := rlpxtest.Count(a)
	ca, cb := pairOver(t, counting, b)
	werr := make(chan error, 1)
	data := pattern(8<<20, 5)
	go func() {
		_, err := ca.Write(1, data)
		werr <- err
	}()
	if !rlpxtest.Eventually(func() bool { return counting.Writes.Load() > 0 }) {
		t.Fatal("Write does not write")
	}
	cerr := make(chan error, 1)
	go func() { cerr <- ca.CloseWrite() }()
	wantRead(t, cb, 1, data)
	wantClean(t, cb)
	if err := errors.Join(<-werr, <-cerr); err != nil {
		t.Error(err)
	}
}

// An error that comes with bytes is told when they are used up, even if the net.Conn does not
// repeat it; a timeout that comes with bytes is none.
func TestErrorTogetherWithBytes(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	for _, tc := range []struct {
		name string
		err  error
	}{{"fault", first}, {"EOF", io.EOF}, {"timeout", rlpxtest.Timeout}} {
		t.Run(tc.name, func(t *testing.T) {
			calls := 0
			conn, counting, _ := recorded(nil, func(c net.Conn) net.Conn {
				return &rlpxtest.Filter{Conn: c, OnRead: func(inner net.Conn, p []byte) (int, error) {
					switch calls++; calls {
					case 1:
						n, _ := inner.Read(p[:min(len(p), 100)]) // a message and part of the next
						return n, tc.err
					case 2:
						if tc.err == rlpxtest.Timeout {
							return inner.Read(p)
						}
					}
					return 0, second
				}}
			}, sealing([]byte{1}, []byte{2}, []byte{3}))
			wantRead(t, conn, 1, nil)
			if tc.err == rlpxtest.Timeout {
				wantRead(t, conn, 2, nil)
				wantRead(t, conn, 3, nil)
				return
			}
			_, _, _, err := conn.Read()
			want := tc.err
			if want == io.EOF {
				want = io.ErrUnexpectedEOF
			}
			if !errors.Is(err, want) || errors.Is(err, second) {
				t.Fatalf("Read: %v, want %v", err, want)
			}
			if calls != 1 {
				t.Errorf("%d calls on the net.Conn", calls)
			}
			wantDead(t, conn, counting, err)
		})
	}
}
