package p2p

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
)

// These tests are about the base protocol within a session.

// Base messages are compressed when the session is.
func TestCase_S5_PingAndPongOnWire(t *testing.T) {
	for _, tt := range []struct {
		version    uint64
		ping, pong string
	}{{5, "\x02\x01\x00\xc0", "\x03\x01\x00\xc0"}, {4, "\x02\xc0", "\x03\xc0"}} {
		t.Run(fmt.Sprint(tt.version), func(t *testing.T) {
			onNetworks(t, func(t *testing.T, n network) {
				conn, p := n.peer(t, nil)
				s := p.session(conn, nil, p.hello(tt.version, testCaps.Caps()...))
				p.send(PingCode, []byte{0xc0})
				frame, err := p.ReadFrame()
				if err != nil || string(frame.Data) != tt.pong {
					t.Fatalf("Pong: %x, %v", frame.Data, err)
				}
				go s.Ping(t.Context())
				if frame, err = p.ReadFrame(); err != nil || string(frame.Data) != tt.ping {
					t.Fatalf("Ping: %x, %v", frame.Data, err)
				}
			})
		})
	}
}

func TestCase_B8_UnknownCapabilitiesIgnored(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		conn, p := n.peer(t, nil)
		caps := []Cap{{"zzz", 1}, {"bbb", 2}, {"\xff", 7}, {"", 0}}
		s := p.session(conn, nil, p.hello(5, caps...))
		if s.Shared().Len() != 1 || s.Capability("bbb") == nil || s.Capability("zzz") != nil || s.Capability("") != nil {
			t.Errorf("shared: %+v", s.Shared())
		}
		if fmt.Sprint(s.Remote().Caps) != fmt.Sprint(caps) {
			t.Errorf("the peer's capabilities: %v", s.Remote().Caps)
		}
		p.send(0x17, []byte("x"))
		if id, _, err := s.Capability("bbb").Read(t.Context()); err != nil || id != 7 {
			t.Errorf("got id %d, %v", id, err)
		}

	})
}

func TestCase_B10_VersionsOfSessions(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		for _, version := range []uint64{0, 3, 4, 5, 6, 22, 1 << 32, 1<<64 - 1} {
			t.Run(fmt.Sprint(version), func(t *testing.T) {
				conn, p := n.peer(t, nil)
				s := p.session(conn, nil, p.hello(version, testCaps.Caps()...))
				go p.send(0x10, []byte("hello"))
				if _, data, err := s.Capability("aaa").Read(t.Context()); err != nil || string(data) != "hello" {
					t.Errorf("got %q, %v", data, err)
				}
				if s.ConnectionState().Snappy != (version >= 5) {
					t.Error("compression is wrong")
				}
			})
		}

	})
}

func TestCase_B12_LongNamesInSession(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		conn, p := n.peer(t, nil)
		var caps []Cap
		for _, length := range []int{8, 9, 13, 32, 1000} {
			caps = append(caps, Cap{string(bytes.Repeat([]byte{'n'}, length)), 1})
		}
		s := p.session(conn, nil, p.hello(5, append(caps, Cap{"aaa", 1})...))
		if s.Shared().Len() != 1 || s.Capability("aaa") == nil {
			t.Errorf("shared: %+v", s.Shared())
		}

		for _, name := range []string{"", "ninebytes"} {
			conn, p := n.peer(t, nil)
			result := make(chan error, 1)
			go func() {
				_, err := NewSession(t.Context(), conn, &SessionConfig{Capabilities: Capabilities{{Cap: Cap{name, 1}, Length: 1}}})
				result <- err
			}()
			p.wantFarewell(DiscRequested)
			wantErr(t, <-result, ErrInvalidCapability)
		}

	})
}

func TestCase_B16_SecondHello(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		s, p := n.session(t, nil)
		offsets := fmt.Sprint(s.Shared())
		hello := p.hello(4, Cap{"aaa", 1})
		go func() {
			// Hello is never compressed, and either way this is one too many.
			for range 10_000 {
				if p.send(HelloCode, hello) != nil {
					return
				}
			}
		}()
		p.wantFarewell(DiscProtocolError)
		wantDone(t, s, ErrUnexpectedMessage)
		wantErr(t, s.Err(), &DisconnectError{Reason: DiscProtocolError})
		if fmt.Sprint(s.Shared()) != offsets || !s.ConnectionState().Snappy || s.Remote().Version != 5 {
			t.Error("the second Hello was applied")
		}
	})
}

func TestCase_B17_ReservedCodes(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		s, p := n.session(t, nil)
		go func() {
			for _, code := range []uint64{0x04, 0x05, 0x0f} {
				p.send(code, []byte{0xc0})
			}
			p.send(PingCode, []byte{0xc0})
			p.send(0x10, []byte("after"))
		}()
		p.want(PongCode, []byte{0xc0}) // the only answer
		if _, data, err := s.Capability("aaa").Read(t.Context()); err != nil || string(data) != "after" {
			t.Errorf("got %q, %v", data, err)
		}
		if got := s.Stats(); got != (SessionStats{Pings: 1, Ignored: 3}) {
			t.Errorf("got %+v", got)
		}
	})
}

func TestCase_B18_PingPayloads(t *testing.T) {
	payloads := [][]byte{{0xc0}, {0x80}, {}, {0xc3, 1, 2, 3}, list(str(make([]byte, 1<<10)))}
	onNetworks(t, func(t *testing.T, n network) {
		s, p := n.session(t, nil)
		for _, payload := range payloads {
			p.send(PingCode, payload)
			p.want(PongCode, []byte{0xc0})
		}
		for _, payload := range payloads {
			result := make(chan error, 1)
			go func() {
				_, err := s.Ping(t.Context())
				result <- err
			}()
			p.want(PingCode, []byte{0xc0})
			p.send(PongCode, payload)
			if err := <-result; err != nil {
				t.Error(err)
			}
		}
	})
	// On a clock that stands still while there is work, so that no Pong is late enough to stand for
	// the next one too.
	t.Run("together", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, p := pipe.session(t, nil)
			var wire []byte
			for _, payload := range payloads {
				wire = append(wire, p.Egress.Seal(rlpxtest.Data(PingCode, p.wire(payload)))...)
			}
			go p.Send(wire) // of which a pipe holds nothing
			for range payloads {
				p.want(PongCode, []byte{0xc0})
			}
		})
	})
}

func TestCase_B19_PingTogetherWithHello(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		conn, p := n.peer(t, nil)
		p.snappy = true
		go p.Send(append(p.Egress.Seal(rlpxtest.Data(HelloCode, p.hello(5, testCaps.Caps()...))),
			p.Egress.Seal(rlpxtest.Data(PingCode, p.wire([]byte{0xc0})))...))
		type result struct {
			s   *Session
			err error
		}
		results := make(chan result, 1)
		go func() {
			s, err := NewSession(t.Context(), conn, testConfig())
			results <- result{s, err}
		}()
		p.read() // Hello
		p.want(PongCode, []byte{0xc0})
		r := <-results
		if r.err != nil {
			t.Fatal(r.err)
		}
		s := r.s
		defer s.Close()
		for _, ch := range s.channels {
			if _, ok := ch.take(); ok {
				t.Error("delivered to a capability")
			}
		}

	})
}

// The last frame that we write says what was wrong.
func TestCase_B24_LastFrame(t *testing.T) {
	start := func(conn *rlpx.Conn, readTimeout time.Duration) <-chan error {
		result := make(chan error, 1)
		go func() {
			s, err := NewSession(t.Context(), conn, &SessionConfig{Capabilities: testCaps, ReadTimeout: readTimeout})
			if err == nil {
				<-s.Done()
				err = s.Err()
			}
			result <- err
		}()
		return result
	}
	for _, tt := range []struct {
		name   string
		hello  func(p *peer) []byte
		data   []byte // frame data after Hello
		reason DiscReason
		err    error
	}{
		{"malformed Hello", func(*peer) []byte { return []byte{0xc0} }, nil, DiscProtocolError, ErrMalformedHello},
		{"no shared capability", func(p *peer) []byte { return p.hello(5, Cap{"eth", 68}) }, nil, DiscUselessPeer, DiscUselessPeer},
		{"other identity", func(*peer) []byte { return helloWith(t, partVersion, num(5)) }, nil, DiscUnexpectedIdentity, ErrUnexpectedIdentity},
		{"null identity", func(*peer) []byte { return helloWith(t, partID, str(make([]byte, 64))) }, nil, DiscInvalidIdentity, ErrNullIdentity},
		{"bad snappy", nil, []byte{0x10, 0xff, 0xff}, DiscProtocolError, rlpx.ErrProtocol},
		{"too large by its announcement", nil, []byte{0x10, 0x80, 0x80, 0x80, 0x08}, DiscProtocolError, rlpx.ErrMessageTooBig},
		{"empty snappy", nil, []byte{0x02}, DiscProtocolError, rlpx.ErrProtocol},
		{"code out of range", nil, rlpxtest.Data(0x1c, snappy.Encode(nil, nil)), DiscProtocolError, ErrInvalidCode},
		{"code not canonical", nil, []byte{0x00, 0x00}, DiscProtocolError, rlpx.ErrProtocol},
		{"empty frame", nil, []byte{}, DiscProtocolError, rlpx.ErrProtocol},
		{"silence", nil, nil, DiscReadTimeout, ErrReadTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onNetworks(t, func(t *testing.T, n network) {
				conn, p := n.peer(t, nil)
				readTimeout := time.Duration(0) // whoever is to say something may take the time that it needs
				if tt.reason == DiscReadTimeout {
					readTimeout = 100 * time.Millisecond
				}
				result := start(conn, readTimeout)
				p.read() // Hello
				hello := p.hello(5, testCaps.Caps()...)
				if tt.hello != nil {
					hello = tt.hello(p)
				}
				p.SendMessage(HelloCode, hello)
				p.snappy = tt.hello == nil || tt.reason == DiscUselessPeer
				if tt.data != nil {
					p.SendData(tt.data)
				}
				// Not wantFarewell: keep-alive Pings may come before.
				p.Conn.SetReadDeadline(time.Now().Add(30 * time.Second))
				codes, payloads := p.rest()
				if n := len(codes); n == 0 || codes[n-1] != DisconnectCode || !bytes.Equal(payloads[n-1], AppendDisconnect(nil, tt.reason)) {
					t.Errorf("got codes %#x, payloads %x", codes, payloads)
				}
				err := <-result
				wantErr(t, err, tt.err)
				if got := ReasonFor(err); got != tt.reason {
					t.Errorf("ReasonFor gives %v", got)
				}
			})
		})
	}
	t.Run("bad MAC", func(t *testing.T) {
		onClocks(t, func(t *testing.T, n network, within func(string, time.Duration, time.Duration)) {
			s, p := n.session(t, nil)
			wire := p.Egress.Seal(rlpxtest.Data(0x10, []byte("damaged")))
			wire[20] ^= 1
			start := time.Now()
			go p.Send(wire)
			wantDone(t, s, rlpx.ErrAuthentication)
			within("the end", time.Since(start), disconnectTimeout)
		})
	})
}

// Ping and Disconnect are dealt with although the application does nothing.
func TestCase_B26_IdleApplication(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		s, p := n.session(t, nil)
		p.send(0x10, []byte("never read"))
		for range 3 {
			p.send(PingCode, []byte{0xc0})
			p.want(PongCode, []byte{0xc0})
		}
		p.send(DisconnectCode, []byte{0xc1, 0x08})
		wantDone(t, s, &DisconnectError{DiscQuitting, true})
	})
}

// flood is how many messages make one.
const flood = 200_000

// A flood of Pings from a peer that never reads costs nothing and ends by the write timeout.
func TestCase_D1_PingFlood(t *testing.T) {
	connA, connB := tcp.conns(t, nil, nil)
	result := shake(t.Context(), connB, testHello())
	cfg := testConfig()
	cfg.WriteTimeout = 500 * time.Millisecond
	s, err := NewSession(t.Context(), connA, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r := <-result; r.err != nil {
		t.Fatal(r.err)
	}
	goroutines, heap := runtime.NumGoroutine(), rlpxtest.HeapInUse()

	connB.SetWriteDeadline(time.Now().Add(30 * time.Second))
	for sent := range flood {
		if _, err := connB.Write(PingCode, AppendPing(nil)); err != nil {
			break // closed on us
		}
		if sent%(flood/10) != 0 {
			continue
		}
		if now := runtime.NumGoroutine(); now > goroutines+4 { // some are of the runtime or of tests before
			t.Fatalf("%d goroutines, %d before", now, goroutines)
		}
		if now := rlpxtest.HeapInUse(); now > heap+1<<20 {
			t.Fatalf("heap grew from %d to %d", heap, now)
		}
	}
	if !rlpxtest.Within(func() { <-s.Done() }) {
		t.Fatal("session does not end")
	}
	if !isTimeout(s.Err()) {
		t.Errorf("ended by %v, want a timeout", s.Err())
	}
}

// Whatever the flood, no more than one Pong is queued behind the one that is under way.
func TestCase_D1_OnePongQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pipe.session(t, nil)
		for range 100 {
			p.send(PingCode, []byte{0xc0}) // while our first Pong blocks
		}
		time.Sleep(2 * pongPatience)
		pongs := make(chan int)
		go func() {
			codes, _ := p.rest()
			pongs <- len(codes) - 1
		}()
		synctest.Wait()
		s.Close()
		if got := <-pongs; got != 2 {
			t.Errorf("got %d Pongs, want 2", got)
		}
		if got := s.Stats().Pings; got != 100 {
			t.Errorf("counted %d Pings", got)
		}
	})
}

// Pongs that nobody asked for change nothing and cost nothing.
func TestCase_D1_PongFlood(t *testing.T) {
	const pongs = 5000
	onNetworks(t, func(t *testing.T, n network) {
		s, p := n.session(t, nil)
		heap := rlpxtest.HeapInUse()
		pong := p.wire([]byte{0xc0})
		for range pongs / 100 {
			var wire []byte
			for range 100 {
				wire = append(wire, p.Egress.Seal(rlpxtest.Data(PongCode, pong))...)
			}
			if err := p.Send(wire); err != nil {
				t.Fatal(err)
			}
		}
		if !rlpxtest.Eventually(func() bool { return s.Stats().Pongs == pongs }) {
			t.Fatalf("got %d Pongs", s.Stats().Pongs)
		}
		if now := rlpxtest.HeapInUse(); now > heap+1<<20 {
			t.Errorf("heap grew from %d to %d", heap, now)
		}
		p.send(PingCode, []byte{0xc0})
		p.want(PongCode, []byte{0xc0})

	})
}
