package p2p

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/internal/bufpool"
)

// A message that is taken makes room for the next at once, also if nobody waits in Read after that.
func TestTakenMessageMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pipe.session(t, &SessionConfig{Capabilities: testCaps, QueueMessages: 1, PingInterval: -1, ReadTimeout: -1})
		sent := make(chan error, 1)
		go func() {
			p.send(0x10, nil)
			p.send(0x10, nil)
			sent <- p.send(PingCode, AppendPing(nil)) // which is read once both are in the queue
		}()
		pong := make(chan uint64, 1)
		go func() {
			code, _, _ := p.next()
			pong <- code
		}()
		synctest.Wait()
		if len(pong) > 0 {
			t.Fatal("the queue took more than its bound")
		}
		if _, _, err := s.Capability("aaa").Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(pong) == 0 {
			t.Error("there is room, and nothing is read")
		}
	})
}

// Several messages with one signal wake all who wait: what one goroutine takes, it tells the next
// of.
func TestOneSignalForSeveralMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := pipe.session(t, nil)
		ch := s.Capability("aaa")
		got := make(chan uint64, 3)
		for range 3 {
			go func() {
				id, _, err := ch.Read(t.Context())
				if err == nil {
					got <- id
				}
			}()
		}
		synctest.Wait()
		ch.mu.Lock()
		for id := range uint64(3) {
			ch.queue.push(message{id: id})
		}
		signal(ch.arrived)
		ch.mu.Unlock()
		synctest.Wait()
		if len(got) != 3 {
			t.Errorf("%d of 3 goroutines have a message", len(got))
		}
	})
}

// A queue keeps no message that was taken.
func TestQueueKeepsNoMessage(t *testing.T) {
	var q queue
	for range 3 {
		q.push(message{1, []byte("data")})
	}
	q.pop()
	q.pop()
	kept := 0
	for _, m := range q.ring {
		if m.data != nil {
			kept++
		}
	}
	if kept != 1 {
		t.Errorf("%d messages are kept, 1 is queued", kept)
	}
}

// The connection's buffer of the last message is given back at the end of a session, though the
// program keeps the session.
func TestEndGivesTheLastBufferBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := bufpool.Track()
		defer tracker.Stop()
		handled := make(chan int, 1)
		caps := Capabilities{{Cap: testCaps[0].Cap, Length: testCaps[0].Length, Handle: func(_ *Channel, _ uint64, data []byte) error {
			handled <- len(data)
			return nil
		}}}
		s, p := pipe.session(t, &SessionConfig{Capabilities: caps})
		const size = 100 << 10
		if err := p.send(0x10, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if n := <-handled; n != size {
			t.Fatalf("%d bytes", n)
		}
		go p.rest()
		s.Close()
		<-s.Done()
		time.Sleep(time.Second)
		if n := tracker.Lent(); n != 0 {
			t.Errorf("%d buffers are lent after the end", n)
		}
		s.Err()
	})
}

// An empty batch waits for what was sent before it, however that was sent.
func TestEmptyBatchWaitsForTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pipe.session(t, nil)
		ch := s.Capability("aaa")
		for range 3 {
			if err := ch.Send(1, make([]byte, 10<<10)); err != nil {
				t.Fatal(err)
			}
		}
		flushed := make(chan error, 1)
		go func() { flushed <- ch.WriteBatch(t.Context(), nil) }()
		synctest.Wait()
		if len(flushed) > 0 {
			t.Error("it returned before anything was written")
		}
		for range 3 {
			if code, _ := p.read(); code != 0x11 {
				t.Errorf("got code %#x", code)
			}
		}
		if err := <-flushed; err != nil {
			t.Error(err)
		}
		go p.rest()
	})
}
