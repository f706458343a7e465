package rlpx

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"github.com/go-rlpx/transport/internal/bufpool"
	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// The goroutine that was chosen to be the owner is the owner: its context cannot take its item away
// any more.
func TestChosenItemStaysQueued(t *testing.T) {
	conn, _, _ := rawOverPipe(t, nil)
	out := &conn.out
	it := out.newItem()
	it.waited, it.chosen = true, true
	out.queue.push(it)
	if out.cancel(it, context.Canceled) || out.queue.first != it || it.state != queued || it.err != nil {
		t.Errorf("it was taken out: state %d, error %v", it.state, it.err)
	}
	it.chosen = false
	if !out.cancel(it, context.Canceled) || out.queue.first != nil || it.err != context.Canceled {
		t.Error("it was not taken out when it was not chosen")
	}
}

// An owner takes what goes into one call. What is behind that can still be given up.
func TestOwnerTakesNoMoreThanACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _, peer := rawOverPipe(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		data := make([]byte, 100<<10)
		results := make([]chan error, 6)
		for i := range results {
			results[i] = make(chan error, 1)
			go func() {
				_, err := conn.WriteContext(ctx, uint64(1+i), data)
				results[i] <- err
			}()
			synctest.Wait()
		}
		wantCodes(t, peer, 1)
		synctest.Wait() // the second is the owner, with the third, and waits in a call
		cancel()
		synctest.Wait()
		for i, r := range results {
			if i < 3 && i > 0 {
				continue
			}
			select {
			case err := <-r:
				if i == 0 && err != nil || i > 0 && err != context.Canceled {
					t.Errorf("message %d: %v", 1+i, err)
				}
			default:
				t.Errorf("message %d cannot be given up", 1+i)
			}
		}
		wantCodes(t, peer, 2, 3)
		for _, r := range results[1:3] {
			if err := <-r; err != nil {
				t.Error(err)
			}
		}
	})
}

// After a call that failed, the statistics have the call and its bytes, and no message.
func TestStatsOfAFailedCall(t *testing.T) {
	ours, theirs := net.Pipe()
	fault := errors.New("fault")
	filter := &rlpxtest.Filter{Conn: ours, OnWrite: func(net.Conn, []byte) (int, error) { return 7, fault }}
	conn, _, _ := rawSession(t, nil, filter, theirs)
	if n, err := conn.Write(1, []byte("lost")); !errors.Is(err, fault) || n != 0 {
		t.Fatal(n, err)
	}
	s := conn.ConnectionState().Stats
	if s.WriteCalls != 1 || s.WireBytesWritten != 7 || s.MessagesWritten != 0 || s.DataBytesWritten != 0 {
		t.Errorf("%+v", s)
	}
}

// What is queued costs the memory that it holds: the size after compression, and that of a payload
// which others hold as well.
func TestCostOfWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _, _ := rawOverPipe(t, &Config{SendQueue: 256 << 10})
		conn.SetSnappy(true)
		zeros := make([]byte, 100<<10)
		for i := range 10 {
			if err := conn.Send(1, zeros); err != nil {
				t.Fatalf("message %d, compressed to next to nothing: %v", i, err)
			}
			synctest.Wait()
		}
		other, _, _ := rawOverPipe(t, &Config{SendQueue: 256 << 10})
		payload := Compress(rlpxtest.Data(1, pattern(100<<10, 1)))
		sent := 0
		for ; sent < 100; sent++ {
			if err := other.SendPayload(1, payload); err != nil {
				if err != ErrQueueFull {
					t.Fatal(err)
				}
				break
			}
			synctest.Wait()
		}
		if sent < 2 || sent > 6 {
			t.Errorf("%d payloads of 100 KiB in a queue of 256", sent)
		}
	})
}

// sizedConn notes the capacity of what it was last given to write, and the most bytes at once.
type sizedConn struct {
	net.Conn
	last, most int
}

func (c *sizedConn) Write(p []byte) (int, error) {
	c.last, c.most = cap(p), max(c.most, len(p))
	return len(p), nil
}

// The buffer for the rest of a batch is as large as the rest needs, not as what was before it.
func TestBufferFitsWhatIsLeft(t *testing.T) {
	for name, sizes := range map[string][]int{
		"frames that fill a call": {200 << 10, 200 << 10, 100},
		"a frame in pieces":       {3 << 20, 100},
	} {
		sink := new(sizedConn)
		secrets, _ := rlpxtest.NewSecrets(1)
		conn := initConn(sink, nil, secrets)
		var msgs []Message
		for _, size := range sizes {
			msgs = append(msgs, Message{1, make([]byte, size)})
		}
		if _, err := conn.WriteBatch(msgs); err != nil {
			t.Fatal(err)
		}
		rest := 0
		for _, size := range sizes[1:] {
			rest += wireLen(maxCodeLen + size)
		}
		if most := bufpool.ClassSize(rest); sink.last > most {
			t.Errorf("%s: the last buffer has %d bytes, want %d", name, sink.last, most)
		}
	}
}
