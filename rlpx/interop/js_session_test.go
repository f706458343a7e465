package interop

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// jsRoles runs a test with either side as the initiator, with and without snappy. A test gets
// connections from connect, in sub-tests or one after the other.
func jsRoles(t *testing.T, test func(t *testing.T, r row, connect func(*testing.T) (*rlpx.Conn, *jsPeer))) {
	for _, who := range []role{weDial, weServe} {
		t.Run(string(who), func(t *testing.T) {
			var listening *jsPeer // one process for all whom we dial
			if who == weDial {
				listening = startJS(t, "listen")
			}
			for _, version := range []uint64{4, 5} {
				t.Run(fmt.Sprintf("Hello=%d", version), func(t *testing.T) {
					test(t, row{ethereumJS, who, version}, func(t *testing.T) (*rlpx.Conn, *jsPeer) {
						t.Helper()
						if who == weServe {
							l := listen(t)
							p := dialJS(t, l)
							return l.accept(t), p
						}
						return listening.dial(t, newKey(t)), listening
					})
				})
			}
		})
	}
}

// TestEthereumJSMessages exchanges messages of all sizes with @ethereumjs/devp2p.
func TestEthereumJSMessages(t *testing.T) {
	jsRoles(t, func(t *testing.T, r row, connect func(*testing.T) (*rlpx.Conn, *jsPeer)) {
		conn, peer := connect(t)
		session := newSession(t, conn, jsConfig(r.hello))
		expectJS(t, r, session, peer)
		ch := session.Capability("echo")
		for _, size := range []int{0, 1, 15, 16, 17, 1 << 10, 64 << 10, 1 << 20, largest(r.hello, true)} {
			expectEcho(t, ch, jsEchoID, compressible(size))
		}
		for _, size := range []int{1 << 10, 64 << 10, 1 << 20, largest(r.hello, false)} {
			expectEcho(t, ch, jsEchoID, incompressible(size))
		}
		seenSizes(t, r)
		if err := session.Err(); err != nil {
			t.Fatal(err)
		}
		peer.expectNoErrors(t)
	})
}

// expectJS checks what either side learned from the other's Hello.
func expectJS(t *testing.T, r row, session *p2p.Session, peer *jsPeer) {
	t.Helper()
	hello, state := session.Remote(), session.ConnectionState()
	if hello.Version != 5 || hello.Name == "" || hello.ListenPort != 0 || !slices.Equal(hello.Caps, []p2p.Cap{{Name: "echo", Version: 1}}) {
		t.Errorf("Hello: %+v", hello)
	}
	if !state.RemoteKey.Equal(peer.key) || !state.PeerProven || state.Snappy != (r.hello >= 5) || state.Initiator != (r.who == weDial) {
		t.Errorf("connection: %+v", state)
	}
	added := peer.event(t, state.LocalKey, "added")
	if added.Version != r.hello || added.Name != "interop" || len(added.Capabilities) != 1 || added.Capabilities[0].Name != "echo" {
		t.Errorf("the peer has taken us for %+v", added)
	}
	seenSession(t, r, session)
}

// TestEthereumJSPing has Pings answered in both directions, several times.
func TestEthereumJSPing(t *testing.T) {
	jsRoles(t, func(t *testing.T, r row, connect func(*testing.T) (*rlpx.Conn, *jsPeer)) {
		conn, peer := connect(t)
		session := newSession(t, conn, jsConfig(r.hello))
		for i := range 3 {
			expectPings(t, session, peer, i+1)
		}
		if n := session.Stats().Pings; n != 3 {
			t.Errorf("it sent %d Pings", n)
		}
		seen(t, r, pingColumn, oursAnswered, itsAnswered)
		peer.expectNoErrors(t)
	})
}

// expectPings sends a Ping and asks for one, the peer's nth.
func expectPings(t *testing.T, session *p2p.Session, peer *jsPeer, n int) {
	t.Helper()
	if _, err := session.Ping(step(t)); err != nil {
		t.Fatalf("Ping: %v", err)
	}
	if err := session.Capability("echo").Write(jsPingID, nil); err != nil {
		t.Fatal(err)
	}
	// Its Ping comes before the echo, and our Pong after it or before.
	expectEcho(t, session.Capability("echo"), jsEchoID, []byte("after Ping"))
	peer.event(t, session.ConnectionState().LocalKey, "pong", fmt.Sprintf(`"count":%d`, n))
}

// TestEthereumJSIdle leaves sessions alone for longer than either side puts up with silence, on the
// Pings of both.
func TestEthereumJSIdle(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 35 seconds")
	}
	t.Parallel()
	peer := startJS(t, "listen")
	idle := time.After(p2p.DefaultReadTimeout + 5*time.Second)
	sessions := map[*p2p.Session]row{}
	for _, version := range []uint64{4, 5} {
		for _, interval := range []time.Duration{0, -1} { // negative: it lives on our answers to the peer's Pings
			cfg := jsConfig(version)
			cfg.PingInterval, cfg.ReadTimeout = interval, 0
			sessions[newSession(t, peer.dial(t, newKey(t)), cfg)] = row{ethereumJS, weDial, version}
		}
	}
	<-idle
	for session, r := range sessions {
		if err := session.Err(); err != nil {
			t.Fatal(err)
		}
		if n := session.Stats().Pings; n < 2 {
			t.Errorf("the peer sent %s", plural(int(n), "Ping"))
		}
		peer.event(t, session.ConnectionState().LocalKey, "pong", `"count":2`)
		expectEcho(t, session.Capability("echo"), jsEchoID, []byte("awake"))
		seen(t, r, pingColumn, itsAnswered)
	}
	peer.expectNoErrors(t)
}

// TestEthereumJSDisconnects sees each reason that the peer can give. Its Disconnect is a bare
// byte that is not compressed, also where messages are.
func TestEthereumJSDisconnects(t *testing.T) {
	jsRoles(t, func(t *testing.T, r row, connect func(*testing.T) (*rlpx.Conn, *jsPeer)) {
		for _, reason := range jsReasons(r) {
			conn, peer := connect(t)
			session := newSession(t, conn, jsConfig(r.hello))
			if err := session.Capability("echo").Write(jsDisconnectID, []byte{byte(reason)}); err != nil {
				t.Fatal(err)
			}
			expectDisconnect(t, ended(t, session), reason)
			peer.event(t, session.ConnectionState().LocalKey, "removed") // makes room
		}
		seen(t, r, disconnectColumn, heardReasons(len(jsReasons(r))))
	})
	t.Run("it quits", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			partial.Store(true)
			t.Skip("no interrupt to end it with")
		}
		peer := startJS(t, "listen")
		session := newSession(t, peer.dial(t, newKey(t)), jsConfig(5))
		peer.event(t, session.ConnectionState().LocalKey, "added")
		peer.stop()
		expectDisconnect(t, ended(t, session), p2p.DiscQuitting)
		seen(t, row{ethereumJS, weDial, 5}, disconnectColumn, "heard: "+p2p.DiscQuitting.String()+", at its end")
	})
}

// jsReasons are the reasons to try: all that there are, or one if each takes a process.
func jsReasons(r row) []p2p.DiscReason {
	if r.who == weServe {
		return []p2p.DiscReason{p2p.DiscTooManyPeers}
	}
	return reasons
}

// TestEthereumJSHearsOurDisconnect checks that the peer learns each of our reasons.
func TestEthereumJSHearsOurDisconnect(t *testing.T) {
	jsRoles(t, func(t *testing.T, r row, connect func(*testing.T) (*rlpx.Conn, *jsPeer)) {
		for _, reason := range jsReasons(r) {
			conn, peer := connect(t)
			session := newSession(t, conn, jsConfig(r.hello))
			local := session.ConnectionState().LocalKey
			peer.event(t, local, "added")
			if err := session.Disconnect(reason); err != nil {
				t.Fatal(err)
			}
			removed := peer.event(t, local, "removed")
			if removed.Reason == nil || p2p.DiscReason(*removed.Reason) != reason || removed.ByUs == nil || *removed.ByUs {
				t.Errorf("we said %v, it heard %+v", reason, removed)
			}
			peer.expectNoErrors(t)
		}
		seen(t, r, disconnectColumn, saidReasons(len(jsReasons(r))))
	})
}

// TestEthereumJSRefuses has the peer refuse us after Hello.
func TestEthereumJSRefuses(t *testing.T) {
	for _, version := range []uint64{4, 5} {
		t.Run(fmt.Sprintf("useless peer/Hello=%d", version), func(t *testing.T) {
			conn := startJS(t, "listen").dial(t, newKey(t))
			hello := &p2p.Hello{Name: "interop", Version: version, Caps: []p2p.Cap{{Name: "echo", Version: 2}}}
			if _, err := p2p.Handshake(step(t), conn, hello); err != nil {
				t.Fatal(err)
			}
			// Below a session, the bare byte is a payload that does not decompress.
			code, data, _, err := conn.Read()
			if payload, ok := errors.AsType[*rlpx.PayloadError](err); ok {
				data, err = payload.Payload, nil
			}
			if err != nil || code != p2p.DisconnectCode || !bytes.Equal(data, []byte{byte(p2p.DiscUselessPeer)}) {
				t.Fatalf("code %#x, data %x, error %v", code, data, err)
			}
			if reason := p2p.DecodeWireDisconnect(data, version >= 5); reason != p2p.DiscUselessPeer {
				t.Errorf("reason %v", reason)
			}
		})
		t.Run(fmt.Sprintf("a code beyond all capabilities/Hello=%d", version), func(t *testing.T) {
			conn := startJS(t, "listen").dial(t, newKey(t))
			hello := &p2p.Hello{Name: "interop", Version: version, Caps: jsConfig(version).Capabilities.Caps()}
			if _, err := p2p.Handshake(step(t), conn, hello); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write(p2p.BaseLength+jsLength, []byte{0xc0}); err != nil {
				t.Fatal(err)
			}
			code, data, _, err := conn.Read()
			if payload, ok := errors.AsType[*rlpx.PayloadError](err); ok {
				data, err = payload.Payload, nil
			}
			if reason := p2p.DecodeWireDisconnect(data, version >= 5); err != nil || code != p2p.DisconnectCode || reason != p2p.DiscProtocolError {
				t.Fatalf("code %#x, data %x, error %v", code, data, err)
			}
		})
	}
	t.Run("already connected", func(t *testing.T) {
		peer, key := startJS(t, "listen"), newKey(t)
		newSession(t, peer.dial(t, key), jsConfig(5))
		peer.event(t, &key.PublicKey, "added")
		second := newSession(t, peer.dial(t, key), jsConfig(5)) // its Hello comes first
		expectDisconnect(t, ended(t, second), p2p.DiscAlreadyConnected)
	})
	t.Run("too many peers", func(t *testing.T) {
		peer := startJS(t, "listen")
		for range jsMaxPeers {
			key := newKey(t)
			newSession(t, peer.dial(t, key), jsConfig(5))
			peer.event(t, &key.PublicKey, "added")
		}
		extra := newSession(t, peer.dial(t, newKey(t)), jsConfig(5))
		expectDisconnect(t, ended(t, extra), p2p.DiscTooManyPeers)
	})
	t.Run("wrong key", func(t *testing.T) {
		peer := startJS(t, "listen")
		// It does not hang up, so that only our deadline ends this.
		_, err := rlpx.Dial(step(t), "tcp", peer.addr, &newKey(t).PublicKey, &rlpx.Config{Key: newKey(t)})
		if !errors.Is(err, rlpx.ErrHandshake) {
			t.Errorf("Dial: %v", err)
		}
	})
}

// TestEthereumJSRecorded makes the transcripts.
func TestEthereumJSRecorded(t *testing.T) {
	for _, who := range []role{weDial, weServe} {
		for _, version := range []uint64{4, 5} {
			t.Run(fmt.Sprintf("%s/Hello=%d", who, version), func(t *testing.T) {
				r := row{ethereumJS, who, version}
				name := transcriptName("ethereumjs", r)
				if who == weDial {
					peer := startJS(t, "listen")
					rec := record(t, r, name, "We dial. Messages that it echoes, a Ping of either side, and its Disconnect.")
					session := newSession(t, rec.dial(t, peer.addr, peer.key), jsConfig(version))
					exchangeJS(t, session, peer)
					if err := session.Capability("echo").Write(jsDisconnectID, []byte{byte(p2p.DiscQuitting)}); err != nil {
						t.Fatal(err)
					}
					expectDisconnect(t, ended(t, session), p2p.DiscQuitting)
					return
				}
				rec := record(t, r, name, "It dials. Messages that it echoes, a Ping of either side, and our Disconnect.")
				l := rec.listen(t)
				peer := dialJS(t, l)
				session := newSession(t, l.accept(t), jsConfig(version))
				exchangeJS(t, session, peer)
				if err := session.Disconnect(p2p.DiscTooManyPeers); err != nil {
					t.Fatal(err)
				}
				peer.event(t, session.ConnectionState().LocalKey, "removed", `"reason":4`)
			})
		}
	}
}

// exchangeJS is the middle of a recorded session.
func exchangeJS(t *testing.T, session *p2p.Session, peer *jsPeer) {
	t.Helper()
	for _, data := range recordedEchoes(session) {
		expectEcho(t, session.Capability("echo"), jsEchoID, data)
	}
	expectPings(t, session, peer, 1)
}
