package rlpx

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
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
