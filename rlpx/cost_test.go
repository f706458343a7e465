package rlpx

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// What a frame costs in calls, allocations and memory.

func TestOneWriteCallPerFrame(t *testing.T) {
	sec, _ := rlpxtest.NewSecrets(1)
	counting := rlpxtest.Count(rlpxtest.Discard())
	conn := initConn(counting, nil, sec)
	for _, snappyOn := range []bool{false, true} {
		conn.SetSnappy(snappyOn)
		for _, code := range []uint64{0, 1<<64 - 1} {
			for _, size := range []int{0, 1, 16, 1000, 16 << 10, 256 << 10, 1<<20 - 1, 1 << 20} {
				calls, sent := counting.Writes.Load(), counting.BytesWritten.Load()
				if _, err := conn.Write(code, make([]byte, size)); err != nil {
					t.Fatal(err)
				}
				if n := counting.Writes.Load() - calls; n != 1 {
					t.Errorf("snappy %v, %d bytes: %d calls", snappyOn, size, n)
				}
				if n := counting.BytesWritten.Load() - sent; !snappyOn && n != int64(wireLen(dataSize(code, size))) {
					t.Errorf("%d bytes: %d bytes on the wire", size, n)
				}
			}
		}
	}
	conn.SetSnappy(false)
	calls := counting.Writes.Load()
	if _, err := conn.Write(1, make([]byte, maxUint24-1)); err != nil {
		t.Fatal(err)
	}
	if n := counting.Writes.Load() - calls; n > maxUint24/pieceSize+2 {
		t.Errorf("%d calls for the largest message", n)
	}
	if s := conn.ConnectionState().Stats; s.WriteCalls != uint64(counting.Writes.Load()) || s.WireBytesWritten != uint64(counting.BytesWritten.Load()) {
		t.Errorf("stats %+v, the net.Conn saw %d calls and %d bytes", s, counting.Writes.Load(), counting.BytesWritten.Load())
	}
}

func TestReadCalls(t *testing.T) {
	for _, tc := range []struct{ count, size int }{{1, 100}, {20, 100}, {1000, 100}, {1000, 1}, {100, 3000}, {50, 5000}, {20, 50_000}} {
		var total int
		conn, counting, _ := recorded(nil, nil, func(peer *rlpxtest.Direction) []byte {
			var wire []byte
			for range tc.count {
				wire = append(wire, peer.Seal(make([]byte, tc.size))...)
			}
			total = len(wire)
			return wire
		})
		for range tc.count {
			// The code is zero, in a form that is not canonical: the cost is the point, so use
			// readFrame.
			conn.in.mu.Lock()
			_, err := conn.readFrame()
			conn.in.mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
		}
		frame := wireLen(tc.size)
		most := (total+smallBuffer-1)/smallBuffer + 2
		if frame > smallBuffer {
			most = (total+burstBuffer-1)/burstBuffer*2 + 2*tc.count
		}
		if n := int(counting.Reads.Load()); n > most {
			t.Errorf("%d frames of %d bytes, %d bytes in all: %d reads, want at most %d", tc.count, tc.size, total, n, most)
		} else {
			t.Logf("%d frames of %d bytes, %d bytes in all: %d reads", tc.count, tc.size, total, n)
		}
	}
	// A large frame, all there: buffers grow by a factor, so the calls are few.
	data := make([]byte, maxUint24)
	data[0] = 1
	conn, counting, _ := recorded(nil, nil, sealing(data))
	wantRead(t, conn, 1, data[1:])
	if n := counting.Reads.Load(); n > 8 {
		t.Errorf("%d reads for the largest frame", n)
	}
}

// loop is a net.Conn that hands what is written to whoever reads, without allocating once it has
// grown.
type loop struct {
	rlpxtest.Script
	buf bytes.Buffer
}

func (l *loop) Write(p []byte) (int, error) { return l.buf.Write(p) }
func (l *loop) Read(p []byte) (int, error) {
	if l.buf.Len() == 0 {
		return 0, io.EOF
	}
	return l.buf.Read(p)
}

func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates; the run without it checks this")
		return
	}
	for _, snappyOn := range []bool{false, true} {
		for _, size := range []int{0, 32, 1 << 10, 16 << 10, 128 << 10, 2 << 20} {
			t.Run(fmt.Sprintf("snappy=%v/%d", snappyOn, size), func(t *testing.T) {
				a, b := rlpxtest.NewSecrets(5)
				l := new(loop)
				w, r := initConn(l, nil, a), initConn(l, nil, b)
				w.SetSnappy(snappyOn)
				r.SetSnappy(snappyOn)
				data := pattern(size, 1)
				frame := func() {
					if _, err := w.Write(0x10, data); err != nil {
						t.Fatal(err)
					}
					if _, got, _, err := r.Read(); err != nil || len(got) != size {
						t.Fatal(len(got), err)
					}
				}
				for range 10 {
					frame()
				}
				// A collection in between empties the pools, so that one frame in many allocates;
				// the average is rounded down.
				runs := 200
				if size > 100<<10 {
					runs = 40
				}
				if testing.Short() {
					runs = min(runs, 20)
				}
				if n := testing.AllocsPerRun(runs, frame); n != 0 {
					t.Errorf("%v allocations for a frame written and read", n)
				}
			})
		}
	}
}

// wait blocks until conn has been asked for more bytes than were delivered.
func waitIdle(t testing.TB, counting *rlpxtest.Counting, received int64) {
	t.Helper()
	if !rlpxtest.Eventually(func() bool { return counting.BytesRead.Load() == received }) {
		t.Fatalf("%d of %d bytes were read", counting.BytesRead.Load(), received)
	}
	runtime.Gosched()
}

// held is what the buffers of a connection take, while nothing runs on it.
func held(c *Conn) int { return len(c.in.buf.B) + len(c.in.plain.B) + len(c.out.buf.B) }

func TestIdleConnectionHoldsLittle(t *testing.T) {
	large := pattern(maxUint24-100, 3)
	for _, snappyOn := range []bool{false, true} {
		for _, tc := range []struct {
			name  string
			sizes []int
		}{
			{"nothing", nil},
			{"small", []int{1, 100, 5000}},
			{"16 MiB", []int{len(large)}},
			{"16 MiB and small ones", []int{len(large), 1, 10, 100, 1000}},
			{"burst", []int{3000, 3000, 3000, 3000, 3000, 3000, 3000, 3000, 3000, 3000, 3000, 3000}},
		} {
			t.Run(fmt.Sprintf("snappy=%v/%s", snappyOn, tc.name), func(t *testing.T) {
				conn, counting, peer := rawOverPipe(t, nil)
				conn.SetSnappy(snappyOn)
				received := int64(0)
				sent := make(chan struct{})
				var wire []byte
				for _, size := range tc.sizes {
					payload := large[:size]
					if snappyOn {
						payload = snappy.Encode(nil, payload)
					}
					wire = append(wire, peer.Egress.Seal(rlpxtest.Data(0x10, payload))...)
				}
				received = int64(len(wire))
				go func() {
					defer close(sent)
					peer.Send(wire)
				}()
				go io.Copy(io.Discard, peer.Conn)
				for _, size := range tc.sizes {
					wantRead(t, conn, 0x10, large[:size])
					if _, err := conn.Write(0x10, large[:size]); err != nil {
						t.Fatal(err)
					}
				}
				<-sent
				if n := len(conn.out.buf.B); n != 0 {
					t.Errorf("%d bytes held for writing", n)
				}
				// Waiting for the next frame.
				done := make(chan error, 1)
				reads := counting.Reads.Load()
				go func() {
					_, _, _, err := conn.Read()
					done <- err
				}()
				if !rlpxtest.Eventually(func() bool { return counting.Reads.Load() > reads }) {
					t.Fatal("Read does not read")
				}
				waitIdle(t, counting, received)
				conn.SetReadDeadline(time.Unix(1, 0)) // so that Read gives the lock back
				if err := <-done; !isTimeout(err) {
					t.Fatal(err)
				}
				if n := held(conn); n > 4<<10 {
					t.Errorf("%d bytes held while waiting", n)
				}
			})
		}
	}
}

// A frame that stalls after a large one must not keep the large one's buffer.
func TestStalledFrameDoesNotPinBuffers(t *testing.T) {
	large := pattern(maxUint24-100, 3)
	if raceEnabled {
		large = large[:2<<20]
	}
	for _, snappyOn := range []bool{false, true} {
		for _, part := range []int{1, headerWire - 1, headerWire, headerWire + 1, 1000} {
			conn, counting, peer := rawOverTCP(t, nil)
			conn.SetSnappy(snappyOn)
			payload := large
			if snappyOn {
				payload = snappy.Encode(nil, large)
			}
			wire := peer.Egress.Seal(rlpxtest.Data(0x10, payload))
			wire = append(wire, peer.Egress.Seal(make([]byte, 1<<20))[:part]...)
			go peer.Send(wire) // in one go: the part is likely to come with the last bytes
			wantRead(t, conn, 0x10, large)
			done := make(chan error, 1)
			go func() {
				_, _, _, err := conn.Read()
				done <- err
			}()
			waitIdle(t, counting, int64(len(wire)))
			time.Sleep(time.Millisecond) // let Read go back to the net.Conn
			conn.SetReadDeadline(time.Unix(1, 0))
			if err := <-done; !isTimeout(err) {
				t.Fatal(err)
			}
			if n := held(conn); n > 64<<10 {
				t.Errorf("snappy %v: %d bytes held by %d bytes of a frame that stalls", snappyOn, n, part)
			}
		}
	}
}

// The same measured from outside, on many connections.
func TestCase_D8_MemoryAfterLargeMessages(t *testing.T) {
	const conns = 8
	size, small := maxUint24-100, 1000
	if raceEnabled || testing.Short() {
		size, small = 4<<20, 100
	}
	large := pattern(size, 3)
	for _, snappyOn := range []bool{false, true} {
		t.Run(fmt.Sprintf("snappy=%v", snappyOn), func(t *testing.T) {
			before := rlpxtest.HeapInUse()
			var wg sync.WaitGroup
			var all []*Conn
			for range conns {
				a, b := net.Pipe()
				ca, cb := pairOver(t, a, b)
				ca.SetSnappy(snappyOn)
				cb.SetSnappy(snappyOn)
				exchange(t, ca, cb, 1, large)
				exchange(t, cb, ca, 2, large)
				for i := range small {
					exchange(t, ca, cb, 1, large[:i])
					exchange(t, cb, ca, 2, large[:i])
				}
				all = append(all, ca, cb)
				for _, c := range []*Conn{ca, cb} {
					wg.Go(func() { c.Read() })
				}
			}
			after := rlpxtest.HeapInUse()
			if each := (int64(after) - int64(before)) / (2 * conns); each > 32<<10 {
				t.Errorf("%d bytes in use for each idle connection", each)
			} else {
				t.Logf("%d bytes in use for each idle connection", each)
			}
			for _, c := range all {
				c.Close()
			}
			wg.Wait()
			runtime.KeepAlive(all)
		})
	}
}
