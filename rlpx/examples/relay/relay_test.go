package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// wantRefused checks that the relay refuses the session that dial returned.
func wantRefused(t *testing.T, s *p2p.Session, err error, reason p2p.DiscReason) {
	t.Helper()
	if err == nil {
		<-s.Done()
		err = s.Err()
	}
	if want := (&p2p.DisconnectError{Reason: reason, Remote: true}); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

func TestMaximumOfPeers(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		r := start(t, n, Config{MaxPeers: 2})
		first := r.mustDial(nil)
		r.mustDial(nil)
		s, err := r.dial(newKey(t), nil)
		wantRefused(t, s, err, p2p.DiscTooManyPeers)
		first.Close()
		r.eventually("room", func() bool { return len(r.Peers()) == 1 })
		r.mustDial(nil)
	})
}

func TestAlreadyConnected(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		r := start(t, n, Config{})
		key := newKey(t)
		s, err := r.dial(key, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r.eventually("the peer", func() bool { return len(r.Peers()) == 1 })
		second, err := r.dial(key, nil)
		wantRefused(t, second, err, p2p.DiscAlreadyConnected)
		if len(r.Peers()) != 1 || s.Err() != nil {
			t.Errorf("%d peers, the first ended with %v", len(r.Peers()), s.Err())
		}
	})
}

// Connections count from before their handshake until their end, whatever that is.
func TestLimitPerAddress(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		r := start(t, n, Config{MaxPerAddress: 2})
		s := r.mustDial(nil)
		silent, err := n.dial(t.Context(), "tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		count := func(n int) func() bool {
			return func() bool {
				r.addrs.mu.Lock()
				defer r.addrs.mu.Unlock()
				return r.addrs.hosts["127.0.0.1"] == n && len(r.addrs.open) == n
			}
		}
		r.eventually("two connections", count(2))
		if _, err := r.dial(newKey(t), nil); !errors.Is(err, rlpx.ErrHandshake) {
			t.Errorf("a third connection: %v", err)
		}
		r.eventually("the report", func() bool { return len(r.of(NotAccepted)) == 1 })
		if err := r.of(NotAccepted)[0].Err; !errors.Is(err, errAddress) || !errors.Is(err, rlpx.ErrRefused) {
			t.Error(err)
		}
		r.eventually("two connections", count(2))
		silent.Close() // in the handshake
		r.eventually("one connection", count(1))
		s.Close()
		r.eventually("no connection", count(0))
		r.mustDial(nil)
	})
}

// Two relays that dial each other at the same time end with one session, which both know, and which
// the one with the smaller id has dialled.
func TestDialEachOther(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		for range 20 {
			keys := newKey(t)
			a := start(t, n, Config{})
			synctest.Wait() // until it runs
			b := start(t, n, Config{Key: keys, Nodes: []*p2p.Node{a.node()}, MinPause: time.Millisecond})
			// The second relay dials already; now the first does too.
			ctx, cancel := context.WithCancel(t.Context())
			var keeping sync.WaitGroup
			keeping.Go(func() { a.keep(ctx, b.node()) })
			same := func() bool {
				one, other := a.Peers(), b.Peers()
				return len(one) == 1 && len(other) == 1 && one[0].LocalAddr().String() == other[0].RemoteAddr().String() &&
					one[0].RemoteAddr().String() == other[0].LocalAddr().String() && one[0].Err() == nil && other[0].Err() == nil
			}
			a.eventually("one session", same)
			smaller := bytes.Compare(a.self[:], b.self[:]) < 0
			if a.Peers()[0].ConnectionState().Initiator != smaller {
				t.Error("the other session is left")
			}
			cancel()
			keeping.Wait()
			a.close()
			b.close()
		}
	})
}

// Pauses between dials double up to the maximum, and no dial is made in between.
func TestRedialBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times []time.Time
		refused := errors.New("refused")
		other := newKey(t)
		r, err := New(Config{
			Key: newKey(t), MinPause: time.Second, MaxPause: 20 * time.Second,
			Nodes: []*p2p.Node{{Key: &other.PublicKey, Host: "192.0.2.1", TCP: 30303}},
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				times = append(times, time.Now())
				return nil, refused
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		if err := r.Run(ctx, nil); err != nil {
			t.Error(err)
		}
		pause := time.Second
		for i := range len(times) - 1 {
			if got := times[i+1].Sub(times[i]); got < pause/2 || got > pause+1 {
				t.Errorf("pause %d: %v, want %v to %v", i, got, pause/2, pause)
			}
			pause = min(2*pause, 20*time.Second)
		}
		if len(times) < 15 {
			t.Errorf("%d dials in five minutes", len(times))
		}
	})
}

// A node that comes back is dialled again.
func TestRedialAfterLoss(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		hub := start(t, n, Config{})
		r := start(t, n, Config{Nodes: []*p2p.Node{hub.node()}, MinPause: time.Millisecond})
		for i := range 3 {
			hub.eventually("the peer", func() bool { return len(hub.of(PeerAdded)) == i+1 && len(hub.Peers()) == 1 })
			hub.Peers()[0].Disconnect(p2p.DiscRequested)
		}
		r.eventually("the losses", func() bool { return len(r.of(PeerGone)) >= 3 })
		if err := r.of(PeerGone)[0].Err; !errors.Is(err, &p2p.DisconnectError{Reason: p2p.DiscRequested, Remote: true}) {
			t.Error(err)
		}
	})
}

// The end tells all peers, and nothing is left.
func TestGracefulEnd(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		r := start(t, n, Config{})
		var peers []*p2p.Session
		for range 10 {
			peers = append(peers, r.mustDial(nil))
		}
		r.close()
		for _, s := range peers {
			<-s.Done()
			if !errors.Is(s.Err(), &p2p.DisconnectError{Reason: p2p.DiscQuitting, Remote: true}) {
				t.Error(s.Err())
			}
		}
		if left := len(r.Peers()); left > 0 {
			t.Errorf("%d peers are left", left)
		}
		if _, err := r.dial(newKey(t), nil); err == nil {
			t.Error("it still accepts")
		}
	})
}

// The program prints its URL, which can be dialled, and ends with its context.
func TestProgram(t *testing.T) {
	rlpxtest.CheckGoroutines(t)
	var out output
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"-addr", "127.0.0.1:0"}, &out) }()
	var url string
	if !rlpxtest.Eventually(func() bool {
		var whole bool
		url, _, whole = strings.Cut(out.String(), "\n")
		return whole
	}) {
		t.Fatal("no URL")
	}
	var s *p2p.Session
	var err error
	if !eventually(t, func() bool { // the program has a timeout of its own, which a busy machine may need more than once
		s, err = p2p.Dial(t.Context(), url, &rlpx.Config{Key: newKey(t)}, &p2p.SessionConfig{Capabilities: p2p.Capabilities{Capability}})
		return err == nil
	}) {
		t.Fatal(err)
	}
	defer s.Close()
	if !eventually(t, func() bool { return strings.Contains(out.String(), "peer added 127.0.0.1:") }) {
		t.Errorf("printed %q", out.String())
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if text := out.String(); !strings.Contains(text, "peer gone 127.0.0.1:") {
		t.Errorf("printed %q", text)
	}
	for _, args := range [][]string{{"-no-such-flag"}, {"enode://nobody"}, {"-key", "/no/such/file"}, {"-addr", "nowhere"}} {
		if err := run(t.Context(), args, &out); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

// output is a buffer that may be read while it is written.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
