package main

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-rlpx/transport/handshake"
	"github.com/go-rlpx/transport/rlpx"
)

// Results of a handshake. There are few, whatever peers do: a label must not take values that a
// peer chooses.
const (
	resultOK         = "ok"
	resultTimeout    = "timeout"     // the peer, or the way to it, was too slow
	resultHungUp     = "hung_up"     // the peer closed the connection
	resultEvicted    = "evicted"     // a listener had no room for one that stalled
	resultClosed     = "closed"      // on our side
	resultFailed     = "failed"      // what the peer sent is no handshake or not for our key, or VerifyPeer was against it
	resultUnaccepted = "not_allowed" // Config.Allow was against it
)

// handshakes are the metrics about handshakes.
type handshakes struct {
	total        *prometheus.CounterVec   // by role and result
	duration     *prometheus.HistogramVec // of those that succeeded, by role
	acceptErrors prometheus.Counter
}

func newHandshakes() *handshakes {
	return &handshakes{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "handshakes_total", Help: "Handshakes that have ended.",
		}, []string{"role", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "handshake_duration_seconds", Help: "How long handshakes took that succeeded.",
			// Half a millisecond is what the curve operations take; the default bound is 5 seconds.
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}, []string{"role"}),
		acceptErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "accept_errors_total", Help: "Errors after which a listener went on accepting.",
		}),
	}
}

func (h *handshakes) all() []prometheus.Collector {
	return []prometheus.Collector{h.total, h.duration, h.acceptErrors}
}

func (h *handshakes) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range h.all() {
		c.Describe(ch)
	}
}

func (h *handshakes) Collect(ch chan<- prometheus.Metric) {
	for _, c := range h.all() {
		c.Collect(ch)
	}
}

// Instrument returns a copy of cfg whose handshakes are counted, for Dial, Listen, Client and
// Server. What cfg has for Trace and OnError is still called.
func (c *Collector) Instrument(cfg *rlpx.Config) *rlpx.Config {
	cfg = cfg.Clone()
	trace := new(rlpx.Trace)
	if cfg.Trace != nil {
		*trace = *cfg.Trace
	}
	done := trace.HandshakeDone
	trace.HandshakeDone = func(conn *rlpx.Conn, took time.Duration, err error) {
		c.handshakes.done(conn, took, err)
		if done != nil {
			done(conn, took, err)
		}
	}
	cfg.Trace = trace
	onError := cfg.OnError
	cfg.OnError = func(addr net.Addr, err error) {
		c.handshakes.listenerError(err)
		if onError != nil {
			onError(addr, err)
		}
	}
	return cfg
}

func (h *handshakes) done(conn *rlpx.Conn, took time.Duration, err error) {
	role := handshake.RoleRecipient
	if conn.ConnectionState().Initiator {
		role = handshake.RoleInitiator
	}
	h.total.WithLabelValues(role, result(err)).Inc()
	if err == nil {
		h.duration.WithLabelValues(role).Observe(took.Seconds())
	}
}

// listenerError counts what no handshake's end says.
func (h *handshakes) listenerError(err error) {
	switch {
	case errors.Is(err, rlpx.ErrRefused):
		h.total.WithLabelValues(handshake.RoleRecipient, resultUnaccepted).Inc()
	case errors.Is(err, rlpx.ErrHandshake), errors.Is(err, net.ErrClosed):
		// Counted by done; or a connection that nobody was there to Accept.
	default:
		h.acceptErrors.Inc()
	}
}

func result(err error) string {
	var timeout net.Error
	switch {
	case err == nil:
		return resultOK
	case errors.Is(err, rlpx.ErrEvicted):
		return resultEvicted
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return resultTimeout
	case errors.Is(err, context.Canceled), errors.Is(err, net.ErrClosed):
		return resultClosed
	case errors.Is(err, handshake.ErrRemoteClosed):
		return resultHungUp
	default:
		return resultFailed
	}
}
