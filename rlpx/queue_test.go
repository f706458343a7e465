package rlpx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
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

func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
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

// WriteContext gives a message up while it is queued, and not when it is being sent.
func TestWriteContextGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _, peer := rawOverPipe(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first := make(chan error, 1)
		go func() {
			_, err := conn.WriteContext(ctx, 1, []byte("being sent"))
			first <- err
		}()
		synctest.Wait()
		var waiting sync.WaitGroup
		for i := range 5 {
			waiting.Go(func() {
				var err error
				switch i % 3 {
				case 0:
					_, err = conn.WriteContext(ctx, 2, []byte("queued"))
				case 1:
					_, err = conn.WriteBatchContext(ctx, []Message{{2, nil}, {2, nil}})
				case 2:
					_, err = conn.WritePayloadContext(ctx, 2, Compress([]byte("queued")))
				}
				if err != context.DeadlineExceeded {
					t.Errorf("way %d: %v", i%3, err)
				}
			})
		}
		waiting.Go(func() {
			if errs := WriteAll(ctx, []Target{{conn, 2}}, []byte("queued")); errs == nil || errs[0] != context.DeadlineExceeded {
				t.Errorf("WriteAll: %v", errs)
			}
		})
		last := make(chan error, 1)
		go func() {
			time.Sleep(time.Millisecond)
			_, err := conn.Write(3, nil)
			last <- err
		}()
		waiting.Wait()
		if len(first) > 0 {
			t.Fatal("a message that is being sent was given up")
		}
		wantCodes(t, peer, 1, 3)
		if err := errors.Join(<-first, <-last); err != nil {
			t.Error(err)
		}
	})
}

// Contexts that end at any moment spoil nothing: every message arrives whole or not at all, as its
// writer was told, and nobody hangs.
func TestContextsEndAtAnyMoment(t *testing.T) {
	a, b := tcpPipe(t)
	ca, cb := pairOver(t, a, b)
	const writers, each = 8, 100
	var sent [writers * each]atomic.Bool
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 3))
			for i := range each {
				id := w*each + i
				ctx, cancel := context.WithCancel(t.Context())
				if yields := r.IntN(40); yields < 20 {
					go func() {
						for range yields {
							runtime.Gosched()
						}
						cancel()
					}()
				}
				_, err := ca.WriteContext(ctx, uint64(id), make([]byte, 1+id%5000))
				if err != nil && err != context.Canceled {
					t.Error(err)
				}
				sent[id].Store(err == nil)
				cancel()
			}
		})
	}
	go func() {
		wg.Wait()
		ca.Write(writers*each, nil)
	}()
	got := map[uint64]bool{}
	for {
		code, data, _, err := cb.Read()
		if err != nil {
			t.Fatal(err)
		}
		if code == writers*each {
			break
		}
		if len(data) != 1+int(code)%5000 || got[code] {
			t.Fatalf("message %d has %d bytes, or came twice", code, len(data))
		}
		got[code] = true
	}
	for id := range sent {
		if sent[id].Load() != got[uint64(id)] {
			t.Errorf("message %d: its writer was told %v, it arrived %v", id, sent[id].Load(), got[uint64(id)])
		}
	}
}

// WriteLast drops what is queued, follows what is being sent, and ends the direction.
func TestWriteLast(t *testing.T) {
	cause := errors.New("over")
	synctest.Test(t, func(t *testing.T) {
		conn, peer := plainPipe(t)
		first := make(chan error, 1)
		go func() {
			_, err := conn.Write(1, nil)
			first <- err
		}()
		synctest.Wait()
		queued := make(chan error, 1)
		go func() {
			_, err := conn.Write(2, nil)
			queued <- err
		}()
		synctest.Wait()
		conn.Send(3, nil)
		last := make(chan error, 1)
		conn.SetWriteTimeout(time.Hour)
		go func() { last <- conn.WriteLast(t.Context(), cause, time.Second, 4, []byte("bye")) }()
		if err := <-queued; err != cause {
			t.Errorf("a queued Write: %v", err)
		}
		wantCodes(t, peer, 1, 4)
		if err := errors.Join(<-first, <-last); err != nil {
			t.Error(err)
		}
		if got := conn.WriteTimeout(); got != time.Hour {
			t.Errorf("write timeout %v after it", got)
		}
		if _, err := conn.Write(5, nil); err != cause {
			t.Errorf("Write after it: %v", err)
		}
		if err := conn.Send(5, nil); err != cause {
			t.Errorf("Send after it: %v", err)
		}
		if conn.out.posted != 0 || conn.out.owned {
			t.Errorf("%d bytes posted, owned %v", conn.out.posted, conn.out.owned)
		}
	})
	// What is being sent gets grace, and no more.
	synctest.Test(t, func(t *testing.T) {
		conn, _ := plainPipe(t)
		go conn.Write(1, nil)
		synctest.Wait()
		start := time.Now()
		err := conn.WriteLast(t.Context(), cause, time.Second, 4, nil)
		if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took != time.Second {
			t.Errorf("after %v: %v", took, err)
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

// A write timeout holds on a net.Conn without deadlines; a call that returns in time is progress.
func TestWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		conn, _, peer := rawSession(t, nil, &noDeadlines{ours}, theirs)
		conn.SetWriteTimeout(time.Second)
		for range 5 {
			done := make(chan error, 1)
			go func() {
				_, err := conn.Write(1, nil)
				done <- err
			}()
			time.Sleep(900 * time.Millisecond)
			wantCodes(t, peer, 1)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour) // idle time is no call
		start := time.Now()
		_, err := conn.Write(1, nil)
		if took := time.Since(start); took != time.Second || !errors.Is(err, os.ErrDeadlineExceeded) || !isTimeout(err) {
			t.Errorf("after %v: %v", took, err)
		}
		if _, _, _, err := conn.Read(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read: %v", err)
		}
	})
}

// noDeadlines is a net.Conn whose deadlines do nothing, as those of some tunnels.
type noDeadlines struct{ net.Conn }

func (*noDeadlines) SetDeadline(time.Time) error      { return nil }
func (*noDeadlines) SetWriteDeadline(time.Time) error { return nil }

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

// halfClosing is a net.Conn with a CloseWrite.
type halfClosing struct {
	net.Conn
	closed int
}

func (c *halfClosing) CloseWrite() error {
	c.closed++
	return nil
}

// WriteLast tells the net.Conn that nothing follows.
func TestWriteLastClosesTheDirection(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	a, b := rlpxtest.NewSecrets(5)
	half := &halfClosing{Conn: ours}
	conn, peer := initConn(half, nil, a), rlpxtest.NewRawPeer(theirs, b)
	defer conn.Close()
	last := make(chan error, 1)
	go func() { last <- conn.WriteLast(t.Context(), net.ErrClosed, time.Second, 4, nil) }()
	wantCodes(t, peer, 4)
	if err := <-last; err != nil || half.closed != 1 {
		t.Errorf("closed %d times, %v", half.closed, err)
	}
}
