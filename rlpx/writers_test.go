package rlpx

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
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
	pending := func() int {
		conn.out.mu.Lock()
		defer conn.out.mu.Unlock()
		return conn.out.n
	}
	if !rlpxtest.Eventually(func() bool { return pending() == want }) {
		t.Fatalf("%d bytes are pending, want %d", pending(), want)
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

// The right to seal goes round in the order of asking.
func TestTakeAndGive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &Server(nil, nil).out
		out.mu.Lock()
		out.take()
		var order []int
		for i := range 10 {
			go func() {
				out.mu.Lock()
				defer out.mu.Unlock()
				out.take()
				order = append(order, i)
				out.give()
			}()
			out.mu.Unlock()
			synctest.Wait()
			out.mu.Lock()
		}
		if len(order) != 0 {
			t.Fatal("taken twice")
		}
		out.give()
		out.take() // who asks again comes last
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(order, want) {
			t.Errorf("served in the order %v", order)
		}
		out.give()
		if out.taken || out.queued != 0 {
			t.Error("still taken")
		}
		out.mu.Unlock()
	})
}

// What waits for a call under way is bounded.
func TestPendingIsBounded(t *testing.T) {
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
		// Whoever finds nobody writing adds a frame of its own to what is pending.
		if n > maxPending+wireLen(size+1) {
			t.Errorf("a call of %d bytes", n)
		}
		left -= n
		// Let the others come; none may get past the bound.
		for range 100 {
			conn.out.mu.Lock()
			if conn.out.n > maxPending {
				t.Errorf("%d bytes are pending", conn.out.n)
			}
			conn.out.mu.Unlock()
			runtime.Gosched()
		}
		gate.Pass()
	}
	wg.Wait()
	if calls == writers {
		t.Errorf("%d calls: nothing was shared", calls)
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

// However writing ends, every writer learns of it at once: the one that writes, those whose frames are
// pending, those that wait for room, and those with a large message.
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

// Random writers, readers that pause, and an end at a random moment: nobody hangs, whatever was read is whole.
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
