package p2p

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
)

// listener returns a Listener on the loopback interface, a function that makes enode URLs of it,
// and what its OnError is told.
func startListener(t *testing.T, maxPending int) (l *Listener, url string, reports chan error) {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	reports = make(chan error, 100)
	l, err = Listen("tcp", "127.0.0.1:0", &rlpx.Config{
		Key: key, MaxPending: maxPending,
		OnError: func(_ net.Addr, err error) { reports <- err },
	}, &SessionConfig{Name: "listener", Capabilities: testCaps})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	url = fmt.Sprintf("enode://%x@%s", crypto.FromECDSAPub(&key.PublicKey)[1:], l.Addr())
	return l, url, reports
}

// dialer returns a Dialer with a key of its own.
func newDialer(t *testing.T) *Dialer {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return &Dialer{RLPx: &rlpx.Config{Key: key}, Session: &SessionConfig{Name: "dialer", Capabilities: testCaps}}
}

func TestDialAndListen(t *testing.T) {
	rlpxtest.CheckGoroutines(t)
	l, url, _ := startListener(t, 0)
	var peers sync.WaitGroup
	for i := range 20 {
		d := newDialer(t)
		peers.Go(func() {
			s, err := d.Dial(t.Context(), url)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if err := s.Capability("aaa").Write(1, fmt.Append(nil, i)); err != nil {
				t.Error(err)
			}
			if _, data, err := s.Capability("aaa").Read(t.Context()); err != nil || string(data) != fmt.Sprint("re ", i) {
				t.Errorf("got %q, %v", data, err)
			}
		})
		peers.Go(func() {
			s, err := l.Accept(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			_, data, err := s.Capability("aaa").Read(t.Context())
			if err != nil {
				t.Error(err)
			}
			if err := s.Capability("aaa").Write(1, append([]byte("re "), data...)); err != nil {
				t.Error(err)
			}
			<-s.Done()
			wantErr(t, s.Err(), &DisconnectError{DiscQuitting, true})
		})
	}
	peers.Wait()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: %v", err)
	}
}

func TestDialErrors(t *testing.T) {
	d := newDialer(t)
	if _, err := d.Dial(t.Context(), "enode://nonsense"); !errors.Is(err, ErrInvalidNode) {
		t.Errorf("got %v", err)
	}
	_, url, reports := startListener(t, 0)
	other := newDialer(t)
	other.Session = &SessionConfig{Capabilities: Capabilities{{Cap: Cap{"zzz", 1}, Length: 1}}}
	_, err := other.Dial(t.Context(), url)
	var useless *UselessPeerError
	if !errors.As(err, &useless) && !errors.Is(err, DiscUselessPeer) {
		t.Errorf("nothing shared: %v", err)
	}
	if useless != nil && (useless.Hello == nil || useless.Hello.Name != "listener") {
		t.Errorf("of the peer that shares nothing: %v", useless.Hello)
	}
	if err := <-reports; err == nil {
		t.Error("OnError was told nothing")
	} else if errors.As(err, &useless) && (useless.Hello == nil || useless.Hello.ID == [IDLength]byte{}) {
		t.Errorf("OnError: of the peer that shares nothing: %v", useless.Hello)
	}
	node, _ := ParseNode(url)
	stranger, _ := crypto.GenerateKey()
	node.Key = &stranger.PublicKey
	if _, err := d.DialNode(t.Context(), node); !errors.Is(err, rlpx.ErrHandshake) {
		t.Errorf("another key: %v", err)
	}
}

// Peers that stall at Hello make room for one that does not, the oldest first.
func TestListenerEvictsAtHello(t *testing.T) {
	const places = 3
	l, url, reports := startListener(t, places)
	node, _ := ParseNode(url)
	stall := func() *rlpx.Conn {
		conn, err := rlpx.Dial(t.Context(), "tcp", node.Addr(), node.Key, newDialer(t).RLPx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	for range 2 * places {
		stall()
	}
	s, err := newDialer(t).Dial(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	theirs, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	if err := <-reports; !errors.Is(err, rlpx.ErrEvicted) {
		t.Errorf("got %v, want that it was evicted", err)
	}
}

// Close ends what Accept did not return, and an Accept that waits.
func TestListenerClose(t *testing.T) {
	rlpxtest.CheckGoroutines(t)
	l, url, _ := startListener(t, 0)
	s, err := newDialer(t).Dial(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Ping(t.Context()); err != nil { // the other end has a session, which waits for Accept
		t.Fatal(err)
	}
	l.Close()
	wantDone(t, s, &DisconnectError{DiscQuitting, true})

	l, _, _ = startListener(t, 0)
	ended := make(chan error)
	go func() {
		_, err := l.Accept(context.Background())
		ended <- err
	}()
	l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestPipe(t *testing.T) {
	rlpxtest.CheckGoroutines(t)
	a, b, err := Pipe(&SessionConfig{Capabilities: testCaps}, &SessionConfig{Capabilities: testCaps})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Capability("bbb").Write(3, []byte("x")); err != nil {
		t.Fatal(err)
	}
	id, data, err := b.Capability("bbb").Read(t.Context())
	if id != 3 || string(data) != "x" || err != nil {
		t.Errorf("got %d %q, %v", id, data, err)
	}
	a.Close()
	<-b.Done()
	wantErr(t, b.Err(), DiscQuitting)
	if _, _, err := Pipe(nil, nil); err == nil {
		t.Error("two that share nothing have a session")
	}
}

// OnError is told of every session that has ended before Accept could return it, once, whoever came
// first: the goroutine that hands it over or the one that waits in Accept.
func TestEndedSessionsAreReported(t *testing.T) {
	rlpxtest.CheckGoroutines(t)
	const sessions = 40
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	reports := make(chan error, 2*sessions)
	l, err := Listen("tcp", "127.0.0.1:0", &rlpx.Config{
		Key: key, OnError: func(_ net.Addr, err error) { reports <- err },
	}, &SessionConfig{
		Name: "listener", Capabilities: testCaps,
		Trace: &SessionTrace{Started: func(s *Session) { s.End(DiscRequested) }},
	})
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("enode://%x@%s", crypto.FromECDSAPub(&key.PublicKey)[1:], l.Addr())
	accepted := make(chan error)
	go func() {
		_, err := l.Accept(t.Context())
		accepted <- err
	}()
	for range sessions {
		d := newDialer(t)
		if s, err := d.Dial(t.Context(), url); err == nil {
			<-s.Done()
		}
		if !rlpxtest.Within(func() {
			if err := <-reports; !errors.Is(err, DiscRequested) {
				t.Errorf("told %v", err)
			}
		}) {
			t.Fatal("OnError was told nothing")
		}
	}
	l.Close()
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept returned %v", err)
	}
	if len(reports) > 0 {
		t.Errorf("told %v as well", <-reports)
	}
}

// OnError is told as well of the sessions that wait for Accept when the Listener is closed.
func TestCloseReportsUnacceptedSessions(t *testing.T) {
	rlpxtest.CheckGoroutines(t)
	const sessions = 5
	l, url, reports := startListener(t, 0)
	for range sessions {
		s, err := newDialer(t).Dial(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	for range sessions {
		if !rlpxtest.Within(func() {
			if err := <-reports; !errors.Is(err, DiscQuitting) {
				t.Errorf("told %v", err)
			}
		}) {
			t.Fatal("OnError was told nothing")
		}
	}
}

// Sessions that Accept has returned take no place.
func TestAcceptedSessionsTakeNoPlace(t *testing.T) {
	l, url, _ := startListener(t, 2)
	var dialing sync.WaitGroup
	defer dialing.Wait()
	for range 6 {
		d := newDialer(t)
		dialing.Go(func() {
			s, err := d.Dial(t.Context(), url)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { s.Close() })
		})
		if !rlpxtest.Within(func() {
			s, err := l.Accept(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { s.Close() })
		}) {
			t.Fatal("no place is left")
		}
	}
}
