//go:build unix

package rlpx

import (
	"bytes"
	"net"
	"runtime"
	"syscall"
	"testing"

	"github.com/go-rlpx/transport/internal/bufpool"
	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// A call that a signal interrupts is made again, and what is not an error of the call is none of
// the socket's.
func TestInterruptedCalls(t *testing.T) {
	calls := 0
	n, err := retry(func(int, []byte) (int, error) {
		if calls++; calls < 3 {
			return -1, syscall.EINTR
		}
		return 5, nil
	}, 0, nil)
	if n != 5 || err != nil || calls != 3 {
		t.Errorf("%d, %v after %d calls", n, err, calls)
	}
	if n, err := retry(func(int, []byte) (int, error) { return -1, syscall.EAGAIN }, 0, nil); n != 0 || err != syscall.EAGAIN {
		t.Errorf("%d, %v", n, err)
	}
}

// A socket that takes no more is no error, and the socket keeps nothing of what it was given.
func TestSocketThatTakesNoMore(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ours, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	secrets, _ := rlpxtest.NewSecrets(1)
	conn := initConn(ours, nil, secrets)
	defer conn.Close()
	conn.socket = newSocket(ours)
	piece := make([]byte, 1<<20)
	for n, i := 1, 0; n > 0; i++ {
		if n, err = conn.socket.write(piece); err != nil || i > 1000 {
			t.Fatalf("call %d: %d bytes, %v", i, n, err)
		}
		if conn.socket.pending != nil {
			t.Fatal("the socket keeps what it was given")
		}
	}
}

// What arrives at a connection between two frames needs no large buffer, though an earlier frame
// left one.
func TestArrivalTakesASmallBuffer(t *testing.T) {
	tracker := bufpool.Track()
	defer tracker.Stop()
	in := new(readHalf)
	in.buf = bufpool.Get(1 << 20)
	if n := len(in.forArrival()); n != arrivalBuffer || tracker.Lent() != 1 {
		t.Errorf("a buffer of %d bytes, %d are lent", n, tracker.Lent())
	}
	in.release()
}

// A Read that waits holds no buffer meanwhile, whatever came before.
func TestBlockedReadHoldsNothing(t *testing.T) {
	a, b := tcpPipe(t)
	ca, cb := pairOver(t, a, b)
	tracker := bufpool.Track()
	defer tracker.Stop()
	for _, size := range []int{0, 30 << 10, 2 << 20} {
		wrote := make(chan struct{})
		go func() {
			defer close(wrote)
			ca.Write(1, make([]byte, size))
		}()
		if _, _, _, err := cb.Read(); err != nil {
			t.Fatal(err)
		}
		<-wrote
		got := make(chan error, 1)
		go func() {
			_, _, _, err := cb.Read()
			got <- err
		}()
		waits := func() bool {
			stacks := make([]byte, 1<<20)
			for _, stack := range bytes.Split(stacks[:runtime.Stack(stacks, true)], []byte("\n\n")) {
				if bytes.Contains(stack, []byte("[IO wait")) && bytes.Contains(stack, []byte("(*socket).read(")) {
					return true
				}
			}
			return false
		}
		if !rlpxtest.Eventually(waits) {
			t.Fatal("Read does not wait")
		}
		if n := tracker.Lent(); n != 0 {
			t.Errorf("%d buffers are held while Read waits after a message of %d", n, size)
		}
		if _, err := ca.Write(1, nil); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Fatal(err)
		}
	}
}
