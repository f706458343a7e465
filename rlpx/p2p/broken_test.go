package p2p

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/rlpx"
)

// A tick that was under way when a write failed must not put off the end of the session.
func TestTickDoesNotPutOffTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := pipe.session(t, &SessionConfig{Capabilities: testCaps, PingInterval: -1, ReadTimeout: -1})
		fault := errors.New("fault")
		start := time.Now()
		s.writeFailed(fault)
		s.again(never) // what the tick found before
		wantDone(t, s, fault)
		if took := time.Since(start); took > disconnectTimeout {
			t.Errorf("took %v", took)
		}
	})
}

// From the moment on in which a session's end begins, nothing is sent, though the connection may be
// open a little longer.
func TestNothingIsSentOnceTheEndBegins(t *testing.T) {
	const id = 1
	payload := rlpx.Compress([]byte("late"))
	for way, send := range map[string]func(ch *Channel) error{
		"Write":        func(ch *Channel) error { return ch.Write(id, nil) },
		"WritePayload": func(ch *Channel) error { return ch.WritePayload(context.Background(), id, payload) },
		"WriteBatch":   func(ch *Channel) error { return ch.WriteBatch(context.Background(), []Message{{id, nil}}) },
		"WriteRLP":     func(ch *Channel) error { return ch.WriteRLP(context.Background(), id, "late") },
		"Send":         func(ch *Channel) error { return ch.Send(id, nil) },
		"SendPayload":  func(ch *Channel) error { return ch.SendPayload(id, payload) },
		"SendRLP":      func(ch *Channel) error { return ch.SendRLP(id, "late") },
		"Broadcast": func(ch *Channel) error {
			return errors.Join(Broadcast(context.Background(), []*Channel{ch}, id, nil)...)
		},
		"SendAll": func(ch *Channel) error { return errors.Join(SendAll([]*Channel{ch}, id, nil)...) },
	} {
		t.Run(way, func(t *testing.T) {
			for range 20 {
				s, p := pipe.session(t, &SessionConfig{Capabilities: testCaps})
				go p.rest()
				over := errors.New("over")
				s.lost(over)
				if err := send(s.Capability("aaa")); !errors.Is(err, over) {
					t.Fatalf("got %v", err)
				}
				<-s.Done()
			}
		})
	}
}

// Where a write has failed, an end that the program asks for does not hide that.
func TestEndAfterFailedWriteTellsOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := &SessionConfig{Capabilities: testCaps, WriteTimeout: time.Second, PingInterval: -1, ReadTimeout: -1}
		s, _ := pipe.session(t, cfg)
		ch := s.Capability("aaa")
		ch.Send(1, nil) // which the peer does not take
		time.Sleep(2 * time.Second)
		if err := ch.Send(1, nil); !errors.Is(err, rlpx.ErrWriteTimeout) {
			t.Errorf("Send: %v", err)
		}
		if s.End(DiscUselessPeer) {
			t.Error("End takes the end for its own")
		}
		wantDone(t, s, rlpx.ErrWriteTimeout)
		if err := s.Err(); errors.Is(err, DiscUselessPeer) {
			t.Errorf("the session ended by %v", err)
		}
	})
}
