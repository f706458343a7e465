package rlpx

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/internal/bufpool"
	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// LastWrite moves with every way to write, also with SendAll, which writes to a socket without
// waiting.
func TestLastWrite(t *testing.T) {
	ours, theirs := tcpPipe(t)
	a, b := rlpxtest.NewSecrets(3)
	conn, peer := initConn(ours, nil, a), rlpxtest.NewRawPeer(theirs, b)
	defer conn.Close()
	defer theirs.Close()
	if conn.socket == nil {
		t.Skip("no socket that is written to without waiting on this system")
	}
	conn.SetWriteTimeout(time.Hour)
	for _, way := range []struct {
		name  string
		write func() error
	}{
		{"Write", func() error { _, err := conn.Write(1, nil); return err }},
		{"SendAll", func() error { return errors.Join(SendAll([]Target{{conn, 1}}, nil)...) }},
		{"Send", func() error { return conn.Send(1, nil) }},
	} {
		before := conn.ConnectionState().LastWrite
		if err := way.write(); err != nil {
			t.Fatal(err)
		}
		wantCodes(t, peer, 1)
		if !rlpxtest.Eventually(func() bool { return conn.ConnectionState().LastWrite.After(before) }) {
			t.Errorf("%s: still %v", way.name, before)
		}
	}
}

// The statistics of a batch that takes long show how far it is.
func TestStatsAmidABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, size := range map[string]int{"many a call": 100_000, "several calls a message": 2 << 20} {
			conn, _, peer := rawOverPipe(t, nil)
			batch := make([]Message, 20)
			for i := range batch {
				batch[i] = Message{Code: 1, Data: make([]byte, size)}
			}
			go conn.WriteBatch(batch)
			for read := range 10 {
				wantCodes(t, peer, 1)
				synctest.Wait()
				// All that the peer has but for what the call under way carries.
				if got := int(conn.ConnectionState().Stats.MessagesWritten); got < read-3 {
					t.Errorf("%s: %d messages written when the peer has %d", name, got, read+1)
				}
			}
			conn.Close()
		}
	})
}

// However small the bound, a connection at rest takes a message, and holds no more than 8 KiB for
// small ones.
func TestSmallestSendQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _, _ := rawOverPipe(t, &Config{SendQueue: 1})
		var err error
		sent := 0
		for ; err == nil && sent < 10_000; sent++ {
			err = conn.Send(1, []byte{1})
			synctest.Wait()
		}
		if err != ErrQueueFull || sent < 100 || conn.out.posted > minSendQueue {
			t.Errorf("after %d messages, with %d bytes: %v", sent, conn.out.posted, err)
		}
	})
}

// A buffer with which a net.Conn panicked is not used again: the net.Conn may still have it.
func TestPanicKeepsItsBuffer(t *testing.T) {
	for _, size := range []int{10, 3 << 20} {
		tracker := bufpool.Track()
		conn, release := panicking(t, 1, nil)
		release()
		if v := panics(func() { conn.Write(1, make([]byte, size)) }); v == nil {
			t.Fatal("no panic")
		}
		if tracker.Lent() != 1 {
			t.Errorf("%d bytes: %d buffers lent, want the one that the net.Conn has", size, tracker.Lent())
		}
		tracker.Stop()
		if conn.out.buf.Held() {
			t.Error("the connection holds a buffer")
		}
	}
}

// A write timeout that is made shorter between two calls holds for the next, though the timer runs
// for the longer one.
func TestShorterWriteTimeoutHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, peer := plainPipe(t)
		conn.SetWriteTimeout(time.Hour)
		go conn.Write(1, nil)
		wantCodes(t, peer, 1)
		synctest.Wait()
		conn.SetWriteTimeout(time.Second)
		start := time.Now()
		_, err := conn.Write(2, nil)
		if took := time.Since(start); !errors.Is(err, ErrWriteTimeout) || took > 2*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	})
}
