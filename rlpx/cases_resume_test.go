package rlpx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// The rest of the field bugs in the life of a connection: interrupted reads, concurrent writers,
// who owns which bytes.

// A deadline that expires after any number of bytes loses none of them.
func TestCase_L14_ResumeAtEveryByte(t *testing.T) {
	for _, tc := range []struct {
		name   string
		size   int
		snappy bool
		step   int // away from the edges of frames
	}{{"small", 50, false, 1}, {"snappy", 300, true, 1}, {"medium", 3000, false, 1}, {"large", 70_000, false, 331}, {"streamed", wholeFrame + 500, false, 9973}} {
		t.Run(tc.name, func(t *testing.T) {
			data := rlpxtest.Random(rand.New(rand.NewPCG(14, 14)), tc.size)
			payload := data
			if tc.snappy {
				payload = snappy.Encode(nil, data)
			}
			last := []byte{9}
			if tc.snappy {
				last = []byte{9, 0}
			}
			_, peer := rlpxtest.NewSecrets(14)
			wire := sealing(rlpxtest.Data(7, payload), rlpxtest.Data(8, payload), last)(rlpxtest.NewSession(peer).Egress)
			step := tc.step
			if raceEnabled || testing.Short() {
				step *= 5
			}
			frame := rlpxtest.HeaderSize + rlpxtest.Padded(1+len(payload)) + rlpxtest.MACSize
			for k := 0; k < len(wire); k++ {
				if at := k % frame; at > 2*headerWire && at < frame-2*headerWire && at%step != 0 {
					continue
				}
				if testing.Short() && k%7 != 0 {
					continue
				}
				const times = 3
				sec, _ := rlpxtest.NewSecrets(14)
				conn := initConn(rlpxtest.TimeoutAt(rlpxtest.NewScript(wire), k, times), nil, sec)
				conn.SetSnappy(tc.snappy)
				timeouts := 0
				for i, want := range [][]byte{data, data, {}} {
					for {
						code, got, _, err := conn.Read()
						if err != nil {
							if err != rlpxtest.Timeout || got != nil || code != 0 {
								t.Fatalf("timeout after %d bytes: %#x, %d bytes, %v", k, code, len(got), err)
							}
							timeouts++
							continue
						}
						if code != uint64(7+i) || !bytes.Equal(got, want) {
							t.Fatalf("timeout after %d bytes: message %d is wrong", k, i)
						}
						break
					}
				}
				if timeouts != times {
					t.Fatalf("timeout after %d bytes: Read failed %d times, want %d", k, timeouts, times)
				}
				wantClean(t, conn)
			}
		})
	}
}

// The same with deadlines of the clock, and writing meanwhile.
func TestCase_L14_Deadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _, peer := rawOverPipe(t, nil)
		data := pattern(20_000, 3)
		wire := peer.Egress.Seal(rlpxtest.Data(5, data))
		go func() {
			from := 0
			for _, cut := range []int{10, headerWire, 100, 15_000, len(wire) - 1, len(wire)} {
				time.Sleep(5 * time.Second)
				peer.Send(wire[from:cut])
				from = cut
			}
		}()
		timeouts := 0
		for {
			conn.SetReadDeadline(time.Now().Add(2 * time.Second))
			start := time.Now()
			code, got, _, err := conn.Read()
			if err == nil {
				if code != 5 || !bytes.Equal(got, data) {
					t.Error("wrong message")
				}
				break
			}
			var ne net.Error
			if !errors.As(err, &ne) || !ne.Timeout() || time.Since(start) != 2*time.Second {
				t.Fatalf("Read after %v: %v", time.Since(start), err)
			}
			timeouts++
			go func() {
				if _, err := conn.Write(6, []byte("still here")); err != nil {
					t.Error(err)
				}
			}()
			if f, err := peer.ReadFrame(); err != nil || string(f.Data) != "\x06still here" {
				t.Fatal(err)
			}
		}
		if timeouts < 10 {
			t.Errorf("only %d timeouts", timeouts)
		}
	})
}

// Messages of concurrent writers arrive whole, small and large ones, and each writer's in its
// order.
func TestCase_L15_ConcurrentWriters(t *testing.T) {
	for _, kind := range kindsOfConn {
		t.Run(kind.name, func(t *testing.T) {
			writers, messages := 50, 200
			if raceEnabled {
				messages = 40
			}
			for _, snappyOn := range []bool{false, true} {
				t.Run(fmt.Sprintf("snappy=%v", snappyOn), func(t *testing.T) {
					a, b := kind.make(t)
					ca, cb := pairOver(t, a, b)
					ca.SetSnappy(snappyOn)
					cb.SetSnappy(snappyOn)
					var wg sync.WaitGroup
					for w := range writers {
						wg.Go(func() {
							r := rand.New(rand.NewPCG(15, uint64(w)))
							buf := rlpxtest.Random(r, 2000)
							for i := range messages {
								size := r.IntN(2000)
								switch {
								case r.IntN(2000) == 0:
									size = 1<<20 + r.IntN(1<<20) // in pieces
								case r.IntN(50) == 0:
									size = r.IntN(100_000)
								}
								data := make([]byte, 8+size)
								for at := 8; at < len(data); at += len(buf) {
									copy(data[at:], buf)
								}
								data[4], data[5] = byte(i>>8), byte(i)
								sum := crc32.ChecksumIEEE(data[4:])
								data[0], data[1], data[2], data[3] = byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum)
								if _, err := ca.Write(uint64(w), data); err != nil {
									t.Error(err)
									return
								}
							}
						})
					}
					next := make([]int, writers)
					for range writers * messages {
						code, data, _, err := cb.Read()
						if err != nil {
							t.Fatal(err)
						}
						sum := crc32.ChecksumIEEE(data[4:])
						if !bytes.Equal(data[:4], []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}) {
							t.Fatalf("message of writer %d is damaged", code)
						}
						if i := int(data[4])<<8 | int(data[5]); i != next[code] {
							t.Fatalf("writer %d: message %d came when %d was due", code, i, next[code])
						}
						next[code]++
					}
					wg.Wait()
				})
			}
		})
	}
}

// Data is lent until the next Read: nothing else may touch it, and touching it, or growing it, may
// harm nothing.
func TestCase_L17_LentData(t *testing.T) {
	for _, snappyOn := range []bool{false, true} {
		for _, size := range []int{0, 1, 100, 3000, 40_000, 2 << 20} {
			payload := func(i int) []byte { return pattern(size, byte(i)) }
			conn, _, _ := recorded(nil, nil, func(peer *rlpxtest.Direction) []byte {
				var wire []byte
				for i := range 5 {
					p := payload(i)
					if snappyOn {
						p = snappy.Encode(nil, p)
					}
					wire = append(wire, peer.Seal(rlpxtest.Data(uint64(i), p))...)
				}
				return wire
			})
			conn.SetSnappy(snappyOn)
			var kept []byte
			for i := range 5 {
				_, data, _, err := conn.Read()
				if err != nil {
					t.Fatal(err)
				}
				// Whatever else happens meanwhile, here a Write that uses the same pools.
				for _, n := range []int{100, size} {
					if _, err := conn.Write(1, bytes.Repeat([]byte{0xEE}, n)); err != nil {
						t.Fatal(err)
					}
				}
				if !bytes.Equal(data, payload(i)) {
					t.Fatalf("snappy %v, %d bytes: message %d changed before the next Read", snappyOn, size, i)
				}
				kept = append(kept[:0], data...) // the copy that a caller makes
				if cap(data) != len(data) {
					t.Fatalf("snappy %v, %d bytes: append would write over what follows", snappyOn, size)
				}
				for j := range data {
					data[j] = 0xFF
				}
			}
			if !bytes.Equal(kept, payload(4)) {
				t.Fatal("the copy changed")
			}
			wantClean(t, conn)
		}
	}
}

// Two sessions with the same key have nothing in common.
func TestCase_L23_TwoSessionsOneKey(t *testing.T) {
	for _, kind := range kindsOfConn {
		t.Run(kind.name, func(t *testing.T) {
			ourKey, peerKey := newKey(t), newKey(t)
			dial := func() (*Conn, *rlpxtest.RawPeer) {
				ours, theirs := kind.make(t)
				conn := Client(ours, &peerKey.PublicKey, &Config{Key: ourKey})
				got := make(chan *rlpxtest.RawPeer, 1)
				go func() {
					peer, err := rlpxtest.Accept(context.Background(), theirs, peerKey)
					if err != nil {
						t.Error(err)
					}
					got <- peer
				}()
				if _, err := conn.HandshakeContext(t.Context()); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close(); theirs.Close() })
				return conn, <-got
			}
			c1, p1 := dial()
			c2, p2 := dial()
			if !p1.Remote.Equal(&ourKey.PublicKey) || !p2.Remote.Equal(&ourKey.PublicKey) {
				t.Fatal("wrong key at the peer")
			}
			go p1.SendMessage(1, []byte("one"))
			go p2.SendMessage(2, []byte("two"))
			wantRead(t, c2, 2, []byte("two"))
			wantRead(t, c1, 1, []byte("one"))
			c1.Close()
			go c2.Write(3, []byte("three"))
			if f, err := p2.ReadFrame(); err != nil || string(f.Data) != "\x03three" {
				t.Fatal(err)
			}
		})
	}
}
