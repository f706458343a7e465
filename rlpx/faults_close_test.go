package rlpx

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// kindsOfConn are an unbuffered and a buffered kind of connection.
var kindsOfConn = []struct {
	name string
	make func(testing.TB) (net.Conn, net.Conn)
}{{"pipe", netPipe}, {"tcp", tcpPipe}}

// standsStill waits until a net.Conn is in a call that does not go on.
func standsStill(t testing.TB, counting *rlpxtest.Counting) {
	t.Helper()
	last := int64(-1)
	if !rlpxtest.Eventually(func() bool {
		now := counting.Reads.Load() + counting.Writes.Load()
		still := now > 0 && now == last
		last = now
		time.Sleep(time.Millisecond)
		return still
	}) {
		t.Fatal("nothing blocks")
	}
}

// closeAtOnce closes a connection from many goroutines.
func closeAtOnce(c *Conn) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range 20 {
		wg.Go(func() {
			<-start
			c.Close()
		})
	}
	close(start)
	wg.Wait()
}

// Close, from many goroutines at once, while each kind of call is blocked: the call returns
// net.ErrClosed, whatever else waits for its turn too, the net.Conn is closed once, and goroutines
// and buffers come back.
func TestCloseDuringCalls(t *testing.T) {
	for _, kind := range kindsOfConn {
		for _, way := range writingWays {
			for _, size := range []int{10, 200_000, 3 << 20} {
				t.Run(fmt.Sprintf("%s/%s/%d", kind.name, way.name, size), func(t *testing.T) {
					rlpxtest.CheckGoroutines(t)
					checkBuffers(t)
					ours, theirs := kind.make(t)
					conn, counting, _ := rawSession(t, nil, ours, theirs)
					var wg sync.WaitGroup
					data := make([]byte, size)
					blocked := func(write func(c *Conn, code uint64, data []byte) error) {
						wg.Go(func() {
							for {
								if err := write(conn, 1, data); err != nil {
									if err != net.ErrClosed {
										t.Errorf("%v, want net.ErrClosed", err)
									}
									return
								}
							}
						})
					}
					blocked(way.write)
					for _, other := range writingWays {
						blocked(other.write)
					}
					wg.Go(func() {
						if _, _, _, err := conn.Read(); err != net.ErrClosed {
							t.Errorf("Read: %v, want net.ErrClosed", err)
						}
					})
					standsStill(t, counting)
					if !rlpxtest.Within(func() { closeAtOnce(conn); wg.Wait() }) {
						t.Fatal("a call hangs")
					}
					wantWriteDead(t, conn, counting, net.ErrClosed)
					giveBack(t, conn)
					if n := counting.Closes.Load(); n != 1 {
						t.Errorf("closed %d times", n)
					}
				})
			}
		}
		t.Run(kind.name+"/CloseWrite", func(t *testing.T) {
			rlpxtest.CheckGoroutines(t)
			checkBuffers(t)
			ours, theirs := kind.make(t)
			gate := rlpxtest.NewGate(ours)
			conn, counting, _ := rawSession(t, nil, halfCloser{gate}, theirs)
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := conn.Write(1, make([]byte, 100)); err != net.ErrClosed {
					t.Errorf("Write: %v", err)
				}
			})
			gate.Entered()
			wg.Go(func() { // waits for the write
				if err := conn.CloseWrite(); err != net.ErrClosed {
					t.Errorf("CloseWrite: %v", err)
				}
			})
			if !rlpxtest.Within(func() { closeAtOnce(conn); wg.Wait() }) {
				t.Fatal("a call hangs")
			}
			giveBack(t, conn)
			if n := counting.Closes.Load(); n != 1 {
				t.Errorf("closed %d times", n)
			}
		})
	}
}

// halfCloser lets a test see CloseWrite where the net.Conn has none.
type halfCloser struct{ *rlpxtest.Gate }

func (halfCloser) CloseWrite() error { return errors.New("the writing direction was closed") }

// The same for handshakes, blocked in each of their calls on the net.Conn, in both roles.
func TestCloseDuringHandshake(t *testing.T) {
	ourKey, theirKey := newKey(t), newKey(t)
	for _, kind := range kindsOfConn {
		for _, tc := range []struct {
			name      string
			initiator bool
			peer      func(c net.Conn)
		}{
			{"waiting for auth", false, func(net.Conn) {}},
			{"in the size of auth", false, func(c net.Conn) { c.Write([]byte{1}) }},
			{"in auth", false, func(c net.Conn) { c.Write(authFor(t, ourKey)[:200]) }},
			{"waiting for ack", true, func(c net.Conn) { readPacket(c) }},
			{"in ack", true, func(c net.Conn) { readPacket(c); c.Write(append([]byte{1, 0x90}, make([]byte, 100)...)) }},
			{"writing auth", true, nil},
			{"writing ack", false, func(c net.Conn) { c.Write(authFor(t, ourKey)) }},
		} {
			if kind.name == "tcp" && (tc.peer == nil || tc.name == "writing ack") {
				continue // the system takes it
			}
			t.Run(kind.name+"/"+tc.name, func(t *testing.T) {
				rlpxtest.CheckGoroutines(t)
				checkBuffers(t)
				ours, theirs := kind.make(t)
				defer theirs.Close()
				counting := rlpxtest.Count(ours)
				conn := Server(counting, &Config{Key: ourKey})
				if tc.initiator {
					conn = Client(counting, &theirKey.PublicKey, &Config{Key: ourKey})
				}
				done := make(chan error, 1)
				go func() {
					_, err := conn.HandshakeContext(t.Context())
					done <- err
				}()
				if tc.peer != nil {
					tc.peer(theirs)
				}
				standsStill(t, counting)
				closeAtOnce(conn)
				if err := <-done; !errors.Is(err, net.ErrClosed) || !errors.Is(err, ErrHandshake) {
					t.Errorf("handshake: %v", err)
				}
				if n := counting.Closes.Load(); n != 1 {
					t.Errorf("closed %d times", n)
				}
			})
		}
	}
}

// Broadcasts over many connections which are closed, by either end and by resets, at any moment:
// every Broadcast returns, a peer that is closed gets whole messages before the end and nothing
// else, and nothing is left behind.
func TestBroadcastWhileConnsClose(t *testing.T) {
	rounds := 12
	if raceEnabled {
		rounds = 8
	}
	if testing.Short() {
		rounds = 4
	}
	for _, kind := range kindsOfConn {
		t.Run(kind.name, func(t *testing.T) {
			rlpxtest.CheckGoroutines(t)
			rlpxtest.CheckFDs(t)
			checkBuffers(t)
			for round := range rounds {
				r := rand.New(rand.NewPCG(uint64(round), 77))
				const peers = 12
				data := [][]byte{pattern(100, 1), pattern(30_000, 2), rlpxtest.Random(r, 200_000), rlpxtest.Random(r, wholeFrame+1000)}[round%4]
				broadcasts := min(6, max(1, 1_000_000/len(data)))
				conns, ends := make([]*Conn, peers), make([]*Conn, peers)
				countings := make([]*rlpxtest.Counting, peers)
				for i := range conns {
					a, b := kind.make(t)
					sa, sb := rlpxtest.NewSecrets(uint64(i))
					countings[i] = rlpxtest.Count(a)
					conns[i], ends[i] = initConn(countings[i], nil, sa), initConn(b, nil, sb)
					conns[i].SetSnappy(i%2 == 0)
					ends[i].SetSnappy(i%2 == 0)
				}
				var wg, casts sync.WaitGroup
				for i, end := range ends {
					wg.Go(func() {
						for {
							code, got, _, err := end.Read()
							if err != nil {
								if errors.Is(err, ErrAuthentication) || errors.Is(err, ErrProtocol) {
									t.Errorf("peer %d: %v", i, err)
								}
								return
							}
							if code != 9 || string(got) != string(data) {
								t.Errorf("peer %d: code %d, %d bytes", i, code, len(got))
							}
						}
					})
				}
				for range 3 { // overlapping
					casts.Go(func() {
						for range broadcasts {
							for i, err := range Broadcast(conns, 9, data) {
								if errors.Is(err, ErrMessageTooBig) || errors.Is(err, io.ErrShortWrite) {
									t.Errorf("peer %d: %v", i, err)
								}
							}
						}
					})
				}
				for i := range peers {
					after, how := time.Duration(r.IntN(3000))*time.Microsecond, r.IntN(4)
					wg.Go(func() {
						time.Sleep(after)
						switch how {
						case 0:
							closeAtOnce(conns[i])
						case 1:
							ends[i].Close()
						case 2:
							rlpxtest.Reset(ends[i].NetConn())
						default: // stays
						}
					})
				}
				casts.Wait() // or else the test hangs, and its stacks say where
				for i := range conns {
					conns[i].Close()
					ends[i].Close()
				}
				wg.Wait()
				for i := range conns {
					giveBack(t, conns[i])
					giveBack(t, ends[i])
					if n := countings[i].Closes.Load(); n != 1 {
						t.Errorf("closed %d times", n)
					}
				}
			}
		})
	}
}
