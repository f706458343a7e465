package rlpx

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/bufpool"
	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// These tests break connections in every way of using them, and count buffers.

// checkBuffers fails the test at its end if buffers that were lent meanwhile did not come back.
// Call it before what closes connections: cleanups run in the opposite order.
func checkBuffers(t testing.TB) {
	t.Helper()
	tracker := bufpool.Track()
	t.Cleanup(func() {
		defer tracker.Stop()
		if !rlpxtest.Eventually(func() bool { return tracker.Lent() == 0 }) {
			t.Errorf("%d buffers did not come back", tracker.Lent())
		}
	})
}

// giveBack has a connection that was closed give back what it lends to its reader, which the next
// Read does.
func giveBack(t testing.TB, c *Conn) {
	t.Helper()
	c.Close()
	if _, _, _, err := c.Read(); err == nil {
		t.Error("Read after Close succeeds")
	}
}

// writingWays are all the ways to write a message.
var writingWays = []struct {
	name  string
	write func(c *Conn, code uint64, data []byte) error
}{
	{"Write", func(c *Conn, code uint64, data []byte) error { _, err := c.Write(code, data); return err }},
	{"WriteBatch", func(c *Conn, code uint64, data []byte) error {
		_, err := c.WriteBatch([]Message{{Code: code, Data: data}, {Code: code, Data: data}, {Code: code}})
		return err
	}},
	{"WritePayload", func(c *Conn, code uint64, data []byte) error {
		_, err := c.WritePayload(code, Compress(data))
		return err
	}},
	{"Broadcast", func(c *Conn, code uint64, data []byte) error {
		if errs := Broadcast([]*Conn{c}, code, data); errs != nil {
			return errs[0]
		}
		return nil
	}},
}

// A net.Conn that fails at byte k of what is written, or takes less than it was given and says
// nothing: whichever way of writing meets that, the first error is permanent for all of them,
// nothing touches the net.Conn any more, and no buffer is lost.
func TestFaultyWrites(t *testing.T) {
	fault := errors.New("fault of the net.Conn")
	timeout := &net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}
	for _, way := range writingWays {
		t.Run(way.name, func(t *testing.T) {
			for _, size := range []int{0, 100, 300_000, 2 << 20} {
				wire := wireLen(1 + size)
				for _, at := range []int{0, 1, headerSize, headerWire, wire / 2, wire - 1} {
					for _, err := range []error{fault, timeout, io.ErrShortWrite, nil} {
						for _, snappyOn := range []bool{false, true} {
							if snappyOn && at > 1 {
								continue // the length on the wire is another
							}
							what := fmt.Sprintf("%d bytes, snappy %v, %v at %d", size, snappyOn, err, at)
							tracker := bufpool.Track()
							sec, _ := rlpxtest.NewSecrets(3)
							counting := rlpxtest.Count(rlpxtest.ShortWrite(rlpxtest.NewScript(nil), at, err))
							conn := initConn(counting, nil, sec)
							conn.SetSnappy(snappyOn)
							first := way.write(conn, 1, make([]byte, size))
							want := err
							if want == nil {
								want = io.ErrShortWrite
							}
							if !errors.Is(first, want) {
								t.Fatalf("%s: %v", what, first)
							}
							writes := counting.Writes.Load()
							for _, other := range writingWays {
								for _, n := range []int{0, 1000, wholeFrame + 1} {
									if again := other.write(conn, 2, make([]byte, n)); again != first {
										t.Fatalf("%s: then %s: %v, want %v", what, other.name, again, first)
									}
								}
							}
							if err := conn.CloseWrite(); err == nil {
								t.Fatalf("%s: CloseWrite succeeds", what)
							}
							if n := counting.Writes.Load() - writes; n != 0 {
								t.Fatalf("%s: %d more calls on the net.Conn", what, n)
							}
							giveBack(t, conn)
							conn.Close()
							if n := counting.Closes.Load(); n != 1 {
								t.Fatalf("%s: closed %d times", what, n)
							}
							if n := tracker.Lent(); n != 0 {
								t.Fatalf("%s: %d buffers did not come back", what, n)
							}
							tracker.Stop()
						}
					}
				}
			}
		})
	}
}

// The same for reading: at every byte of a session an error, alone or with the last bytes. What was
// whole before comes out, and then nothing is held.
func TestFaultyReads(t *testing.T) {
	fault := errors.New("fault of the net.Conn")
	sizes := []int{0, 10, 300, 5000}
	step := 3
	if raceEnabled {
		step = 17
	}
	for _, snappyOn := range []bool{false, true} {
		var data [][]byte
		for i, size := range sizes {
			payload := pattern(size, byte(i))
			if snappyOn {
				payload = snappy.Encode(nil, payload)
			}
			data = append(data, rlpxtest.Data(uint64(i), payload))
		}
		total := 0
		for _, d := range data {
			total += wireLen(len(d))
		}
		for k := 0; k < total; k += step {
			for _, together := range []bool{false, true} {
				for _, empty := range []bool{false, true} {
					tracker := bufpool.Track()
					conn, counting, _ := recorded(nil, func(c net.Conn) net.Conn {
						c = rlpxtest.FailRead(c, k, fault, together)
						if !empty {
							return c
						}
						calls := 0 // a net.Conn that returns nothing now and then
						return &rlpxtest.Filter{Conn: c, OnRead: func(inner net.Conn, p []byte) (int, error) {
							if calls++; calls%2 == 0 {
								return 0, nil
							}
							return inner.Read(p[:min(len(p), 100)])
						}}
					}, sealing(data...))
					conn.SetSnappy(snappyOn)
					whole, at := 0, 0
					for _, d := range data {
						if at += wireLen(len(d)); at <= k {
							whole++
						}
					}
					for i := range whole {
						wantRead(t, conn, uint64(i), pattern(sizes[i], byte(i)))
					}
					_, _, _, err := conn.Read()
					if err != fault {
						t.Fatalf("after %d bytes: %v", k, err)
					}
					wantDead(t, conn, counting, fault)
					if n := tracker.Lent(); n != 0 {
						t.Fatalf("after %d bytes: %d buffers did not come back", k, n)
					}
					tracker.Stop()
				}
			}
		}
	}
}

// One Broadcast over connections of which each breaks in its own way, or stalls until it is closed:
// the others get the message, each broken one has its own error, and no buffer is lost.
func TestBroadcastOverFaultyConns(t *testing.T) {
	rlpxtest.Bound(t)
	rlpxtest.CheckGoroutines(t)
	fault := errors.New("fault of the net.Conn")
	for _, snappyOn := range []bool{false, true} {
		for _, size := range []int{0, 100, 100_000, 2 << 20} {
			t.Run(fmt.Sprintf("snappy=%v/%d", snappyOn, size), func(t *testing.T) {
				checkBuffers(t)
				data := rlpxtest.Random(rand.New(rand.NewPCG(5, 5)), size)
				type end struct {
					conn *Conn
					want error
					peer *Conn
				}
				var ends []end
				var conns, peers []*Conn
				add := func(want error, wrap func(net.Conn) net.Conn) {
					ours, theirs := net.Pipe()
					sa, sb := rlpxtest.NewSecrets(uint64(len(ends)))
					c, p := initConn(wrap(ours), nil, sa), initConn(theirs, nil, sb)
					c.SetSnappy(snappyOn)
					p.SetSnappy(snappyOn)
					ends, conns = append(ends, end{c, want, p}), append(conns, c)
					peers = append(peers, p)
				}
				var stalled []*Conn
				for i := range 12 {
					add(nil, func(c net.Conn) net.Conn { return c })
					at := []int{0, 1, headerWire, headerWire + size/2}[i%4]
					if i%3 == 0 {
						add(io.ErrShortWrite, func(c net.Conn) net.Conn { return rlpxtest.ShortWrite(c, at, nil) })
					}
					if i%3 == 1 {
						add(fault, func(c net.Conn) net.Conn { return rlpxtest.ShortWrite(c, at, fault) })
					}
					if i%3 == 2 {
						add(net.ErrClosed, func(c net.Conn) net.Conn { return rlpxtest.NewGate(c) }) // nobody opens it
						stalled = append(stalled, conns[len(conns)-1])
					}
				}
				add(net.ErrClosed, func(c net.Conn) net.Conn { return c })
				conns[len(conns)-1].Close() // before

				var readers sync.WaitGroup
				received := make([]error, len(ends))
				for i, e := range ends {
					readers.Go(func() {
						code, got, _, err := e.peer.Read()
						if err == nil && (code != 7 || string(got) != string(data)) {
							err = fmt.Errorf("code %d, %d bytes", code, len(got))
						}
						received[i] = err
						if e.want != nil {
							io.Copy(io.Discard, e.peer.NetConn())
						}
					})
				}
				var closers sync.WaitGroup
				for _, c := range stalled {
					closers.Go(func() {
						c.NetConn().(*rlpxtest.Gate).Entered()
						c.Close()
					})
				}
				errs := Broadcast(conns, 7, data)
				closers.Wait()
				for i, e := range ends {
					if !errors.Is(errs[i], e.want) {
						t.Errorf("peer %d: %v, want %v", i, errs[i], e.want)
					}
					if e.want != nil {
						if _, again := e.conn.Write(8, nil); again != errs[i] {
							t.Errorf("peer %d: Write: %v, want %v", i, again, errs[i])
						}
					}
				}
				for i := range ends {
					conns[i].Close()
					peers[i].Close()
				}
				readers.Wait()
				for i, e := range ends {
					if e.want == nil && received[i] != nil {
						t.Errorf("peer %d received %v", i, received[i])
					}
					giveBack(t, conns[i])
					giveBack(t, peers[i])
				}
			})
		}
	}
}
