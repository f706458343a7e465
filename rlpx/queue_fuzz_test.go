package rlpx

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// FuzzQueue compares the queue with a simple model, for any interleaving of calls with the calls on
// the net.Conn: what arrives is what its caller was told is sent, once, whole, and in the order of
// the calls, but for control, which never comes later than what was queued before it, apart from
// what was being sent.
func FuzzQueue(f *testing.F) {
	f.Add([]byte{0, 0, 0, 5, 5, 5})
	f.Add([]byte{0, 1, 2, 3, 4, 6, 5, 0, 2, 3, 6, 5, 5})
	f.Add([]byte{1, 1, 1, 6, 6, 6, 5, 2, 2, 3, 7, 1, 5, 4, 0, 6})
	f.Add([]byte{0, 2, 8, 3, 0, 9, 2, 5, 1, 6, 10, 3, 5})
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) > 100 {
			return
		}
		synctest.Test(t, func(t *testing.T) { runQueue(t, ops) })
	})
}

// sentMessage is what the model knows of a message.
type sentMessage struct {
	control bool
	err     error
	cancel  context.CancelFunc
}

func runQueue(t *testing.T, ops []byte) {
	conn, peer := plainPipe(t)
	conn.cfg.SendQueue = 20 << 10
	var messages []*sentMessage
	var arrived []int
	read := func() bool {
		synctest.Wait()
		done := make(chan rlpxtest.Frame, 1)
		go func() {
			if f, err := peer.ReadFrame(); err == nil {
				done <- f
			}
			close(done)
		}()
		synctest.Wait()
		select {
		case f, ok := <-done:
			if ok {
				arrived = append(arrived, int(binary.BigEndian.Uint16(f.Data[len(f.Data)-2:])))
			}
			return ok
		default:
			// Nothing is sent. An empty message ends the wait, and does not count.
			if err := conn.Send(1, []byte{0xFF, 0xFF}); err != nil {
				peer.Conn.Close()
				<-done
				return false
			}
			<-done
			return false
		}
	}
	data := func(size int) []byte {
		return binary.BigEndian.AppendUint16(make([]byte, size), uint16(len(messages)))
	}
	add := func(control bool) *sentMessage {
		m := &sentMessage{control: control}
		messages = append(messages, m)
		return m
	}
	ended := false
	for _, op := range ops {
		size := int(op>>4) * 900
		switch payload := data(size); op & 15 {
		case 0, 7:
			m := add(false)
			go func() { _, m.err = conn.Write(2, payload) }()
		case 1, 8:
			m := add(false)
			ctx, cancel := context.WithCancel(t.Context())
			m.cancel = cancel
			go func() { _, m.err = conn.WriteContext(ctx, 2, payload) }()
		case 2, 9:
			add(false).err = conn.Send(2, payload)
		case 3:
			add(true).err = conn.SendControl(uint64(3+len(messages)%3), payload)
		case 4:
			m := add(false)
			go func() { _, m.err = conn.WriteBatch([]Message{{2, payload}}) }()
		case 5, 10:
			if len(messages) > len(arrived) {
				read()
			}
		case 6:
			for _, m := range messages {
				if m.cancel != nil {
					m.cancel()
					m.cancel = nil
					break
				}
			}
		case 11:
			add(false).err = errors.Join(SendAll([]Target{{conn, 2}}, payload)...)
		case 12:
			m := add(false)
			go func() { m.err = errors.Join(WriteAll(t.Context(), []Target{{conn, 2}}, payload)...) }()
		}
		synctest.Wait()
	}
	for !ended {
		ended = !read()
	}
	for _, m := range messages {
		if m.cancel != nil {
			m.cancel()
		}
	}
	synctest.Wait()
	seen := make([]bool, len(messages))
	last := -1
	for _, id := range arrived {
		if id >= len(messages) || seen[id] {
			t.Fatalf("message %d arrived that was not sent, or twice; arrived %v", id, arrived)
		}
		seen[id] = true
		if !messages[id].control {
			if id < last {
				t.Fatalf("message %d arrived after %d", id, last)
			}
			last = id
		}
	}
	for id, m := range messages {
		if seen[id] != (m.err == nil) {
			t.Errorf("message %d: arrived %v, its caller was told %v", id, seen[id], m.err)
		}
	}
	if conn.out.owned || conn.out.posted != 0 || conn.out.waiting() {
		t.Errorf("owned %v, %d bytes posted", conn.out.owned, conn.out.posted)
	}
}
