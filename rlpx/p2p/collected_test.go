package p2p

import (
	"context"
	"net"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
)

// The memory of a session and of its connection is free as soon as it has ended. A timer that is
// not stopped, or a callback of a context that goes on, would keep it for as long as the bound is.
func TestEndedSessionsAreCollected(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	conf := func() *rlpx.Config { return &rlpx.Config{Key: newKey(t), HandshakeTimeout: time.Hour} }
	cfg := testConfig()
	cfg.ReadTimeout, cfg.WriteTimeout, cfg.StallTimeout, cfg.PingInterval = time.Hour, time.Hour, time.Hour, time.Hour
	listening := conf()
	l, err := Listen("tcp", "127.0.0.1:0", listening, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	node := &Node{Key: &listening.Key.PublicKey, Host: "127.0.0.1", TCP: uint16(l.Addr().(*net.TCPAddr).Port)}

	ends := map[string]func(dialed, accepted *Session){
		"Disconnect": func(dialed, accepted *Session) { dialed.Disconnect(DiscTooManyPeers) },
		"Close":      func(dialed, accepted *Session) { dialed.Close() },
		"End":        func(dialed, accepted *Session) { dialed.End(DiscQuitting) },
		"reset":      func(dialed, accepted *Session) { dialed.conn.NetConn().Close() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			dialer := Dialer{RLPx: conf(), Session: cfg}
			dialed, err := dialer.DialNode(ctx, node)
			if err != nil {
				t.Fatal(err)
			}
			accepted, err := l.Accept(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []*Session{dialed, accepted} {
				if err := s.Capability("aaa").Write(1, make([]byte, 1<<10)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := dialed.Ping(ctx); err != nil {
				t.Fatal(err)
			}
			end(dialed, accepted)
			<-dialed.Done()
			<-accepted.Done()
			kept := []weak.Pointer[rlpx.Conn]{weak.Make(dialed.conn), weak.Make(accepted.conn)}
			sessions := []weak.Pointer[Session]{weak.Make(dialed), weak.Make(accepted)}
			dialed, accepted = nil, nil
			for i, which := range []string{"dialed", "accepted"} {
				if !rlpxtest.Eventually(func() bool { runtime.GC(); return kept[i].Value() == nil }) {
					t.Fatalf("something keeps the connection %s", which)
				}
				if sessions[i].Value() != nil {
					t.Errorf("something keeps the session %s", which)
				}
			}
		})
	}
}
