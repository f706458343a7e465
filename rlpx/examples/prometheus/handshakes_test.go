package main

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/go-rlpx/transport/handshake"
	"github.com/go-rlpx/transport/rlpx"
)

// knockAt connects to l, says something and waits until l hangs up.
func knockAt(t *testing.T, l *rlpx.Listener, say string) {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Write([]byte(say))
	conn.Read(make([]byte, 1))
}

// eventually waits for what a goroutine of the listener does after it has hung up.
func eventually(ok func() bool) bool {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if ok() {
			return true
		}
	}
	return false
}

func TestHandshakeResults(t *testing.T) {
	const recipient, initiator = handshake.RoleRecipient, handshake.RoleInitiator
	for _, tc := range []struct {
		name         string
		cfg          rlpx.Config
		do           func(t *testing.T, l *rlpx.Listener, c *Collector, accepted <-chan struct{})
		role, result string
	}{
		{"garbage", rlpx.Config{}, func(t *testing.T, l *rlpx.Listener, _ *Collector, _ <-chan struct{}) {
			knockAt(t, l, "GET / HTTP/1.1\r\n")
		}, recipient, resultFailed},
		{"silence", rlpx.Config{HandshakeTimeout: time.Millisecond}, func(t *testing.T, l *rlpx.Listener, _ *Collector, _ <-chan struct{}) { knockAt(t, l, "") }, recipient, resultTimeout},
		{"not allowed", rlpx.Config{Allow: func(net.Addr) error { return errors.New("no") }},
			func(t *testing.T, l *rlpx.Listener, _ *Collector, _ <-chan struct{}) { knockAt(t, l, "") }, recipient, resultUnaccepted},
		{"hangs up", rlpx.Config{}, func(t *testing.T, l *rlpx.Listener, _ *Collector, _ <-chan struct{}) {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
		}, recipient, resultHungUp},
		{"evicted", rlpx.Config{MaxPending: 1}, func(t *testing.T, l *rlpx.Listener, c *Collector, _ <-chan struct{}) {
			for range 2 {
				conn, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
			}
			eventually(func() bool {
				return testutil.ToFloat64(c.handshakes.total.WithLabelValues(recipient, resultEvicted)) == 1
			})
		}, recipient, resultEvicted},
		{"listener closed", rlpx.Config{}, func(t *testing.T, l *rlpx.Listener, _ *Collector, accepted <-chan struct{}) {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			<-accepted
			l.Close()
		}, recipient, resultClosed},
		{"wrong key", rlpx.Config{}, func(t *testing.T, l *rlpx.Listener, c *Collector, _ <-chan struct{}) {
			_, err := rlpx.Dial(t.Context(), "tcp", l.Addr().String(), &newKey(t).PublicKey, c.Instrument(&rlpx.Config{Key: newKey(t)}))
			if !errors.Is(err, rlpx.ErrHandshake) {
				t.Error(err)
			}
		}, initiator, resultHungUp},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := NewCollector()
			cfg := tc.cfg
			cfg.Key = newKey(t)
			accepted := make(chan struct{}, 2) // as many as any of these has
			if cfg.Allow == nil {
				cfg.Allow = func(net.Addr) error {
					accepted <- struct{}{}
					return nil
				}
			}
			l, err := rlpx.Listen("tcp", "127.0.0.1:0", c.Instrument(&cfg))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			tc.do(t, l, c, accepted)
			if !eventually(func() bool { return testutil.ToFloat64(c.handshakes.total.WithLabelValues(tc.role, tc.result)) == 1 }) {
				t.Errorf("%s of the %s is not counted", tc.result, tc.role)
			}
		})
	}
}

// What happened to a handshake is told by one of its errors, whatever else is in the chain.
func TestResult(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{nil, resultOK},
		{errors.Join(context.Canceled, rlpx.ErrEvicted), resultEvicted},
		{errors.Join(handshake.ErrRemoteClosed, rlpx.ErrHandshake), resultHungUp},
		{&net.OpError{Op: "read", Err: errTimeout{}}, resultTimeout},
		{errors.Join(context.Canceled, net.ErrClosed), resultClosed},
		{handshake.ErrDecrypt, resultFailed},
	} {
		if got := result(tc.err); got != tc.want {
			t.Errorf("%v: %s, want %s", tc.err, got, tc.want)
		}
	}
}

type errTimeout struct{}

func (errTimeout) Error() string   { return "timeout" }
func (errTimeout) Timeout() bool   { return true }
func (errTimeout) Temporary() bool { return false }

// Durations are those of handshakes that succeeded, by role.
func TestHandshakeDurations(t *testing.T) {
	node := NewCollector()
	for range 3 {
		connect(t, node, node)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(node)
	metrics, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	roles := map[string]*dto.Histogram{}
	for _, family := range metrics {
		if family.GetName() == "rlpx_handshake_duration_seconds" {
			for _, m := range family.Metric {
				roles[m.Label[0].GetValue()] = m.Histogram
			}
		}
	}
	for _, role := range []string{handshake.RoleInitiator, handshake.RoleRecipient} {
		if h := roles[role]; h.GetSampleCount() != 3 || h.GetSampleSum() <= 0 {
			t.Errorf("%s: %v", role, h)
		}
	}
}

// A Config's own callbacks are called as well, and the Config is not changed.
func TestInstrumentKeepsCallbacks(t *testing.T) {
	var handshakes, frames, errs atomic.Int64
	cfg := &rlpx.Config{
		Key: newKey(t),
		Trace: &rlpx.Trace{
			HandshakeDone: func(*rlpx.Conn, time.Duration, error) { handshakes.Add(1) },
			FrameRead:     func(*rlpx.Conn, rlpx.TraceFrame) { frames.Add(1) },
		},
		OnError: func(net.Addr, error) { errs.Add(1) },
	}
	before := *cfg.Trace
	c := NewCollector()
	instrumented := c.Instrument(cfg)
	if instrumented == cfg || instrumented.Trace == cfg.Trace || cfg.Trace.FrameWritten != nil || before.FrameRead == nil {
		t.Error("the Config was changed")
	}
	l, err := rlpx.Listen("tcp", "127.0.0.1:0", instrumented)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	knockAt(t, l, "GET / HTTP/1.1\r\n")
	a, err := rlpx.Dial(t.Context(), "tcp", l.Addr().String(), &cfg.Key.PublicKey, &rlpx.Config{Key: newKey(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	carry(t, a, b, 2, 10)
	if !eventually(func() bool { return errs.Load() == 1 && handshakes.Load() == 2 && frames.Load() == 2 }) {
		t.Errorf("%d errors, %d handshakes, %d frames", errs.Load(), handshakes.Load(), frames.Load())
	}
	if n := testutil.ToFloat64(c.handshakes.acceptErrors); n != 0 {
		t.Errorf("%v accept errors", n)
	}
}

// failingListener fails once, in a way that lets a Listener go on.
type failingListener struct {
	net.Listener
	failed atomic.Bool
}

func (l *failingListener) Accept() (net.Conn, error) {
	if !l.failed.Swap(true) {
		return nil, errTemporary{}
	}
	return l.Listener.Accept()
}

type errTemporary struct{ errTimeout }

func (errTemporary) Temporary() bool { return true }

func TestAcceptErrors(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := NewCollector()
	l := rlpx.NewListener(&failingListener{Listener: inner}, c.Instrument(&rlpx.Config{Key: newKey(t)}))
	defer l.Close()
	if !eventually(func() bool { return testutil.ToFloat64(c.handshakes.acceptErrors) == 1 }) {
		t.Error("not counted")
	}
}
