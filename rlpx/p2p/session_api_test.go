package p2p

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/rlp"

	"github.com/go-rlpx/transport/rlpx"
)

// handled is testCaps with a function for the first of them.
func handled(f func(ch *Channel, id uint64, data []byte) error) *SessionConfig {
	caps := append(Capabilities(nil), testCaps...)
	caps[0].Handle = f
	return &SessionConfig{Capabilities: caps}
}

// A capability's function gets all messages in order, and may answer with Send.
func TestHandle(t *testing.T) {
	const messages = 1000
	var got []string
	done := make(chan struct{})
	a, b, err := Pipe(&SessionConfig{Capabilities: testCaps}, handled(func(ch *Channel, id uint64, data []byte) error {
		got = append(got, fmt.Sprint(id, " ", string(data)))
		if len(got) == messages {
			defer close(done)
		}
		return ch.Send(id, data)
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	defer b.Close()
	ch := a.Capability("aaa")
	go func() {
		for i := range messages {
			if err := ch.Write(uint64(i%4), fmt.Append(nil, i)); err != nil {
				t.Error(err)
			}
		}
	}()
	for i := range messages {
		id, data, err := ch.Read(t.Context())
		if err != nil || id != uint64(i%4) || string(data) != fmt.Sprint(i) {
			t.Fatalf("message %d: %d %q, %v", i, id, data, err)
		}
	}
	<-done
	for i, m := range got {
		if want := fmt.Sprint(i%4, " ", i); m != want {
			t.Fatalf("message %d is %q", i, m)
		}
	}
}

// An error of the function ends the session with its reason; a function may end its session itself.
func TestHandleEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(ch *Channel) error
		want DiscReason
	}{
		"error":      {func(*Channel) error { return fmt.Errorf("no: %w", DiscUselessPeer) }, DiscUselessPeer},
		"own error":  {func(*Channel) error { return errors.New("no") }, DiscSubprotocolError},
		"End":        {func(ch *Channel) error { ch.Session().End(DiscTooManyPeers); return nil }, DiscTooManyPeers},
		"Disconnect": {func(ch *Channel) error { return ch.Session().Disconnect(DiscTooManyPeers) }, DiscTooManyPeers},
		"Close":      {func(ch *Channel) error { return ch.Session().Close() }, DiscQuitting},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				a, b, err := Pipe(&SessionConfig{Capabilities: testCaps}, handled(func(ch *Channel, _ uint64, _ []byte) error {
					calls++
					return tc.end(ch)
				}))
				if err != nil {
					t.Fatal(err)
				}
				for range 3 {
					a.Capability("aaa").Send(0, nil)
				}
				<-a.Done()
				<-b.Done()
				wantErr(t, a.Err(), &DisconnectError{tc.want, true})
				wantErr(t, b.Err(), tc.want)
				if calls != 1 {
					t.Errorf("%d calls, want none after the end", calls)
				}
			})
		})
	}
}

// The bound of a capability holds before decompression, and for no other.
func TestMaxMessageSize(t *testing.T) {
	caps := append(Capabilities(nil), testCaps...)
	caps[0].MaxMessageSize = 1000
	for _, tc := range []struct {
		name string
		size int
		ok   bool
	}{{"aaa", 1000, true}, {"aaa", 1001, false}, {"bbb", 1001, true}} {
		a, b, err := Pipe(&SessionConfig{Capabilities: testCaps}, &SessionConfig{Capabilities: caps})
		if err != nil {
			t.Fatal(err)
		}
		go a.Capability(tc.name).Write(0, make([]byte, tc.size))
		_, data, err := b.Capability(tc.name).Read(t.Context())
		if ok := err == nil && len(data) == tc.size; ok != tc.ok {
			t.Errorf("%s, %d bytes: %v", tc.name, tc.size, err)
		}
		if !tc.ok && !errors.Is(err, rlpx.ErrMessageTooBig) {
			t.Errorf("got %v", err)
		}
		a.Close()
		b.Close()
	}
}

// Every way to send arrives, in the order of the calls.
func TestWaysToSend(t *testing.T) {
	a, b, err := Pipe(&SessionConfig{Capabilities: testCaps}, &SessionConfig{Capabilities: testCaps})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	defer b.Close()
	ch, ctx := a.Capability("bbb"), t.Context()
	large := bytes.Repeat([]byte("payload "), 10_000)
	encoded, _ := rlp.EncodeToBytes([]uint{1, 2, 3})
	ways := []struct {
		send func() error
		want [][]byte
	}{
		{func() error { return ch.Write(1, large) }, [][]byte{large}},
		{func() error { return ch.Send(1, []byte("small")) }, [][]byte{[]byte("small")}},
		{func() error { return ch.Send(1, large) }, [][]byte{large}},
		{func() error { return ch.WritePayload(ctx, 1, rlpx.Compress(large)) }, [][]byte{large}},
		{func() error { return ch.SendPayload(1, rlpx.Compress(large)) }, [][]byte{large}},
		{func() error { return ch.WriteBatch(ctx, []Message{{1, []byte("x")}, {1, large}, {1, nil}}) }, [][]byte{[]byte("x"), large, {}}},
		{func() error { return ch.WriteRLP(ctx, 1, []uint{1, 2, 3}) }, [][]byte{encoded}},
		{func() error { return ch.SendRLP(1, []uint{1, 2, 3}) }, [][]byte{encoded}},
		{func() error { return errors.Join(Broadcast(ctx, []*Channel{ch}, 1, large)...) }, [][]byte{large}},
		{func() error { return errors.Join(SendAll([]*Channel{ch}, 1, large)...) }, [][]byte{large}},
	}
	go func() {
		for i, w := range ways {
			if err := w.send(); err != nil {
				t.Errorf("way %d: %v", i, err)
			}
		}
	}()
	for i, w := range ways {
		for _, want := range w.want {
			id, data, err := b.Capability("bbb").Read(ctx)
			if err != nil || id != 1 || !bytes.Equal(data, want) {
				t.Fatalf("way %d: id %d, %d bytes, %v", i, id, len(data), err)
			}
		}
	}
	for name, err := range map[string]error{
		"Write": ch.Write(8, nil), "Send": ch.Send(8, nil), "WriteBatch": ch.WriteBatch(ctx, []Message{{8, nil}}),
		"Broadcast": Broadcast(ctx, []*Channel{ch}, 8, nil)[0], "SendAll": SendAll([]*Channel{ch}, 8, nil)[0],
	} {
		if !errors.Is(err, ErrInvalidMessageID) {
			t.Errorf("%s with a bad id: %v", name, err)
		}
	}
}

// A context that ends takes a message out of the queue, and the session goes on.
func TestWriteContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pipe.session(t, nil)
		ch := s.Capability("aaa")
		first := make(chan error, 1)
		go func() { first <- ch.Write(0, []byte("first")) }()
		synctest.Wait() // in the pipe, which nobody reads
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := ch.WriteContext(ctx, 0, []byte("given up")); err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		if errs := Broadcast(ctx, []*Channel{ch}, 0, []byte("given up")); errs == nil || errs[0] != context.DeadlineExceeded {
			t.Errorf("got %v", errs)
		}
		p.want(0x10, []byte("first"))
		if err := <-first; err != nil {
			t.Error(err)
		}
		go ch.Write(0, []byte("second"))
		p.want(0x10, []byte("second"))
	})
}

// What is sent to many, of which some do not read: nobody waits, those who read get all, and the
// others cost no more than their queue.
func TestSendAllBesideDeafPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const healthy, deaf, rounds = 10, 3, 50
		var got [healthy]atomic.Int64
		var channels []*Channel
		var sessions []*Session
		for i := range healthy {
			a, b, err := Pipe(&SessionConfig{Capabilities: testCaps}, handled(func(_ *Channel, _ uint64, data []byte) error {
				got[i].Add(int64(len(data)))
				return nil
			}))
			if err != nil {
				t.Fatal(err)
			}
			channels = append(channels, a.Capability("aaa"))
			sessions = append(sessions, a, b)
		}
		for range deaf {
			s, _ := pipe.session(t, nil)
			channels = append(channels, s.Capability("aaa"))
			sessions = append(sessions, s)
		}
		data := make([]byte, 100<<10)
		for i := range data {
			data[i] = byte(i * i >> 7)
		}
		full := 0
		start := time.Now()
		for range rounds {
			for i, err := range SendAll(channels, 0, data) {
				switch {
				case err == nil:
				case i >= healthy && errors.Is(err, rlpx.ErrQueueFull):
					full++
				default:
					t.Errorf("peer %d: %v", i, err)
				}
			}
			synctest.Wait()
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("SendAll waited for %v", waited)
		}
		for i := range got {
			if n := got[i].Load(); n != rounds*int64(len(data)) {
				t.Errorf("peer %d got %d bytes", i, n)
			}
		}
		if full == 0 {
			t.Error("no queue of a deaf peer is full")
		}
		var ended sync.WaitGroup
		for _, s := range sessions {
			ended.Go(func() { s.Close() })
		}
		ended.Wait()
	})
}

// The callbacks of a SessionTrace come when they should, and each may close its session.
func TestSessionTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var events []string
		note := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, fmt.Sprintf(format, args...))
		}
		cfg := &SessionConfig{Capabilities: testCaps, QueueMessages: 1, Trace: &SessionTrace{
			Started: func(s *Session) { note("started with %s", s.Remote().Name) },
			Ended:   func(s *Session, err error) { note("ended: %v", err); s.Close() },
			Pong:    func(s *Session, took time.Duration) { note("pong after %v", took) },
			Stalled: func(s *Session, ch *Channel, took time.Duration) { note("%s stalled for %v", ch.Shared().Name, took) },
		}}
		s, p := pipe.session(t, cfg)
		p.send(0x10, []byte("queued"))
		p.send(0x10, []byte("stalls"))
		time.Sleep(time.Second)
		for range 2 {
			if _, _, err := s.Capability("aaa").Read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		go func() {
			p.want(PingCode, []byte{0xc0})
			time.Sleep(time.Second)
			p.send(PongCode, []byte{0xc0})
		}()
		if _, err := s.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p.send(DisconnectCode, []byte{0xc1, 0x04})
		<-s.Done()
		mu.Lock()
		defer mu.Unlock()
		want := fmt.Sprint([]string{"started with " + s.Remote().Name, "aaa stalled for 1s", "pong after 1s", "ended: p2p: disconnected by peer: too many peers"})
		if got := fmt.Sprint(events); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// A nil Channel, which a capability that is not shared gives, is an error everywhere; in a
// Broadcast, at its index.
func TestCase_N17_NilChannel(t *testing.T) {
	s, _ := pipe.session(t, nil)
	ch := s.Capability("none")
	_, _, readErr := ch.Read(t.Context())
	for name, err := range map[string]error{
		"Read": readErr, "Write": ch.Write(0, nil), "Send": ch.Send(0, nil),
		"WriteBatch": ch.WriteBatch(t.Context(), nil), "WritePayload": ch.WritePayload(t.Context(), 0, rlpx.Compress(nil)),
		"SendPayload": ch.SendPayload(0, rlpx.Compress(nil)), "WriteRLP": ch.WriteRLP(t.Context(), 0, uint(1)), "SendRLP": ch.SendRLP(0, uint(1)),
		"Broadcast": Broadcast(t.Context(), []*Channel{ch}, 0, nil)[0], "SendAll": SendAll([]*Channel{ch}, 0, nil)[0],
	} {
		if !errors.Is(err, ErrNotShared) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ch.Session() != nil || ch.Shared().Length != 0 {
		t.Error("a nil Channel is of something")
	}
	if text := fmt.Sprintf("%v %+v", ch, ch); strings.Contains(text, "PANIC") {
		t.Error(text)
	}
	a, b := pipe.sessions(t, testConfig(), testConfig())
	for name, send := range map[string]func(channels []*Channel) []error{
		"Broadcast": func(channels []*Channel) []error { return Broadcast(t.Context(), channels, 0, []byte("data")) },
		"SendAll":   func(channels []*Channel) []error { return SendAll(channels, 0, []byte("data")) },
	} {
		got := make(chan error, 1)
		go func() {
			_, _, err := b.Capability("aaa").Read(t.Context())
			got <- err
		}()
		errs := send([]*Channel{nil, a.Capability("aaa"), nil})
		if len(errs) != 3 || !errors.Is(errs[0], ErrNotShared) || errs[1] != nil || !errors.Is(errs[2], ErrNotShared) {
			t.Errorf("%s: %v", name, errs)
		}
		if err := <-got; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
