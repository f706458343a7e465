package command

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

var eth69, snap1 = p2p.Cap{Name: "eth", Version: 69}, p2p.Cap{Name: "snap", Version: 1}

func TestPing(t *testing.T) {
	var announced atomic.Pointer[p2p.Hello]
	peer := startPeer(t, func(p *scriptedPeer) {
		announced.Store(p.hello("Geth/v1.17.10-stable/linux-amd64/go1.26", eth69, snap1))
		p.write(p2p.BaseLength, []byte{0xc0}) // a Status, as a node sends at once
		p.answer(100)
	})
	r := run(t, "ping", "-c", "3", "-i", "1ms", peer)
	r.wantSuccess(t,
		": connected in ", "handshake in ",
		"client        Geth/v1.17.10-stable/linux-amd64/go1.26\n",
		"node id       ",
		"p2p version   5, snappy on\n",
		"capabilities  eth/69, snap/1\n",
		"shared        eth/69, snap/1\n",
		"seq=1 time=", "seq=3 time=",
		"3 sent, 3 answered", "round trip min/avg/max ")
	if strings.Contains(r.stdout, "seq=4") {
		t.Errorf("too many Pings:\n%s", r.stdout)
	}
	if hello := announced.Load(); hello.Name != clientName() || len(hello.Caps) != len(publicCaps())+1 {
		t.Errorf("ping said Hello as %v", hello)
	}
}

func TestPingWithoutSnappy(t *testing.T) {
	peer := startPeer(t, func(p *scriptedPeer) {
		p.version = 4
		p.hello("old", eth69)
		p.answer(1)
	})
	run(t, "ping", "-c", "1", peer).wantSuccess(t, "p2p version   4, snappy off\n", "1 answered")
}

// What a peer calls itself cannot disturb a terminal.
func TestPingUnprintablePeer(t *testing.T) {
	peer := startPeer(t, func(p *scriptedPeer) {
		p.hello("evil\x1b]0;owned\x07\r\n\xff"+strings.Repeat("x", 1000), eth69)
		p.answer(1)
	})
	r := run(t, "ping", "-c", "1", peer)
	r.wantSuccess(t, `client        evil\x1b]0;owned\x07\x0d\x0a\xffxxx`)
	if regexp.MustCompile(`[^\n -~]`).MatchString(r.stdout) {
		t.Errorf("unprintable output %q", r.stdout)
	}
}

// A peer that shares nothing is dialed again with what it has.
func TestPingUselessPeer(t *testing.T) {
	var connections atomic.Int32
	peer := startPeer(t, func(p *scriptedPeer) {
		connections.Add(1)
		theirs := p.hello("Bor/v2", p2p.Cap{Name: "wit", Version: 0}, p2p.Cap{Name: "toolongname", Version: 1})
		for _, c := range theirs.Caps {
			if c.Name == "wit" {
				p.answer(1)
				return
			}
		}
		p.disconnect(p2p.DiscUselessPeer)
		p.lingerOver()
	})
	run(t, "ping", "-c", "1", peer).wantSuccess(t, "dialing again", "client        Bor/v2\n", "shared        wit/0\n", "1 answered")
	if n := connections.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
	run(t, "ping", "-c", "1", "-cap", "wit/0", peer).wantSuccess(t, "1 answered")
	if n := connections.Load(); n != 3 {
		t.Errorf("%d connections with the capability given, want 1", n-2)
	}
}

func TestPingPeerWithoutCapabilities(t *testing.T) {
	peer := startPeer(t, func(p *scriptedPeer) {
		p.hello("crawler")
		p.lingerOver()
	})
	run(t, "ping", peer).wantError(t, statusFailed, "no shared capability")
}

// The ways in which a peer ends a connection, in the order in which they come up.
func TestPingPeerThatEndsIt(t *testing.T) {
	for _, tc := range []struct {
		name   string
		script func(p *scriptedPeer)
		stderr []string
		stdout []string
	}{
		{
			"closes after ack",
			func(p *scriptedPeer) {},
			[]string{"no session", "the peer closed the connection without a Disconnect"},
			[]string{"handshake in"},
		},
		{
			"closes within Hello",
			func(p *scriptedPeer) { _, _ = p.conn.NetConn().Write(make([]byte, 7)); p.lingerOver() },
			[]string{"no session", "closed"},
			nil,
		},
		{
			"too many peers instead of Hello",
			func(p *scriptedPeer) { p.disconnect(p2p.DiscTooManyPeers); p.lingerOver() },
			[]string{"no session", "the peer said Disconnect: too many peers (reason 0x04)"},
			[]string{"handshake in"},
		},
		{
			"bare reason instead of Hello",
			func(p *scriptedPeer) { p.write(p2p.DisconnectCode, []byte{8}); p.lingerOver() },
			[]string{"client quitting (reason 0x08)"},
			nil,
		},
		{
			"Disconnect without reason",
			func(p *scriptedPeer) { p.write(p2p.DisconnectCode, []byte{0xc0}); p.lingerOver() },
			[]string{"the peer said Disconnect: no reason given\n"},
			nil,
		},
		{
			"unknown reason",
			func(p *scriptedPeer) { p.write(p2p.DisconnectCode, []byte{0xc1, 0x42}); p.lingerOver() },
			[]string{"unknown disconnect reason 0x42"},
			nil,
		},
		{
			"malformed Hello",
			func(p *scriptedPeer) { p.write(p2p.HelloCode, []byte{0xc1, 0x05}); p.lingerOver() },
			[]string{"no session", "malformed Hello"},
			nil,
		},
		{
			"another message before Hello",
			func(p *scriptedPeer) { p.write(p2p.BaseLength, []byte{0xc0}); p.lingerOver() },
			[]string{"no session"},
			nil,
		},
		{
			"closes after Hello",
			func(p *scriptedPeer) { p.hello("client", eth69) },
			[]string{"1 of 1 Pings not answered", "closed the connection"},
			[]string{"client        client\n", "0 answered"},
		},
		{
			"Disconnect after Hello",
			func(p *scriptedPeer) {
				p.hello("client", eth69)
				p.disconnect(p2p.DiscSubprotocolError)
				p.lingerOver()
			},
			[]string{"not answered", "subprotocol error (reason 0x10)"},
			[]string{"client        client\n", "capabilities  eth/69\n", "0 answered"},
		},
		{
			"Disconnect after two Pongs",
			func(p *scriptedPeer) {
				p.hello("client", eth69)
				p.answer(2)
				p.disconnect(p2p.DiscReadTimeout)
				p.lingerOver()
			},
			[]string{"1 of 3 Pings not answered", "read timeout (reason 0x0b)"},
			[]string{"seq=2", "3 sent, 2 answered", "round trip min/avg/max"},
		},
		{
			"closes after a Pong",
			func(p *scriptedPeer) { p.hello("client", eth69); p.answer(1) },
			[]string{"1 of 2 Pings not answered", "closed the connection"},
			[]string{"2 sent, 1 answered"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := run(t, "ping", "-i", "1ms", startPeer(t, tc.script))
			r.atEnd().wantError(t, statusFailed, tc.stderr...)
			wantAll(t, r.stdout, tc.stdout...)
		})
	}
}

// Ports where no RLPx handshake comes to an end.
func TestPingNoHandshake(t *testing.T) {
	read := func(c net.Conn, n int64) { _, _ = io.CopyN(io.Discard, c, n) }
	stall := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	garbage := make([]byte, 2+1000)
	_, _ = rand.Read(garbage)
	garbage[0], garbage[1] = 1000>>8, 1000&0xff
	for _, tc := range []struct {
		name  string
		serve func(net.Conn)
		texts []string
	}{
		{"closes at once", func(c net.Conn) {}, []string{"handshake with 127.0.0.1:", "the peer closed the connection"}},
		{"closes after auth", func(c net.Conn) { read(c, 300) }, []string{"handshake", "another node key"}},
		{"closes within ack", func(c net.Conn) { read(c, 1); _, _ = c.Write(garbage[:99]) }, []string{"handshake", "closed"}},
		{"garbage", func(c net.Conn) { _, _ = c.Write(garbage); stall(c) }, []string{"handshake", "damaged, or is not RLPx"}},
		{"HTTP answer", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
			stall(c)
		}, []string{"not an RLPx port", "HTTP"}},
		{"TLS alert", func(c net.Conn) { _, _ = c.Write([]byte{0x15, 3, 1, 0, 2, 2, 22}); stall(c) }, []string{"not an RLPx port", "TLS"}},
		{"SSH", func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n"); stall(c) }, []string{"not an RLPx port", "SSH"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := run(t, "ping", "-timeout", "30s", enodeURL(newKey(t), listen(t, tc.serve)))
			r.wantError(t, statusFailed, tc.texts...)
			if r.stdout != "" {
				t.Errorf("stdout %q", r.stdout)
			}
		})
	}
	t.Run("says nothing", func(t *testing.T) {
		t.Parallel()
		pingTimeout(t, enodeURL(newKey(t), listen(t, stall)), "handshake with ", "no answer within ")
	})
	t.Run("HTTP server", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(http.NotFoundHandler())
		defer server.Close()
		u, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		port, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil {
			t.Fatal(err)
		}
		// Without a line feed in it, which is a matter of chance, the server takes auth for the
		// beginning of a request.
		pingTimeout(t, enodeURL(newKey(t), uint16(port)), "handshake with ")
	})
	t.Run("wrong node key", func(t *testing.T) {
		t.Parallel()
		l, err := rlpx.Listen("tcp", "127.0.0.1:0", &rlpx.Config{Key: newKey(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		url := enodeURL(newKey(t), uint16(l.Addr().(*net.TCPAddr).Port))
		run(t, "ping", url).wantError(t, statusFailed, "handshake", "another node key")
	})
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := uint16(l.Addr().(*net.TCPAddr).Port)
		l.Close()
		run(t, "ping", enodeURL(newKey(t), port)).wantError(t, statusFailed, "cannot connect to 127.0.0.1:", "refused")
	})
	t.Run("no such host", func(t *testing.T) {
		t.Parallel()
		url := strings.Replace(enodeURL(newKey(t), 30303), "127.0.0.1", "no-such-host.invalid", 1)
		run(t, "ping", url).wantError(t, statusFailed, "cannot connect to no-such-host.invalid:30303")
	})
}

func TestPingUnanswered(t *testing.T) {
	peer := startPeer(t, func(p *scriptedPeer) {
		p.hello("mute", eth69)
		_, _ = io.Copy(io.Discard, p.conn.NetConn())
	})
	r := pingTimeout(t, peer, "2 of 2 Pings not answered: no answer within ")
	wantAll(t, r.stdout, "client        mute\n", "ping 1: no answer", "ping 2: not sent", "1 sent, 0 answered")
}

func TestPingNoHello(t *testing.T) {
	peer := startPeer(t, func(p *scriptedPeer) { _, _ = io.Copy(io.Discard, p.conn.NetConn()) })
	pingTimeout(t, peer, "no session with ", "no answer within ")
}

// pingTimeout pings a peer that leaves something unanswered and checks the error. The timeout holds
// for what comes before that as well, so it is made longer where the machine is slow.
func pingTimeout(t *testing.T, url string, texts ...string) result {
	t.Helper()
	for timeout := 100 * time.Millisecond; ; timeout *= 3 {
		r := run(t, "ping", "-c", "2", "-i", "1ms", "-timeout", timeout.String(), url)
		if strings.Contains(r.stderr, texts[0]) || timeout > 20*time.Second {
			r.atEnd().wantError(t, statusFailed, texts...)
			return r
		}
	}
}

func TestPingInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	reason := make(chan p2p.DiscReason, 1)
	peer := startPeer(t, func(p *scriptedPeer) {
		p.hello("client", eth69)
		p.answer(1)
		// The second Ping is here, and goes unanswered.
		cancel()
		for {
			code, payload, _, err := p.conn.Read()
			if err != nil {
				close(reason)
				return
			}
			if code == p2p.DisconnectCode {
				reason <- p2p.DecodeDisconnect(payload)
				return
			}
		}
	})
	r := runContext(t, ctx, "ping", "-c", "0", "-i", "1ms", peer)
	r.wantSuccess(t, "seq=1", "1 sent, 1 answered")
	if got := <-reason; got != p2p.DiscQuitting {
		t.Errorf("the peer was told %v", got)
	}

	// With more Pings to come, it was not done.
	few, cancel := context.WithCancel(t.Context())
	peer = startPeer(t, func(p *scriptedPeer) {
		p.hello("client", eth69)
		p.answer(1)
		cancel()
		_, _ = io.Copy(io.Discard, p.conn.NetConn())
	})
	r = runContext(t, few, "ping", "-c", "4", "-i", "1ms", peer).atEnd()
	r.wantError(t, statusInterrupted, "interrupted")
	wantAll(t, r.stdout, "1 sent, 1 answered")

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	runContext(t, cancelled, "ping", peer).wantError(t, statusInterrupted, "interrupted")
}

// A peer may end the session of those who send more than a Ping a second.
func TestCase_N15_PingInterval(t *testing.T) {
	s := startServe(t)
	for interval, warned := range map[string]bool{"0": true, "999ms": true, "1s": false, "1m": false} {
		r := run(t, "ping", "-c", "1", "-i", interval, s.url)
		r.wantSuccess(t, "1 answered")
		if got := strings.HasPrefix(r.stderr, "rlpx: warning: -i ") && strings.Contains(r.stderr, "faster than one a second"); got != warned {
			t.Errorf("-i %s: stderr %q", interval, r.stderr)
		}
	}
}

func TestStats(t *testing.T) {
	var s stats
	for _, d := range []time.Duration{30, 10, 20} {
		s.add(d)
	}
	if s.n != 3 || s.min != 10 || s.max != 30 || s.avg() != 20 {
		t.Errorf("%+v, average %v", s, s.avg())
	}
}
