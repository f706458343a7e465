package rlpx

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// slowReports is an OnError whose calls for peers named slow return when release is closed.
type slowReports struct {
	release chan struct{}

	mu   sync.Mutex
	told map[string]error
}

func newSlowReports() *slowReports {
	return &slowReports{release: make(chan struct{}), told: map[string]error{}}
}

func (s *slowReports) onError(addr net.Addr, err error) {
	s.mu.Lock()
	if s.told[addr.String()] != nil {
		panic("told twice of " + addr.String())
	}
	s.told[addr.String()] = err
	s.mu.Unlock()
	<-s.release
}

func (s *slowReports) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.told)
}

// An OnError that takes its time delays neither peers nor Close, whatever it is told of.
func TestSlowOnErrorDelaysNobody(t *testing.T) {
	key := newKey(t)
	refuse := func(addr net.Addr) error {
		if addr.String() == "refused" {
			return errors.New("no")
		}
		return nil
	}
	for _, tc := range []struct {
		name string
		do   func(*pipeListener)
	}{
		{"failed handshake", func(l *pipeListener) { peer, _ := l.connect("x"); peer.Close() }},
		{"refused", func(l *pipeListener) { l.connect("refused") }},
		{"temporary error", func(l *pipeListener) { l.fail(temporaryError{}) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner, slow := newPipeListener(), newSlowReports()
				l := NewListener(inner, &Config{Key: key, Allow: refuse, OnError: slow.onError})
				tc.do(inner)
				synctest.Wait()
				good, _ := inner.connect("good")
				defer good.Close()
				if _, err := Client(good, &key.PublicKey, &Config{Key: newKey(t)}).HandshakeContext(t.Context()); err != nil {
					t.Fatal(err)
				}
				conn, err := l.Accept(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				conn.Close()
				l.Close()
				if n := slow.len(); n != 1 {
					t.Errorf("%d reports", n)
				}
				close(slow.release)
			})
		})
	}
}

// Calls of OnError are bounded: while MaxPending of them do not return, nothing is accepted. None
// is lost to that, nor to Close, which does not wait.
func TestOnErrorCallsAreBounded(t *testing.T) {
	const places, more = 4, 3
	for _, tc := range []struct {
		name   string
		allow  func(net.Addr) error
		served int // connections that come out of the inner listener
	}{
		// They keep their places, and the accepting goroutine holds one without.
		{"refused", func(net.Addr) error { return errors.New("no") }, 2*places + 1},
		{"failed", nil, 2*places + 1},
	} {
		for _, ending := range []string{"release", "close"} {
			t.Run(tc.name+", "+ending, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					inner, slow := newPipeListener(), newSlowReports()
					l := NewListener(inner, &Config{Key: newKey(t), MaxPending: places, Allow: tc.allow, OnError: slow.onError})
					for i := range tc.served {
						peer, _ := inner.connect(fmt.Sprint("peer ", i))
						peer.Close()
						synctest.Wait()
					}
					if n := slow.len(); n != places {
						t.Errorf("%d calls of OnError, want %d", n, places)
					}
					select {
					case inner.next <- nil:
						t.Fatal("one more is accepted")
					default:
					}
					before := runtime.NumGoroutine()
					if ending == "close" {
						l.Close()
						synctest.Wait()
						if n := slow.len(); n != tc.served {
							t.Errorf("%d reports after Close, want %d", n, tc.served)
						}
						close(slow.release)
						return
					}
					close(slow.release)
					for i := range more {
						peer, _ := inner.connect(fmt.Sprint("late ", i))
						peer.Close()
					}
					synctest.Wait()
					if n := slow.len(); n != tc.served+more {
						t.Errorf("%d reports, want %d", n, tc.served+more)
					}
					if after := runtime.NumGoroutine(); after >= before {
						t.Errorf("%d goroutines, had %d", after, before)
					}
					l.Close()
				})
			})
		}
	}
}
