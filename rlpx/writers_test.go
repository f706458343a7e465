package rlpx

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// gated returns a Conn whose calls of Write wait at a gate, and the peer that receives them.
func gated(t testing.TB) (*Conn, *rlpxtest.Gate, *rlpxtest.Counting, *rlpxtest.RawPeer) {
	t.Helper()
	ours, theirs := net.Pipe()
	gate := rlpxtest.NewGate(ours)
	conn, counting, peer := rawSession(t, nil, gate, theirs)
	return conn, gate, counting, peer
}

// Writers that meet at a busy connection share the next call.
func TestWritersShareCalls(t *testing.T) {
	const writers = 20
	conn, gate, counting, peer := gated(t)
	frames := make(chan rlpxtest.Frame, writers+1)
	go func() {
		for {
			f, err := peer.ReadFrame()
			if err != nil {
				close(frames)
				return
			}
			frames <- f
		}
	}()
	var wg sync.WaitGroup
	write := func(code int) {
		wg.Go(func() {
			if _, err := conn.Write(uint64(code), make([]byte, code)); err != nil {
				t.Error(err)
			}
		})
	}
	write(1)
	gate.Entered() // the first call is under way, nothing else is
	want := 0
	for i := range writers {
		write(2 + i)
		want += wireLen(1 + 2 + i)
	}
	if !rlpxtest.Eventually(func() bool { n, _ := queuedIn(conn); return n == writers }) {
		t.Fatal("writers do not queue")
	}
	gate.Pass()
	if n := gate.Entered(); n != want {
		t.Errorf("the second call has %d bytes, want %d", n, want)
	}
	gate.Pass()
	wg.Wait()
	if n := counting.Writes.Load(); n != 2 {
		t.Errorf("%d calls for %d frames", n, writers+1)
	}
	seen := map[byte]bool{}
	for range writers + 1 {
		f := <-frames
		if len(f.Data) != 1+int(f.Data[0]) || seen[f.Data[0]] {
			t.Fatalf("frame of code %d has %d bytes", f.Data[0], len(f.Data))
		}
		seen[f.Data[0]] = true
	}
	if s := conn.ConnectionState().Stats; s.MessagesWritten != writers+1 || s.WriteCalls != 2 {
		t.Errorf("stats: %+v", s)
	}
}

// queuedIn returns how many items wait in the queue of c, and the bound of their frames.
func queuedIn(c *Conn) (n, bytes int) {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	for _, list := range []items{c.out.control, c.out.queue} {
		for it := list.first; it != nil; it = it.next {
			n++
			bytes += it.bound
		}
	}
	return n, bytes
}

// Messages leave in the order in which their writers came, whoever seals them.
func TestWritersAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _, peer := rawOverPipe(t, nil)
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if _, err := conn.Write(uint64(i), make([]byte, 50<<10)); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		for i := range 20 {
			f, err := peer.ReadFrame()
			if err != nil || uint64(f.Data[0]) != uint64(i) && (i > 0 || f.Data[0] != 0x80) {
				t.Fatalf("frame %d has code %d: %v", i, f.Data[0], err)
			}
		}
		wg.Wait()
		if n, _ := queuedIn(conn); n != 0 || conn.out.owned {
			t.Error("still owned")
		}
	})
}

// One call on the net.Conn carries about maxCall bytes at most, however much is queued.
func TestCallsAreBounded(t *testing.T) {
	conn, gate, _, peer := gated(t)
	go io.Copy(io.Discard, peer.Conn)
	const (
		writers = 20
		size    = 100 << 10
	)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			if _, err := conn.Write(1, make([]byte, size)); err != nil {
				t.Error(err)
			}
		})
	}
	calls := 0
	for left := writers * wireLen(size+1); left > 0; calls++ {
		n := gate.Entered()
		if n > maxCall {
			t.Errorf("a call of %d bytes", n)
		}
		left -= n
		if calls == 0 && !rlpxtest.Eventually(func() bool { n, _ := queuedIn(conn); return n == writers-1 }) {
			t.Error("writers do not queue")
		}
		gate.Pass()
	}
	wg.Wait()
	if calls > writers/2+1 {
		t.Errorf("%d calls for %d frames: too little was shared", calls, writers)
	}
}

// A large message gets its turn among small ones that never pause, and they get theirs.
func TestLargeMessageIsNotStarved(t *testing.T) {
	a, b := tcpPipe(t)
	ca, cb := pairOver(t, a, b)
	var stop atomic.Bool
	var small atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for !stop.Load() {
				if _, err := ca.Write(1, make([]byte, 100)); err != nil {
					t.Error(err)
					return
				}
				small.Add(1)
			}
		})
	}
	wg.Go(func() {
		for {
			code, _, _, err := cb.Read()
			if err != nil || code == 3 {
				return
			}
		}
	})
	for range 10 {
		before := small.Load()
		if !rlpxtest.Within(func() {
			if _, err := ca.Write(2, make([]byte, wholeFrame+1)); err != nil {
				t.Error(err)
			}
		}) {
			t.Fatal("a large message waits for ever")
		}
		if !rlpxtest.Eventually(func() bool { return small.Load() > before }) {
			t.Fatal("small messages wait for ever")
		}
	}
	stop.Store(true)
	ca.Write(3, nil)
	wg.Wait()
}

// And small messages get theirs among large ones.
func TestSmallMessageIsNotStarved(t *testing.T) {
	a, b := tcpPipe(t)
	ca, cb := pairOver(t, a, b)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !stop.Load() {
				if _, err := ca.Write(2, make([]byte, wholeFrame+1)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for {
			code, _, _, err := cb.Read()
			if err != nil || code == 3 {
				return
			}
		}
	})
	for range 10 {
		if !rlpxtest.Within(func() {
			if _, err := ca.Write(1, make([]byte, 100)); err != nil {
				t.Error(err)
			}
		}) {
			t.Fatal("a small message waits for ever")
		}
	}
	stop.Store(true)
	ca.Write(3, nil)
	wg.Wait()
}

// However writing ends, every writer learns of it at once: the one that writes, those whose frames
// are pending, those that wait for room, and those with a large message.
func TestBlockedWritersReturn(t *testing.T) {
	fault := errors.New("fault of the net.Conn")
	for _, tc := range []struct {
		name string
		end  func(conn *Conn, peer *rlpxtest.RawPeer)
		is   error
	}{
		{"Close", func(conn *Conn, _ *rlpxtest.RawPeer) { conn.Close() }, net.ErrClosed},
		{"bad MAC", func(conn *Conn, peer *rlpxtest.RawPeer) {
			go conn.Read()
			peer.Send(make([]byte, headerWire))
		}, ErrAuthentication},
		{"deadline", func(conn *Conn, _ *rlpxtest.RawPeer) { conn.SetWriteDeadline(time.Now().Add(time.Second)) }, os.ErrDeadlineExceeded},
		{"peer closes", func(_ *Conn, peer *rlpxtest.RawPeer) { peer.Conn.Close() }, io.ErrClosedPipe},
		{"fault", nil, fault},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				release := make(chan struct{})
				var inner net.Conn = ours
				if tc.end == nil {
					inner = &rlpxtest.Filter{Conn: ours, OnWrite: func(net.Conn, []byte) (int, error) {
						<-release
						return 0, fault
					}}
				}
				conn, counting, peer := rawSession(t, nil, inner, theirs)
				errs := make(chan error, 100)
				write := func(n, size int) {
					for range n {
						go func() {
							_, err := conn.Write(1, make([]byte, size))
							errs <- err
						}()
					}
					synctest.Wait()
				}
				write(1, 10)        // in the net.Conn
				write(5, 50<<10)    // pending
				write(5, 100<<10)   // no room
				write(3, 2<<20)     // large
				write(5, 10)        // behind
				if len(errs) != 0 { // nobody reads
					t.Fatalf("%d writers returned: %v", len(errs), <-errs)
				}
				if n := counting.Writes.Load(); n != 1 {
					t.Fatalf("%d calls", n)
				}
				if tc.end == nil {
					close(release)
				} else {
					tc.end(conn, peer)
				}
				start := time.Now()
				for range 19 {
					if err := <-errs; !errors.Is(err, tc.is) {
						t.Errorf("blocked Write: %v, want %v", err, tc.is)
					}
				}
				if waited := time.Since(start); waited > time.Second {
					t.Errorf("returned after %v", waited)
				}
				_, err := conn.Write(1, nil)
				wantWriteDead(t, conn, counting, err)
				conn.Close()
				if n := counting.Closes.Load(); n != 1 {
					t.Errorf("net.Conn closed %d times", n)
				}
			})
		})
	}
}

// Random writers, readers that pause, and an end at a random moment: nobody hangs, whatever was
// read is whole.
func TestWritersUnderRandomEnds(t *testing.T) {
	rlpxtest.CheckGoroutines(t)
	for round := range 20 {
		r := rand.New(rand.NewPCG(77, uint64(round)))
		a, b := tcpPipe(t)
		ca, cb := pairOver(t, a, b)
		var wg sync.WaitGroup
		for w := range 6 {
			seed := r.Uint64()
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, 1))
				for {
					size := r.IntN(3000)
					if r.IntN(100) == 0 {
						size = r.IntN(wholeFrame * 2)
					}
					if _, err := ca.Write(uint64(w), pattern(size, byte(size))); err != nil {
						return
					}
				}
			})
		}
		stopAfter := r.IntN(300)
		wg.Go(func() {
			for i := range stopAfter {
				_, data, _, err := cb.Read()
				if err != nil {
					t.Error(err)
					break
				}
				if want := pattern(len(data), byte(len(data))); string(want) != string(data) {
					t.Errorf("message %d is damaged", i)
					break
				}
			}
			switch round % 4 {
			case 0:
				ca.Close()
			case 1:
				cb.Close()
			case 2:
				ca.SetWriteDeadline(time.Unix(1, 0))
			case 3:
				rlpxtest.Reset(cb.NetConn())
			}
		})
		if !rlpxtest.Within(wg.Wait) {
			t.Fatalf("round %d: somebody hangs", round)
		}
		ca.Close()
		cb.Close()
	}
}

func TestStats(t *testing.T) {
	a, b := tcpPipe(t)
	ca, cb := pairOver(t, a, b)
	ca.SetSnappy(true)
	cb.SetSnappy(true)
	plain, data := 0, 0
	for i, size := range []int{0, 100, 5000, 2 << 20} {
		wire := make(chan uint32, 1)
		go func() {
			n, err := ca.Write(uint64(i), make([]byte, size))
			if err != nil {
				t.Error(err)
			}
			wire <- n
		}()
		_, got, wireSize, err := cb.Read()
		if err != nil || len(got) != size {
			t.Fatal(err)
		}
		if n := <-wire; int(n) != wireSize {
			t.Errorf("Write says %d bytes on the wire, Read %d", n, wireSize)
		}
		plain += size
		data += wireSize
	}
	sa, sb := ca.ConnectionState().Stats, cb.ConnectionState().Stats
	want := fmt.Sprint(4, plain, data)
	if got := fmt.Sprint(sa.MessagesWritten, sa.PlainBytesWritten, sa.DataBytesWritten); got != want {
		t.Errorf("written: %s, want %s", got, want)
	}
	if got := fmt.Sprint(sb.MessagesRead, sb.PlainBytesRead, sb.DataBytesRead); got != want {
		t.Errorf("read: %s, want %s", got, want)
	}
	if sa.WireBytesWritten != sb.WireBytesRead || sa.MessagesRead != 0 || sb.MessagesWritten != 0 {
		t.Errorf("stats: %+v and %+v", sa, sb)
	}
}
