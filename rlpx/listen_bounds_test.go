package rlpx

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Slots bound the handshakes that are computed; stalled peers take none.
func TestCase_D6_BoundedHandshakes(t *testing.T) {
	const slots, good, stalled = 3, 10, 40
	key := newKey(t)
	var inside, most atomic.Int32
	entered, release := make(chan struct{}, good), make(chan struct{})
	l := mustListen(t, &Config{Key: key, HandshakeTimeout: time.Hour, MaxHandshakes: slots, VerifyPeer: func(*ecdsa.PublicKey) error {
		n := inside.Add(1)
		defer inside.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		entered <- struct{}{}
		<-release
		return nil
	}})
	auth := authFor(t, key)
	for i := range stalled {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.Write(auth[:(len(auth)-1)*i/stalled])
	}
	var wg sync.WaitGroup
	for range good {
		wg.Go(func() {
			c, err := Dial(t.Context(), "tcp", l.Addr().String(), &key.PublicKey, &Config{Key: newKey(t), HandshakeTimeout: time.Hour})
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
		})
	}
	for range slots {
		<-entered
	}
	close(release)
	for range good {
		c, err := l.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	wg.Wait()
	if most.Load() != slots {
		t.Errorf("%d handshakes at once, want %d", most.Load(), slots)
	}
}

// A handshake that waits for a slot is bounded by its deadline and by Close all the same.
func TestWaitingForSlotEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := newKey(t)
		inner := newPipeListener()
		onError, failed := reports()
		release := make(chan struct{})
		verified := 0
		l := NewListener(inner, &Config{Key: key, OnError: onError, MaxHandshakes: 1, VerifyPeer: func(*ecdsa.PublicKey) error {
			verified++
			<-release
			return nil
		}})
		start := time.Now()
		for _, name := range []string{"first", "second"} {
			peer, _ := inner.connect(name)
			defer peer.Close()
			if _, err := peer.Write(authFor(t, key)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		r := <-failed
		if r.addr != "second" || r.at.Sub(start) != DefaultHandshakeTimeout || !errors.Is(r.err, context.DeadlineExceeded) {
			t.Errorf("%s after %v: %v", r.addr, r.at.Sub(start), r.err)
		}
		third, _ := inner.connect("third")
		defer third.Close()
		if _, err := third.Write(authFor(t, key)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		go func() {
			time.Sleep(time.Second)
			close(release)
		}()
		l.Close()
		for range 2 {
			r := <-failed
			if !errors.Is(r.err, ErrHandshake) {
				t.Errorf("%s: %v", r.addr, r.err)
			}
			if r.addr == "third" && !errors.Is(r.err, net.ErrClosed) {
				t.Errorf("third: %v", r.err)
			}
		}
		if verified != 1 {
			t.Errorf("%d peers verified", verified)
		}
	})
}

// A handshake whose auth is there is not evicted: it waits for us, not for its peer.
func TestPastAuthIsNotEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := newKey(t)
		inner := newPipeListener()
		onError, failed := reports()
		release := make(chan struct{})
		l := NewListener(inner, &Config{Key: key, OnError: onError, MaxHandshakes: 1, MaxPending: 2,
			VerifyPeer: func(*ecdsa.PublicKey) error { <-release; return nil }})
		defer l.Close()
		var peers sync.WaitGroup
		for i := range 3 { // one has the slot, one waits for it, one waits for a place
			peer, _ := inner.connect(fmt.Sprint("good ", i))
			peers.Go(func() {
				if _, err := Client(peer, &key.PublicKey, &Config{Key: newKey(t)}).HandshakeContext(t.Context()); err != nil {
					t.Errorf("peer %d: %v", i, err)
				}
			})
			synctest.Wait()
		}
		close(release)
		for range 3 {
			conn, err := l.Accept(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
		}
		peers.Wait()
		if len(failed) != 0 {
			t.Errorf("reported: %v", (<-failed).err)
		}
	})
}

type temporaryError struct{}

func (temporaryError) Error() string   { return "out of something" }
func (temporaryError) Timeout() bool   { return false }
func (temporaryError) Temporary() bool { return true }

func TestCase_D6_TemporaryErrorsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := newKey(t)
		inner := newPipeListener()
		onError, failed := reports()
		l := NewListener(inner, &Config{Key: key, OnError: onError})
		defer l.Close()

		const ms = time.Millisecond
		want := []time.Duration{0, 5 * ms, 10 * ms, 20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms, 1000 * ms, 1000 * ms}
		for range 2 { // an Accept that succeeds starts it over
			var pauses []time.Duration
			for start := time.Now(); len(pauses) < len(want); start = time.Now() {
				inner.fail(temporaryError{})
				pauses = append(pauses, time.Since(start)) // fail waits for the next Accept
				if r := <-failed; r.addr != "listener" || !errors.Is(r.err, temporaryError{}) || errors.Is(r.err, ErrHandshake) {
					t.Errorf("reported for %s: %v", r.addr, r.err)
				}
			}
			if fmt.Sprint(pauses) != fmt.Sprint(want) {
				t.Errorf("pauses %v, want %v", pauses, want)
			}
			peer, _ := inner.connect("gone")
			peer.Close()
			<-failed
		}

		// It goes on, and a pause does not hold up Close.
		good, _ := inner.connect("good")
		if _, err := Client(good, &key.PublicKey, &Config{Key: newKey(t)}).HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		conn, err := l.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		inner.fail(temporaryError{})
		start := time.Now()
		l.Close()
		if time.Since(start) != 0 {
			t.Errorf("Close took %v", time.Since(start))
		}
	})
}

// When file descriptors or memory run out, what gives is the connection that has waited longest for
// its peer. Other errors after which accepting goes on cost nobody a place.
func TestShortageEvictsOldest(t *testing.T) {
	accepting := func(err error) error {
		return &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
	}
	for _, tc := range []struct {
		name   string
		err    error
		evicts bool
	}{
		{"EMFILE", accepting(syscall.EMFILE), true},
		{"ENFILE", accepting(syscall.ENFILE), true},
		{"ENOBUFS", accepting(syscall.ENOBUFS), true},
		{"ENOMEM", accepting(syscall.ENOMEM), true},
		{"WSAEMFILE", accepting(syscall.Errno(10024)), true},
		{"WSAENOBUFS", accepting(syscall.Errno(10055)), true},
		{"bare", syscall.EMFILE, true},
		{"ECONNABORTED", &net.OpError{Op: "accept", Net: "tcp", Err: syscall.ECONNABORTED}, false},
		{"EINTR", accepting(syscall.EINTR), false},
		{"of another listener", temporaryError{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := newPipeListener()
				onError, failed := reports()
				l := NewListener(inner, &Config{Key: newKey(t), OnError: onError})
				for _, name := range []string{"first", "second"} {
					peer, _ := inner.connect(name)
					defer peer.Close()
				}
				synctest.Wait()
				inner.fail(tc.err)
				third, watched := inner.connect("third") // it goes on
				defer third.Close()
				synctest.Wait()
				if watched.closes.Load() != 0 {
					t.Error("the newest was closed")
				}
				want := 1
				if tc.evicts {
					want++
				}
				if len(failed) != want {
					t.Fatalf("%d reports, want %d", len(failed), want)
				}
				got := map[string]error{}
				for range want {
					r := <-failed
					got[r.addr] = r.err
				}
				if !errors.Is(got["listener"], tc.err) || errors.Is(got["first"], ErrEvicted) != tc.evicts {
					t.Errorf("reported: %v", got)
				}
				l.Close()
			})
		})
	}
}

// Whoever connects last has a place: that of the one that has waited longest.
func TestEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places = 4
		key := newKey(t)
		inner := newPipeListener()
		onError, failed := reports()
		l := NewListener(inner, &Config{Key: key, OnError: onError, MaxPending: places})
		auth := authFor(t, key)
		for i := range 100 {
			peer, watched := inner.connect(fmt.Sprint("stalled ", i))
			defer peer.Close()
			go peer.Write(auth[:i])
			synctest.Wait()
			if i < places {
				continue
			}
			r := <-failed
			if want := fmt.Sprint("stalled ", i-places); r.addr != want || !errors.Is(r.err, ErrEvicted) || !errors.Is(r.err, ErrHandshake) {
				t.Fatalf("%s: %v; expected it of %s", r.addr, r.err, want)
			}
			if watched.closes.Load() != 0 {
				t.Fatal("the newest was closed")
			}
		}
		// Good peers between further stalled ones all get in, in no time, while some of those
		// before them are not accepted.
		start := time.Now()
		for i := range places {
			peer, _ := inner.connect("stalled")
			defer peer.Close()
			good, _ := inner.connect("good")
			defer good.Close()
			if _, err := Client(good, &key.PublicKey, &Config{Key: newKey(t)}).HandshakeContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				if _, err := l.Accept(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if time.Since(start) != 0 {
			t.Errorf("took %v", time.Since(start))
		}
		l.Close()
	})
}

// Peers that are through are not evicted. Nobody accepts them, so new ones wait.
func TestUnacceptedAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places = 3
		key := newKey(t)
		inner := newPipeListener()
		onError, failed := reports()
		l := NewListener(inner, &Config{Key: key, OnError: onError, MaxPending: places})
		good := func(i int) error {
			peer, _ := inner.connect(fmt.Sprint("good ", i))
			_, err := Client(peer, &key.PublicKey, &Config{Key: newKey(t)}).HandshakeContext(t.Context())
			return err
		}
		for i := range places {
			if err := good(i); err != nil {
				t.Fatal(err)
			}
		}
		late := make(chan error, 1)
		go func() { late <- good(places) }()
		synctest.Wait()
		select {
		case err := <-late:
			t.Fatalf("one more than there are places: %v", err)
		default:
		}
		for range places + 1 {
			conn, err := l.Accept(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
		}
		if err := <-late; err != nil {
			t.Error(err)
		}
		// A connection that waits for a place ends with the listener.
		for i := range places {
			if err := good(i); err != nil {
				t.Fatal(err)
			}
		}
		peer, watched := inner.connect("late")
		defer peer.Close()
		synctest.Wait()
		l.Close()
		for range places + 1 {
			if r := <-failed; !errors.Is(r.err, net.ErrClosed) {
				t.Errorf("%s: %v", r.addr, r.err)
			}
		}
		if n := watched.closes.Load(); n != 1 {
			t.Errorf("closed %d times", n)
		}
	})
}
