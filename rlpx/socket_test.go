package rlpx

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// One Write and one Read a frame over a socket, for frames up to 64 KiB.
func TestCallsPerFrameOverSockets(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		a, b := socketPair(t, network)
		ca, cb := pairOver(t, a, b)
		if ca.socket == nil {
			t.Fatal("not taken for a socket")
		}
		for _, size := range []int{1, 1000, 16 << 10, 60 << 10} {
			data := pattern(size, 1)
			before, read := ca.ConnectionState().Stats, cb.ConnectionState().Stats.ReadCalls
			const frames = 20
			for range frames {
				// All of it is in the socket before it is read.
				if _, err := ca.Write(1, data); err != nil {
					t.Fatal(err)
				}
				if code, got, _, err := cb.Read(); err != nil || code != 1 || !bytes.Equal(got, data) {
					t.Fatal(err)
				}
			}
			if n := ca.ConnectionState().Stats.WriteCalls - before.WriteCalls; n != frames {
				t.Errorf("%s, %d bytes: %d calls of Write for %d frames", network, size, n, frames)
			}
			if n := cb.ConnectionState().Stats.ReadCalls - read; n != frames {
				t.Errorf("%s, %d bytes: %d calls of Read for %d frames", network, size, n, frames)
			}
		}
	}
}

func socketPair(t testing.TB, network string) (net.Conn, net.Conn) {
	t.Helper()
	if network == "tcp" {
		return tcpPipe(t)
	}
	dir, err := os.MkdirTemp("", "rlpx") // t.TempDir is too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", dir+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("unix", dir+"/s")
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

// A socket that waits holds no buffer.
func TestWaitingSocketHoldsNothing(t *testing.T) {
	a, b := tcpPipe(t)
	ca, cb := pairOver(t, a, b)
	for _, size := range []int{0, 100, 30 << 10, 2 << 20} {
		go ca.Write(1, make([]byte, size))
		if _, _, _, err := cb.Read(); err != nil {
			t.Fatal(err)
		}
		cb.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, _, _, err := cb.Read(); !isTimeout(err) {
			t.Fatal(err)
		}
		cb.SetReadDeadline(time.Time{})
		if n := held(cb); n != 0 {
			t.Errorf("%d bytes held after a message of %d", n, size)
		}
	}
	ca.Close()
	if _, _, _, err := cb.Read(); err != io.EOF {
		t.Errorf("got %v", err)
	}
}

// An error of a socket has the form that package net gives it.
func TestSocketErrors(t *testing.T) {
	a, b := tcpPipe(t)
	ca, _ := pairOver(t, a, b)
	ca.SetReadDeadline(time.Unix(1, 0))
	_, _, _, err := ca.Read()
	_, want := a.Read(make([]byte, 1))
	if err == nil || want == nil || err.Error() != want.Error() {
		t.Errorf("got %q, package net has %q", err, want)
	}
	ca.SetReadDeadline(time.Time{})
	rlpxtest.Reset(b)
	_, _, _, err = ca.Read()
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "read" || op.Net != "tcp" {
		t.Errorf("got %v", err)
	}
}
