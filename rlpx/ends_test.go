package rlpx

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// The end of WriteAll's context does not end a second time what failed before: WriteAll would
// return while a message, and the caller's data, are in use.
func TestTargetsThatFailedBeforeTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed, _ := pipePair(t, false)
		closed.Close()
		conn, _, peer := rawOverPipe(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan []error, 1)
		go func() { result <- WriteAll(ctx, []Target{{closed, 1}, {conn, 2}}, make([]byte, 1000)) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case errs := <-result:
			t.Errorf("returned %v while a message was being sent", errs)
			result <- errs
		default:
		}
		wantCodes(t, peer, 2)
		if errs := <-result; len(errs) != 2 || !errors.Is(errs[0], net.ErrClosed) || errs[1] != nil {
			t.Errorf("got %v", errs)
		}
	})
}

// A batch of messages that are too large for one call lets control through between them.
func TestControlAmidLargeMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _, peer := rawOverPipe(t, nil)
		batch := make([]Message, 4)
		for i := range batch {
			batch[i] = Message{Code: uint64(10 + i), Data: make([]byte, 2<<20)}
		}
		done := make(chan error, 1)
		go func() {
			_, err := conn.WriteBatch(batch)
			done <- err
		}()
		synctest.Wait()
		if err := conn.SendControl(1, nil); err != nil {
			t.Fatal(err)
		}
		wantCodes(t, peer, 10, 1, 11, 12, 13)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A panic of the net.Conn is told as other errors are, to those who do not wait for a write, and is
// no call that takes too long.
func TestPanicIsToldOfAndNoTimeout(t *testing.T) {
	for _, way := range []string{"Send", "Write"} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, release := panicking(t, 1, nil)
				release()
				conn.SetWriteTimeout(time.Second)
				var told []error
				conn.OnWriteFailed(func(err error) { told = append(told, err) })
				if way == "Send" {
					conn.Send(1, nil)
				} else if v := panics(func() { conn.Write(1, nil) }); v == nil {
					t.Error("no panic")
				}
				synctest.Wait()
				var panicked *PanicError
				if len(told) != 1 || !errors.As(told[0], &panicked) {
					t.Errorf("told of %v", told)
				}
				time.Sleep(time.Minute)
				if err := conn.ended(); err != nil {
					t.Errorf("the connection ended: %v", err)
				}
			})
		})
	}
}
