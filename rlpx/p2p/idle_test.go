package p2p

import (
	"flag"
	"net"
	"runtime"
	"testing"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
)

// maxIdleSession is what an idle session over TCP may cost, the stack of its goroutine included.
const maxIdleSession = 12 << 10

var idlePairs = flag.Int("pairs", 500, "pairs of sessions of TestIdleSessionCost; 10000 need 20000 files and some more")

// An idle session has one goroutine and costs little, whatever it carried. With many of them:
//
//	go test -run TestIdleSessionCost -v ./rlpx/p2p -pairs 10000
func TestIdleSessionCost(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector takes memory of its own; the run without it checks this")
		return
	}
	pairs := *idlePairs
	cost := func() uint64 {
		rlpxtest.HeapInUse() // collects
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	here, there := newDialer(t), newDialer(t)
	before, goroutines := cost(), runtime.NumGoroutine()
	sessions := make([]*Session, 0, 2*pairs)
	for range pairs {
		a, b := idlePair(t, here, there)
		sessions = append(sessions, a, b)
		data := make([]byte, 100<<10)
		if err := a.Capability("aaa").Write(0, data); err != nil {
			t.Fatal(err)
		}
		if _, got, err := b.Capability("aaa").Read(t.Context()); err != nil || len(got) != len(data) {
			t.Fatal(len(got), err)
		}
	}
	if !rlpxtest.Eventually(func() bool { return runtime.NumGoroutine() <= goroutines+2*pairs }) {
		t.Errorf("%d goroutines for %d sessions", runtime.NumGoroutine()-goroutines, 2*pairs)
	}
	var each uint64
	if !rlpxtest.Eventually(func() bool {
		each = (max(cost(), before) - before) / uint64(2*pairs)
		return each <= maxIdleSession
	}) {
		t.Errorf("%d bytes a session", each)
	}
	t.Logf("%d bytes a session, %d sessions", each, len(sessions))
	runtime.KeepAlive(sessions)
}

// idlePair returns two sessions with each other over TCP.
func idlePair(t *testing.T, here, there *Dialer) (a, b *Session) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ca, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	cb, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		conn := rlpx.Server(cb, there.RLPx)
		_, err := conn.HandshakeContext(t.Context())
		if err == nil {
			b, err = NewSession(t.Context(), conn, there.Session)
		}
		done <- err
	}()
	conn := rlpx.Client(ca, &there.RLPx.Key.PublicKey, here.RLPx)
	if _, err = conn.HandshakeContext(t.Context()); err == nil {
		a, err = NewSession(t.Context(), conn, here.Session)
	}
	if other := <-done; err != nil || other != nil {
		t.Fatal(err, other)
	}
	t.Cleanup(func() { a.End(DiscQuitting); b.End(DiscQuitting) })
	return a, b
}
