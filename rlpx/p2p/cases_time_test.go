package p2p

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/rlpx"
)

// deaf is a net.Conn that takes deadlines and knows nothing of them, as some wrappers are.
type deaf struct{ net.Conn }

func (deaf) SetDeadline(time.Time) error      { return nil }
func (deaf) SetReadDeadline(time.Time) error  { return nil }
func (deaf) SetWriteDeadline(time.Time) error { return nil }

// Every bound of time of the public API holds on every net.Conn, whether it has deadlines, says
// that it has none, or says nothing. The peer does not read, or does not write, or neither.
func TestCase_N2_TimeBounds(t *testing.T) {
	const timeout = 3 * time.Second
	handshaken := func(t *testing.T, wrap func(net.Conn) net.Conn) (*rlpx.Conn, *peer) {
		ours, theirs := net.Pipe()
		return peerOver(t, wrap(ours), theirs, nil)
	}
	session := func(t *testing.T, wrap func(net.Conn) net.Conn, cfg SessionConfig) (*Session, *peer) {
		conn, p := handshaken(t, wrap)
		cfg.Capabilities = testCaps
		return p.session(conn, &cfg, p.hello(5, testCaps.Caps()...)), p
	}
	// talks keeps the peer from being silent, and goes on when it is not read.
	talks := func(p *peer) {
		for p.send(PongCode, nil) == nil {
			time.Sleep(100 * time.Millisecond)
		}
	}
	bounds := []struct {
		name string
		most time.Duration
		call func(t *testing.T, wrap func(net.Conn) net.Conn) error
		want error
	}{
		{"Config.HandshakeTimeout, recipient", timeout, func(t *testing.T, wrap func(net.Conn) net.Conn) error {
			ours, _ := net.Pipe()
			_, err := rlpx.Server(wrap(ours), &rlpx.Config{Key: newKey(t), HandshakeTimeout: timeout}).HandshakeContext(t.Context())
			return err
		}, context.DeadlineExceeded},
		{"Config.HandshakeTimeout, initiator", timeout, func(t *testing.T, wrap func(net.Conn) net.Conn) error {
			ours, _ := net.Pipe()
			_, err := rlpx.Client(wrap(ours), &newKey(t).PublicKey, &rlpx.Config{Key: newKey(t), HandshakeTimeout: timeout}).HandshakeContext(t.Context())
			return err
		}, context.DeadlineExceeded},
		{"HandshakeContext", timeout, func(t *testing.T, wrap func(net.Conn) net.Conn) error {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			ours, _ := net.Pipe()
			_, err := rlpx.Server(wrap(ours), &rlpx.Config{Key: newKey(t), HandshakeTimeout: -1}).HandshakeContext(ctx)
			return err
		}, context.DeadlineExceeded},
		{"Dialer.Dial", timeout, func(t *testing.T, wrap func(net.Conn) net.Conn) error {
			d := rlpx.Dialer{Config: &rlpx.Config{Key: newKey(t), HandshakeTimeout: timeout},
				DialContext: func(context.Context, string, string) (net.Conn, error) {
					ours, _ := net.Pipe()
					return wrap(ours), nil
				}}
			_, err := d.Dial(t.Context(), "pipe", "peer", &newKey(t).PublicKey)
			return err
		}, context.DeadlineExceeded},
		{"Conn.SetWriteTimeout", timeout, func(t *testing.T, wrap func(net.Conn) net.Conn) error {
			conn, _ := handshaken(t, wrap)
			conn.SetWriteTimeout(timeout)
			_, err := conn.Write(0, nil)
			return err
		}, context.DeadlineExceeded},
		{"Handshake with a context", timeout + disconnectTimeout, func(t *testing.T, wrap func(net.Conn) net.Conn) error {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			conn, _ := handshaken(t, wrap)
			_, err := Handshake(ctx, conn, nil)
			return err
		}, context.DeadlineExceeded},
		{"Handshake with a context, its peer reads", timeout + disconnectTimeout, func(t *testing.T, wrap func(net.Conn) net.Conn) error {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			conn, p := handshaken(t, wrap)
			go p.rest()
			_, err := Handshake(ctx, conn, nil)
			return err
		}, context.DeadlineExceeded},
		{"HelloTimeout", HelloTimeout + 2*disconnectTimeout, func(t *testing.T, wrap func(net.Conn) net.Conn) error {
			conn, _ := handshaken(t, wrap)
			_, err := NewSession(t.Context(), conn, testConfig())
			return err
		}, context.DeadlineExceeded},
		{"Dialer.DialNode with a context that lasts", timeout + disconnectTimeout, func(t *testing.T, wrap func(net.Conn) net.Conn) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			key := newKey(t)
			d := Dialer{
				RLPx: &rlpx.Config{Key: newKey(t), HandshakeTimeout: timeout}, Session: testConfig(),
				DialContext: func(context.Context, string, string) (net.Conn, error) {
					ours, theirs := net.Pipe()
					t.Cleanup(func() { theirs.Close() })
					go rlpx.Server(theirs, &rlpx.Config{Key: key}).HandshakeContext(t.Context()) // and then says nothing
					return wrap(ours), nil
				},
			}
			_, err := d.DialNode(ctx, &Node{Key: &key.PublicKey, Host: "node", TCP: 30303})
			return err
		}, context.DeadlineExceeded},
		{"Refuse", disconnectTimeout + linger, func(t *testing.T, wrap func(net.Conn) net.Conn) error {
			conn, _ := handshaken(t, wrap)
			return Refuse(conn, DiscTooManyPeers)
		}, nil},
		{"SessionConfig.ReadTimeout", timeout + disconnectTimeout + linger, func(t *testing.T, wrap func(net.Conn) net.Conn) error {
			s, _ := session(t, wrap, SessionConfig{ReadTimeout: timeout})
			<-s.Done()
			return s.Err()
		}, ErrReadTimeout},
		{"SessionConfig.WriteTimeout", timeout + disconnectTimeout + linger, func(t *testing.T, wrap func(net.Conn) net.Conn) error {
			s, p := session(t, wrap, SessionConfig{WriteTimeout: timeout, ReadTimeout: -1, PingInterval: -1})
			go talks(p)
			err := s.Capability("aaa").Write(0, nil)
			<-s.Done()
			return err
		}, context.DeadlineExceeded},
		{"SessionConfig.WriteTimeout, Send", timeout + disconnectTimeout + linger, func(t *testing.T, wrap func(net.Conn) net.Conn) error {
			s, p := session(t, wrap, SessionConfig{WriteTimeout: timeout, ReadTimeout: -1, PingInterval: -1})
			go talks(p)
			if err := s.Capability("aaa").Send(0, nil); err != nil {
				t.Error(err)
			}
			<-s.Done()
			return s.Err()
		}, context.DeadlineExceeded},
		{"SessionConfig.WriteTimeout, keep-alive", 2*timeout + disconnectTimeout + linger, func(t *testing.T, wrap func(net.Conn) net.Conn) error {
			s, p := session(t, wrap, SessionConfig{WriteTimeout: timeout, ReadTimeout: -1, PingInterval: timeout})
			go talks(p)
			<-s.Done()
			return s.Err()
		}, context.DeadlineExceeded},
		{"SessionConfig.StallTimeout", timeout + disconnectTimeout + linger, func(t *testing.T, wrap func(net.Conn) net.Conn) error {
			s, p := session(t, wrap, SessionConfig{StallTimeout: timeout, QueueMessages: 1, PingInterval: -1})
			go func() {
				for range 3 {
					p.send(0x10, nil)
				}
			}()
			<-s.Done()
			return s.Err()
		}, ErrStalled},
		{"Disconnect", disconnectTimeout + linger, func(t *testing.T, wrap func(net.Conn) net.Conn) error {
			s, _ := session(t, wrap, SessionConfig{})
			if err := s.Disconnect(DiscTooManyPeers); err != nil {
				t.Error(err)
			}
			<-s.Done()
			return s.Err()
		}, DiscTooManyPeers},
		{"Disconnect with a write under way", disconnectTimeout + linger, func(t *testing.T, wrap func(net.Conn) net.Conn) error {
			s, _ := session(t, wrap, SessionConfig{WriteTimeout: -1})
			wrote := make(chan error, 1)
			go func() { wrote <- s.Capability("aaa").Write(0, make([]byte, 4<<20)) }()
			synctest.Wait()
			s.Disconnect(DiscTooManyPeers)
			<-s.Done()
			return <-wrote
		}, DiscTooManyPeers},
		{"Ping", timeout, func(t *testing.T, wrap func(net.Conn) net.Conn) error {
			s, _ := session(t, wrap, SessionConfig{})
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			_, err := s.Ping(ctx)
			return err
		}, context.DeadlineExceeded},
		{"Channel.Read", timeout, func(t *testing.T, wrap func(net.Conn) net.Conn) error {
			s, _ := session(t, wrap, SessionConfig{})
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			_, _, err := s.Capability("aaa").Read(ctx)
			return err
		}, context.DeadlineExceeded},
	}
	for _, kind := range []struct {
		name string
		wrap func(net.Conn) net.Conn
	}{
		{"deadlines", func(c net.Conn) net.Conn { return c }},
		{"errors", func(c net.Conn) net.Conn { return deadlineless{c} }},
		{"silence", func(c net.Conn) net.Conn { return deaf{c} }},
	} {
		for _, tc := range bounds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					t.Cleanup(func() { time.Sleep(time.Second) }) // for talks to notice that all is closed
					start := time.Now()
					err := tc.call(t, kind.wrap)
					if took := time.Since(start); took > tc.most {
						t.Errorf("took %v, want at most %v", took, tc.most)
					}
					switch timeout, isTimeout := errors.AsType[net.Error](err); {
					case err == nil:
						t.Error("no error")
					case tc.want == context.DeadlineExceeded && isTimeout && timeout.Timeout():
					case tc.want != nil && !errors.Is(err, tc.want):
						t.Errorf("error %v, want %v", err, tc.want)
					}
				})
			})
		}
	}
}

// Limits that the caller set on the connection hold beside those of this package, the smaller one
// each time, and are there again when Hello is through.
func TestCase_N3_CallersLimits(t *testing.T) {
	const small = 100 // less than a Hello
	start := func(t *testing.T, set func(*rlpx.Conn)) (*Session, *peer) {
		t.Helper()
		conn, p := pipe.peer(t, nil)
		set(conn)
		return p.session(conn, nil, p.hello(5, testCaps.Caps()...)), p
	}
	t.Run("read limit after Hello", func(t *testing.T) {
		s, p := start(t, func(c *rlpx.Conn) { c.SetReadLimit(4 << 10) })
		go p.rest()
		p.send(0x10, incompressible(3<<10))
		if _, data, err := s.Capability("aaa").Read(t.Context()); err != nil || len(data) != 3<<10 {
			t.Fatalf("%d bytes, %v", len(data), err)
		}
		p.send(0x10, incompressible(5<<10))
		wantDone(t, s, rlpx.ErrMessageTooBig)
	})
	t.Run("read limit after Handshake", func(t *testing.T) {
		for _, limit := range []int{0, 1 << 10, 1 << 20} {
			conn, p := pipe.peer(t, nil)
			conn.SetReadLimit(limit)
			go func() {
				p.SendMessage(HelloCode, p.hello(5))
				p.rest()
			}()
			if _, err := Handshake(t.Context(), conn, nil); err != nil || conn.ReadLimit() != limit {
				t.Errorf("limit %d: then %d, %v", limit, conn.ReadLimit(), err)
			}
			conn.Close()
		}
	})
	t.Run("read limit during Hello", func(t *testing.T) {
		conn, p := pipe.peer(t, nil)
		conn.SetReadLimit(small)
		go func() {
			p.SendMessage(HelloCode, p.hello(5, make([]Cap, 50)...))
			p.rest()
		}()
		_, err := Handshake(t.Context(), conn, nil)
		wantErr(t, err, ErrHelloTooBig)
	})
	t.Run("write timeout", func(t *testing.T) {
		for _, tc := range []struct{ callers, sessions, want time.Duration }{
			{time.Second, 5 * time.Second, time.Second},
			{5 * time.Second, time.Second, time.Second},
			{0, 2 * time.Second, 2 * time.Second},
			{time.Second, -1, time.Second},
		} {
			synctest.Test(t, func(t *testing.T) {
				conn, p := pipe.peer(t, nil)
				conn.SetWriteTimeout(tc.callers)
				s := p.session(conn, &SessionConfig{Capabilities: testCaps, WriteTimeout: tc.sessions}, p.hello(5, testCaps.Caps()...))
				start := time.Now()
				if err := s.Capability("aaa").Write(0, nil); err == nil {
					t.Error("written to a peer that does not read")
				}
				// A broken session looks for the peer's reason for a second.
				if took := time.Since(start); took < tc.want || took > tc.want+disconnectTimeout {
					t.Errorf("%+v: took %v", tc, took)
				}
			})
		}
	})
	t.Run("message limit", func(t *testing.T) {
		ours, theirs := net.Pipe()
		conn, p := peerOver(t, ours, theirs, &rlpx.Config{MessageLimit: func(code uint64) int { return map[uint64]int{0x10: 10}[code] }})
		s := p.session(conn, nil, p.hello(5, testCaps.Caps()...))
		go p.rest()
		p.send(0x10, make([]byte, 10))
		if _, _, err := s.Capability("aaa").Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.send(0x10, make([]byte, 11))
		wantDone(t, s, rlpx.ErrMessageTooBig)
	})
}

// A Ping is due at the latest after half of ReadTimeout: an idle peer that answers is no silent
// one.
func TestCase_N8_PingWithinReadTimeout(t *testing.T) {
	for _, tc := range []struct{ ping, read time.Duration }{
		{0, 10 * time.Second},
		{time.Hour, 2 * time.Second},
		{0, time.Second},
		{30 * time.Second, 30 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, p := pipe.session(t, &SessionConfig{Capabilities: testCaps, PingInterval: tc.ping, ReadTimeout: tc.read})
			start := time.Now()
			for range 10 {
				code, _ := p.read()
				if since := time.Since(start); code != PingCode || since > tc.read/2 {
					t.Fatalf("%+v: code %#x after %v", tc, code, since)
				}
				time.Sleep(tc.read / 4) // a slow way
				start = time.Now()
				p.send(PongCode, []byte{0xc0})
			}
			if err := s.Err(); err != nil {
				t.Errorf("%+v: %v", tc, err)
			}
		})
	}
}

// A negative PingInterval is no keep-alive, whatever ReadTimeout is.
func TestCase_N8_NoKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pipe.session(t, &SessionConfig{Capabilities: testCaps, PingInterval: -1, ReadTimeout: 10 * time.Second})
		start := time.Now()
		p.wantFarewell(DiscReadTimeout)
		wantDone(t, s, ErrReadTimeout)
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// incompressible returns data that snappy does not make smaller.
func incompressible(n int) []byte {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(data)
	return data
}
