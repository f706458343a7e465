package rlpx

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/go-rlpx/transport/handshake"
	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// Connections can share the machine's lanes across the whole process. That must not
// look like a deadlock to a test of an embedder's that runs in a bubble.
func TestSharedLanesInABubble(t *testing.T) {
	pair := func() (a, b *Conn) {
		cfg := &Config{SharedHashing: true}
		ca, cb := net.Pipe()
		sa, sb := rlpxtest.NewSecrets(1)
		return initConn(ca, cfg, sa), initConn(cb, cfg, sb)
	}
	stop := make(chan struct{})
	var busy sync.WaitGroup
	data := make([]byte, 200<<10)
	for range 4 {
		a, b := pair()
		busy.Go(func() {
			defer a.Close()
			for {
				select {
				case <-stop:
					return
				default:
					a.Write(1, data)
				}
			}
		})
		busy.Go(func() {
			for {
				if _, _, _, err := b.Read(); err != nil {
					return
				}
			}
		})
	}
	bubbles := 20
	if testing.Short() {
		bubbles = 5
	}
	for range bubbles {
		synctest.Test(t, func(t *testing.T) {
			a, b := pair()
			go func() {
				for range 20 {
					a.Write(1, data)
				}
				a.Close()
			}()
			for {
				if _, _, _, err := b.Read(); err != nil {
					break
				}
			}
		})
	}
	close(stop)
	busy.Wait()
}

// The system gave up on the connection. Its error says Timeout, but nothing comes any more.
func TestDeadConnectionIsNoDeadline(t *testing.T) {
	gone := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ETIMEDOUT)}
	if !gone.Timeout() {
		t.Fatal("the error under test does not say Timeout")
	}
	conn, counting, _ := recorded(nil, func(c net.Conn) net.Conn { return rlpxtest.FailRead(c, 10, gone, false) }, sealing([]byte{1, 2, 3}))
	for range 3 {
		if _, _, _, err := conn.Read(); !errors.Is(err, syscall.ETIMEDOUT) {
			t.Fatalf("Read: %v, want the system's error, every time", err)
		}
	}
	if n := counting.Reads.Load(); n > 2 {
		t.Errorf("%d reads after a fatal error", n)
	}
}

// A connection without a handshake in the list of a Broadcast panics before any connection is
// touched.
func TestBroadcastMistakesTouchNothing(t *testing.T) {
	a, b := pipePair(t, true)
	fresh, _ := net.Pipe()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		Broadcast([]*Conn{a, NewConn(fresh, nil)}, 16, []byte("x"))
	}()
	go a.Write(17, []byte("still here"))
	if err := expect(b, 17, []byte("still here")); err != nil {
		t.Fatal(err)
	}
}

// Writers that wait for a peer that does not read hold no buffers, compressed or not.
func TestWaitingWritersHoldNothing(t *testing.T) {
	for _, snappy := range []bool{false, true} {
		conn, gate, _, peer := gated(t)
		go io.Copy(io.Discard, peer.Conn)
		conn.SetSnappy(snappy)
		const writers = 60
		data := make([]byte, 1<<20) // shared by all
		before := rlpxtest.HeapInUse()
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() { conn.Write(1, data) })
		}
		gate.Entered()
		queued := func() bool {
			n, _ := queuedIn(conn)
			return n == writers-1
		}
		if !rlpxtest.Eventually(queued) {
			t.Error("writers do not wait for their turn")
		}
		var held uint64
		if !rlpxtest.Eventually(func() bool {
			held = rlpxtest.HeapInUse() - min(before, rlpxtest.HeapInUse())
			return held < 16<<20
		}) {
			t.Errorf("snappy=%v: %d MiB for %d writers of 1 MiB", snappy, held>>20, writers)
		}
		conn.Close()
		gate.Open()
		wg.Wait()
	}
}

func TestZeroPayload(t *testing.T) {
	for _, snappy := range []bool{false, true} {
		a, b := pipePair(t, snappy)
		go a.WritePayload(9, new(Payload))
		if err := expect(b, 9, nil); err != nil {
			t.Errorf("snappy=%v: %v", snappy, err)
		}
	}
}

func TestCloseWriteTwiceAndTooEarly(t *testing.T) {
	ca, cb := tcpPipe(t)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("CloseWrite before the handshake: no panic")
			}
		}()
		NewConn(ca, nil).CloseWrite()
	}()
	ta, tb := handshakePair(t, newOurs, newOurs, ca, cb)
	a, b := ta.(*Conn), tb.(*Conn)
	exchange(t, a, b, 1, []byte("x"))
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := a.CloseWrite(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second CloseWrite: %v", err)
	}
	if _, err := a.Write(1, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write after CloseWrite: %v", err)
	}
	if _, _, _, err := b.Read(); err != io.EOF {
		t.Errorf("the peer reads %v, want io.EOF", err)
	}
	exchange(t, b, a, 2, []byte("the other direction goes on"))
}

func TestMissingKeyIsAnInvalidKey(t *testing.T) {
	ca, _ := net.Pipe()
	if _, err := Server(ca, nil).HandshakeContext(t.Context()); !errors.Is(err, handshake.ErrInvalidPrivateKey) || !errors.Is(err, ErrHandshake) {
		t.Errorf("HandshakeContext without a key: %v", err)
	}
}

// WriteBatch says that the connection ended also where it has nothing to send.
func TestEmptyBatchOnAClosedConnection(t *testing.T) {
	a, _ := pipePair(t, false)
	a.Close()
	if _, err := a.WriteBatch(nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("WriteBatch(nil) after Close: %v", err)
	}
}
