package rlpx

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/internal/bufpool"
	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// frameCode is the code of a frame, 0 to 0x7f.
func frameCode(f rlpxtest.Frame) int {
	if f.Data[0] == 0x80 {
		return 0
	}
	return int(f.Data[0])
}

// wantCodes reads frames and compares their codes.
func wantCodes(t *testing.T, peer *rlpxtest.RawPeer, codes ...int) {
	t.Helper()
	for i, want := range codes {
		f, err := peer.ReadFrame()
		if err != nil || frameCode(f) != want {
			t.Fatalf("frame %d: got %v, %v, want code %d", i, f, err, want)
		}
	}
}

// Send does not wait, keeps the order among the ways to write, and copies what it is given.
func TestSend(t *testing.T) {
	for _, snappyOn := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a, b := pipePair(t, snappyOn)
			type message struct {
				code uint64
				data []byte
			}
			var want []message
			scratch := make([]byte, 200<<10)
			start := time.Now()
			for i, size := range []int{0, 1, 10, packMax - 1, packMax, packMax + 1, 3 * packSize, 100, 200 << 10, 5} {
				data := scratch[:size]
				rand.NewChaCha8([32]byte{byte(i)}).Read(data)
				want = append(want, message{uint64(i), bytes.Clone(data)})
				if err := a.Send(uint64(i), data); err != nil {
					t.Fatal(err)
				}
				clear(data)
			}
			if time.Since(start) != 0 {
				t.Error("Send waits")
			}
			for _, m := range want {
				code, data, _, err := b.Read()
				if err != nil || code != m.code || !bytes.Equal(data, m.data) {
					t.Fatalf("got code %d, %d bytes, %v; want code %d, %d bytes", code, len(data), err, m.code, len(m.data))
				}
			}
			synctest.Wait()
			if s := a.ConnectionState().Stats; s.MessagesWritten != uint64(len(want)) || a.out.posted != 0 || a.out.owned {
				t.Errorf("%d messages, %d bytes posted, owned %v", s.MessagesWritten, a.out.posted, a.out.owned)
			}
		})
	}
}

// What is queued for a peer that does not read is bounded by bytes of memory, whatever the sizes.
func TestSendQueueIsBounded(t *testing.T) {
	for _, snappyOn := range []bool{false, true} {
		for _, size := range []int{0, 32, 1000, packMax + 1, 100_000, 1<<20 + 1} {
			limit := 1 << 20
			if size <= packMax { // many messages
				limit = 64 << 10
			}
			synctest.Test(t, func(t *testing.T) {
				tracker := bufpool.Track()
				defer tracker.Stop()
				conn, _, peer := rawOverPipe(t, &Config{SendQueue: limit})
				conn.SetSnappy(snappyOn)
				data := make([]byte, size)
				rand.NewChaCha8([32]byte{1}).Read(data)
				sent := 0
				var err error
				for ; err == nil && sent < 1e6; sent++ {
					err = conn.Send(1, data)
					synctest.Wait()
				}
				sent--
				if err != ErrQueueFull {
					t.Fatalf("after %d messages: %v", sent, err)
				}
				if size > limit && sent > 0 {
					t.Error("a message over the bound was taken")
				}
				if size == 32 && sent < limit/100 {
					t.Errorf("only %d small messages", sent)
				}
				if conn.out.posted > limit {
					t.Errorf("%d bytes posted", conn.out.posted)
				}
				if err := conn.SendControl(2, nil); err != nil {
					t.Errorf("control: %v", err)
				}
				if _, err := conn.WriteContext(expired(), 1, nil); err != context.Canceled {
					t.Errorf("WriteContext: %v", err)
				}
				// All of it is written in the end, and there is room again.
				go func() {
					for range sent + 1 {
						peer.ReadFrame()
					}
				}()
				synctest.Wait()
				if conn.out.posted != 0 || tracker.Lent() != 0 {
					t.Errorf("%d bytes posted, %d buffers lent", conn.out.posted, tracker.Lent())
				}
				if s := conn.ConnectionState().Stats; s.MessagesWritten != uint64(sent+1) {
					t.Errorf("%d messages written of %d", s.MessagesWritten, sent+1)
				}
			})
		}
	}
}

// Control goes ahead of what is queued, once for each code, and within its own bound.
func TestSendControl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _, peer := rawOverPipe(t, nil)
		for code := range 3 {
			go conn.Write(uint64(10+code), make([]byte, 200<<10))
			synctest.Wait()
		}
		conn.Send(13, nil)
		for range 3 {
			for code := range 2 {
				err := conn.SendControl(uint64(1+code), nil)
				if want := conn.out.control.first == nil; err != nil && err != ErrQueueFull || want {
					t.Errorf("control %d: %v", code, err)
				}
			}
		}
		if err := conn.SendControl(3, make([]byte, maxControl+1)); err != ErrQueueFull {
			t.Errorf("too large: %v", err)
		}
		wantCodes(t, peer, 10, 1, 2, 11, 12, 13)
	})
}

// Control goes between the calls of a batch, and between large messages.
func TestControlAmidABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _, peer := rawOverPipe(t, nil)
		batch := make([]Message, 8)
		for i := range batch {
			batch[i] = Message{Code: uint64(10 + i), Data: make([]byte, 100<<10)}
		}
		go conn.WriteBatch(batch)
		synctest.Wait()
		conn.SendControl(1, nil)
		f := []int{}
		for range 9 {
			frame, err := peer.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			f = append(f, frameCode(frame))
		}
		at := 0
		for i, code := range f {
			if code == 1 {
				at = i
			}
		}
		if at == 0 || at > 5 {
			t.Errorf("codes %v: the control message waits for the batch", f)
		}
	})
}

// plainPipe is rawOverPipe without anything around the pipe.
func plainPipe(t testing.TB) (*Conn, *rlpxtest.RawPeer) {
	t.Helper()
	ours, theirs := net.Pipe()
	a, b := rlpxtest.NewSecrets(rand.Uint64())
	conn, peer := initConn(ours, nil, a), rlpxtest.NewRawPeer(theirs, b)
	t.Cleanup(func() { conn.Close(); theirs.Close() })
	return conn, peer
}

// SendAll and WriteAll give each target its own code, an error where there is no connection, and
// the message to all others, idle or busy, compressed or not, whatever its size.
func TestTargets(t *testing.T) {
	rlpxtest.Bound(t)
	for _, size := range []int{0, 100, 20 << 10, 300 << 10, 3 << 19} {
		for _, wait := range []bool{false, true} {
			t.Run(fmt.Sprintf("size=%d/wait=%v", size, wait), func(t *testing.T) {
				peers := 20
				if testing.Short() {
					peers = 10
				}
				var targets []Target
				var ends []*Conn
				for i := range peers {
					var a, b *Conn
					if i%2 == 0 {
						a, b = pipePair(t, i%3 == 0)
					} else {
						x, y := tcpPipe(t)
						a, b = pairOver(t, x, y)
						a.SetSnappy(i%3 == 0)
						b.SetSnappy(i%3 == 0)
					}
					a.cfg.SendQueue = 16 << 20
					targets, ends = append(targets, Target{a, uint64(100 + i)}), append(ends, b)
				}
				targets = append(targets, Target{nil, 1})
				data := pattern(size, 7)
				var readers, writers sync.WaitGroup
				for i, b := range ends {
					readers.Go(func() {
						for range 3 {
							code, got, _, err := b.Read()
							if err != nil || code != uint64(100+i) || !bytes.Equal(got, data) {
								t.Errorf("peer %d: code %d, %d bytes, %v", i, code, len(got), err)
								return
							}
						}
					})
				}
				for range 3 { // several at once meet at busy connections
					writers.Go(func() {
						mine := bytes.Clone(data)
						var errs []error
						if wait {
							errs = WriteAll(t.Context(), targets, mine)
						} else {
							errs = SendAll(targets, mine)
						}
						clear(mine) // it is not kept
						for i, err := range errs {
							if (i == peers) != (err != nil) {
								t.Errorf("target %d: %v", i, err)
							}
						}
						if len(errs) != peers+1 {
							t.Errorf("%d errors", len(errs))
						}
					})
				}
				writers.Wait()
				readers.Wait()
			})
		}
	}
}
