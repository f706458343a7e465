package p2p

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// A peer that vanished without a word is found out within the read timeout.
func TestCase_L13_BlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pipe.session(t, nil)
		start := time.Now()
		p.wantKeepAlive(start.Add(DefaultPingInterval))
		p.wantFarewell(DiscReadTimeout)
		wantDone(t, s, ErrReadTimeout)
		wantErr(t, s.Err(), DiscReadTimeout)
		if took := time.Since(start); took != DefaultReadTimeout {
			t.Errorf("took %v", took)
		}
	})
}

// wantKeepAlive fails the test unless the next message is a Ping at the given time.
func (p *peer) wantKeepAlive(at time.Time) {
	p.t.Helper()
	p.want(PingCode, []byte{0xc0})
	if late := time.Since(at); late != 0 {
		p.t.Errorf("Ping is %v late", late)
	}
}

// The same where not even our Pings get out: the write timeout ends the session.
func TestCase_L13_BlackHoleThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s, _ := pipe.session(t, nil)
		<-s.Done()
		if !errors.Is(s.Err(), ErrReadTimeout) {
			t.Error(s.Err())
		}
		if took := time.Since(start); took < DefaultReadTimeout || took > DefaultReadTimeout+disconnectTimeout {
			t.Errorf("took %v", took)
		}
	})
}

// However long a write may take, silence ends the session.
func TestReadTimeoutBesideABlockedWrite(t *testing.T) {
	for _, timeout := range []time.Duration{-1, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			cfg := testConfig()
			cfg.WriteTimeout = timeout
			s, _ := pipe.session(t, cfg)
			<-s.Done()
			if took := time.Since(start); !errors.Is(s.Err(), ErrReadTimeout) || took > DefaultReadTimeout+disconnectTimeout {
				t.Errorf("WriteTimeout %v: ended after %v with %v", timeout, took, s.Err())
			}
			if disconnect, ok := errors.AsType[*DisconnectError](s.Err()); !ok || disconnect.Reason != DiscReadTimeout || disconnect.Remote {
				t.Errorf("what we told the peer is not in the chain of %v", s.Err())
			}
			if errors.Is(s.Err(), net.ErrClosed) {
				t.Errorf("%v passes for a session that we closed", s.Err())
			}
		})
	}
}

// A peer may answer every Ping late.
func TestCase_L13_LatePongs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pipe.session(t, nil)
		last := time.Now()
		for range 20 {
			p.want(PingCode, []byte{0xc0})
			time.Sleep(time.Until(last.Add(DefaultReadTimeout - time.Millisecond)))
			p.send(PongCode, []byte{0xc0})
			last = time.Now()
		}
		if err := s.Err(); err != nil {
			t.Error(err)
		}
	})
}

// Any message is a sign of life, and none needs a Ping beside it while we talk as well.
func TestCase_L13_AnyMessageIsLife(t *testing.T) {
	for _, m := range []struct {
		name string
		code uint64
	}{{"capability", 0x10}, {"ping", PingCode}, {"unsolicited pong", PongCode}, {"reserved", 0x05}} {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, p := pipe.session(t, nil)
				go func() {
					for {
						if _, _, err := s.Capability("aaa").Read(t.Context()); err != nil {
							return
						}
					}
				}()
				pings := make(chan int)
				go func() {
					codes, _ := p.rest()
					n := 0
					for _, code := range codes {
						if code == PingCode {
							n++
						}
					}
					pings <- n
				}()
				for range 20 {
					time.Sleep(10 * time.Second)
					p.send(m.code, []byte{0xc0})
					if m.code != PingCode { // or else our Pong does that
						s.Capability("aaa").Write(0, nil)
					}
				}
				if err := s.Err(); err != nil {
					t.Error(err)
				}
				s.Close()
				if n := <-pings; n != 0 {
					t.Errorf("%d Pings", n)
				}
			})
		})
	}
}

// Where only the peer talks, our Pings show it that we are there.
func TestKeepAliveOfOneWayTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pipe.session(t, nil)
		start := time.Now()
		talked := make(chan struct{})
		go func() {
			defer close(talked)
			for p.send(0x05, nil) == nil {
				time.Sleep(time.Second)
			}
		}()
		for i := range 4 {
			p.wantKeepAlive(start.Add(time.Duration(i+1) * DefaultPingInterval))
		}
		go s.Close()
		p.rest()
		<-talked
	})
}

// Two of ours keep each other alive.
func TestKeepAliveOfIdleSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe.sessions(t, testConfig(), testConfig())
		time.Sleep(24 * time.Hour)
		if a.Err() != nil || b.Err() != nil {
			t.Error(a.Err(), b.Err())
		}
		if n := a.Stats().Pongs + a.Stats().Pings; n < 5000 || n > 12000 {
			t.Errorf("%d base messages in a day", n)
		}
	})
}

func TestNoKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pipe.session(t, &SessionConfig{Capabilities: testCaps, PingInterval: -1, ReadTimeout: -1})
		time.Sleep(24 * time.Hour)
		if s.Err() != nil {
			t.Error(s.Err())
		}
		go s.Close()
		p.wantFarewell(DiscQuitting)
	})
}

// One deadline holds for a frame, whatever trickles in of it.
func TestCase_D4_TrickledFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pipe.session(t, nil)
		start := time.Now()
		go discard(p.Conn)
		dribbled := make(chan struct{})
		go func() {
			defer close(dribbled)
			p.Dribble(p.Egress.Seal(rlpxtest.Data(0x10, make([]byte, 1000))), func(int) { time.Sleep(DefaultReadTimeout / 4) })
		}()
		wantDone(t, s, ErrReadTimeout)
		if took := time.Since(start); took < DefaultReadTimeout || took > DefaultReadTimeout+disconnectTimeout {
			t.Errorf("took %v", took)
		}
		<-dribbled
	})
}

func TestPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pipe.session(t, nil)
		ping := func(ctx context.Context) <-chan any {
			result := make(chan any, 1)
			go func() {
				if took, err := s.Ping(ctx); err != nil {
					result <- err
				} else {
					result <- took
				}
			}()
			return result
		}
		want := func(result <-chan any, want any) {
			t.Helper()
			got := <-result
			if wantErr, ok := want.(error); ok {
				if gotErr, ok := got.(error); ok && errors.Is(gotErr, wantErr) {
					return
				}
			}
			if got != want {
				t.Fatalf("got %v, want %v", got, want)
			}
		}

		// Several at once take turns: there is one on the wire at a time.
		first, second := ping(t.Context()), ping(t.Context())
		for range 2 {
			p.want(PingCode, []byte{0xc0})
			time.Sleep(time.Second)
			p.send(PongCode, nil)
		}
		want(first, time.Second)
		want(second, time.Second)

		// One that its caller gave up does not spoil the next.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		given := ping(ctx)
		p.want(PingCode, []byte{0xc0})
		want(given, context.DeadlineExceeded)
		next := ping(t.Context())
		time.Sleep(time.Second)
		p.send(PongCode, nil) // for the first
		p.want(PingCode, []byte{0xc0})
		time.Sleep(3 * time.Second)
		p.send(PongCode, nil)
		want(next, 3*time.Second)

		// Nor does a keep-alive.
		p.want(PingCode, []byte{0xc0})
		next = ping(t.Context())
		time.Sleep(time.Second)
		p.send(PongCode, nil)
		p.want(PingCode, []byte{0xc0})
		time.Sleep(2 * time.Second)
		p.send(PongCode, nil)
		want(next, 2*time.Second)

		// A peer that is late gets keep-alives meanwhile; the time is that of the first.
		next = ping(t.Context())
		p.want(PingCode, []byte{0xc0})
		p.want(PingCode, []byte{0xc0})
		time.Sleep(time.Second)
		p.send(PongCode, nil)
		want(next, DefaultPingInterval+time.Second)
		p.send(PongCode, nil)
		synctest.Wait() // for the session to have it

		// A Ping that is never answered does not block others for ever.
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		given = ping(ctx)
		p.want(PingCode, []byte{0xc0})
		want(given, context.DeadlineExceeded)
		next = ping(t.Context())
		go func() {
			for range 20 {
				time.Sleep(time.Second)
				p.send(0x05, nil)
			}
		}()
		p.want(PingCode, []byte{0xc0})
		p.send(PongCode, nil)
		want(next, time.Duration(0))
		time.Sleep(20 * time.Second)
		p.want(PingCode, []byte{0xc0})
		p.send(PongCode, nil)

		// Contexts that are done, and the end of the session.
		done, cancel := context.WithCancel(t.Context())
		cancel()
		blocked := ping(t.Context())
		p.want(PingCode, []byte{0xc0})
		want(ping(done), context.Canceled)
		queued := ping(t.Context())
		synctest.Wait()
		go s.Close()
		p.rest()
		for _, result := range []<-chan any{blocked, queued, ping(t.Context())} {
			if err, ok := (<-result).(error); !ok || !errors.Is(err, DiscQuitting) {
				t.Errorf("got %v", err)
			}
		}
	})
}

// The reader's wait for room in a queue is not the peer's silence.
func TestStallIsNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pipe.session(t, &SessionConfig{Capabilities: testCaps, QueueMessages: 1, StallTimeout: time.Hour})
		go discard(p.Conn)
		p.send(0x10, []byte("queued"))
		p.send(0x10, []byte("stalls"))
		time.Sleep(30 * time.Minute)
		for _, want := range []string{"queued", "stalls"} {
			_, data, err := s.Capability("aaa").Read(t.Context())
			if err != nil || string(data) != want {
				t.Fatalf("got %q, %v", data, err)
			}
		}
		time.Sleep(DefaultReadTimeout - time.Second)
		if err := s.Err(); err != nil {
			t.Error(err)
		}
		p.Conn.Close()
		wantDone(t, s, io.EOF)
	})
}
