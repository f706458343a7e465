package p2p

import (
	"context"
	"crypto/ecdsa"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
)

// A thousand sessions in one process, each with Hello, messages both ways, keep-alive and a
// Disconnect, leave nothing behind.
func TestManySessions(t *testing.T) {
	const (
		pairs    = 500
		messages = 10
	)
	checkLeaks(t)
	key := newKey(t)
	listener, err := rlpx.Listen("tcp", "127.0.0.1:0", &rlpx.Config{Key: key, HandshakeTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	cfg := testConfig()
	cfg.PingInterval = time.Second

	// Of the first round the runtime keeps something, such as descriptors of goroutines.
	var before uint64
	for round := range 2 {
		runManySessions(t, listener, &key.PublicKey, cfg, pairs, messages)
		settled := func() bool { before = rlpxtest.HeapInUse(); return true }
		if round == 1 {
			settled = func() bool { return rlpxtest.HeapInUse() < before+1<<20 }
		}
		if !rlpxtest.Eventually(settled) {
			t.Errorf("%d bytes of heap, %d before", rlpxtest.HeapInUse(), before)
		}
	}
}

// patience is for machines that are busy with other things.
const patience = 5 * time.Minute

func runManySessions(t *testing.T, listener *rlpx.Listener, remote *ecdsa.PublicKey, cfg *SessionConfig, pairs, messages int) {
	before := rlpxtest.HeapInUse()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	accepts := make(chan *Session, pairs)
	for range 4 {
		go func() {
			for {
				conn, err := listener.Accept(ctx)
				if err != nil {
					return
				}
				s, err := NewSession(ctx, conn, cfg)
				if err != nil {
					t.Error(err)
				}
				accepts <- s
			}
		}()
	}
	dials := make(chan *Session, pairs)
	dial := func() *Session {
		conn, err := rlpx.Dial(ctx, "tcp", listener.Addr().String(), remote, &rlpx.Config{Key: newKey(t), HandshakeTimeout: patience})
		if err != nil {
			t.Error(err)
			return nil
		}
		s, err := NewSession(ctx, conn, cfg)
		if err != nil {
			t.Error(err)
		}
		return s
	}
	for i := range 4 {
		go func() {
			for range pairs*(i+1)/4 - pairs*i/4 {
				dials <- dial()
			}
		}()
	}
	var dialed, accepted []*Session
	for range pairs {
		a, b := <-dials, <-accepts
		if a == nil || b == nil {
			t.FailNow()
		}
		dialed, accepted = append(dialed, a), append(accepted, b)
	}
	all := slices.Concat(dialed, accepted)

	var wg sync.WaitGroup
	for _, s := range all {
		ch := s.Capability("aaa")
		wg.Go(func() {
			for i := range uint64(messages) {
				if err := ch.Write(i%4, binary.BigEndian.AppendUint64(nil, i)); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for i := range uint64(messages) {
				id, data, err := ch.Read(ctx)
				if err != nil || id != i%4 || binary.BigEndian.Uint64(data) != i {
					t.Errorf("message %d: got id %d, %x, %v", i, id, data, err)
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d bytes of heap a session", (rlpxtest.HeapInUse()-before)/uint64(len(all)))
	if !rlpxtest.Eventually(func() bool {
		return !slices.ContainsFunc(all, func(s *Session) bool { return s.Stats().Pings+s.Stats().Pongs == 0 })
	}) {
		t.Error("no keep-alive")
	}
	// All at once they would need more than the second that each has, if the machine is busy.
	slots := make(chan struct{}, 16)
	for i, s := range dialed {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := s.Disconnect(DiscReason(i % 13)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, s := range accepted {
		<-s.Done()
		if disconnect, ok := errors.AsType[*DisconnectError](s.Err()); !ok || !disconnect.Remote {
			t.Errorf("ended by %v", s.Err())
		}
	}
}

// Peers that stall in either handshake do not keep others from getting a session.
func TestCase_D6_SessionsBesideStalledPeers(t *testing.T) {
	key := newKey(t)
	listener, err := rlpx.Listen("tcp", "127.0.0.1:0", &rlpx.Config{Key: key, MaxHandshakes: 2})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer listener.Close()
	defer cancel()
	wg.Go(func() {
		for {
			conn, err := listener.Accept(ctx)
			if err != nil {
				return
			}
			wg.Go(func() {
				s, err := NewSession(ctx, conn, testConfig())
				if err != nil {
					return
				}
				defer s.Close()
				for {
					id, data, err := s.Capability("aaa").Read(ctx)
					if err != nil || s.Capability("aaa").Write(id, data) != nil {
						return
					}
				}
			})
		}
	})
	for i := range 40 {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if i%2 == 0 {
			continue // no auth
		}
		if _, err := rlpxtest.Dial(t.Context(), conn, newKey(t), &key.PublicKey); err != nil { // no Hello
			t.Fatal(err)
		}
	}
	for i := range 5 {
		conn, err := rlpx.Dial(t.Context(), "tcp", listener.Addr().String(), &key.PublicKey, &rlpx.Config{Key: newKey(t)})
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewSession(t.Context(), conn, testConfig())
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprint("message ", i)
		if err := s.Capability("aaa").Write(1, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if _, data, err := s.Capability("aaa").Read(t.Context()); err != nil || string(data) != want {
			t.Errorf("got %q, %v", data, err)
		}
		s.Close()
	}
}
