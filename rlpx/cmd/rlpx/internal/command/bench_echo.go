package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/measure"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// echoing is the rows of a peer's echo.
type echoing struct {
	*bench
	to      target
	timeout time.Duration
	dialed
	probe   measure.Echo
	results []echoed
}

// echoed is one row. The elements are those of the rounds.
type echoed struct {
	p50, p99 []time.Duration // of the round trips
	rate     []float64       // bytes a second, of one direction
}

// dial opens a session in which the peer echoes.
func (r *echoing) dial(ctx context.Context, cfg *rlpx.Config) (err error) {
	r.dialed, err = dial(ctx, r.to, cfg, &p2p.SessionConfig{
		Name:         clientName(),
		Capabilities: p2p.Capabilities{echoCap},
		// Nothing but echoes is expected, and how long for is our own concern.
		ReadTimeout: -1, WriteTimeout: -1,
	}, r.timeout)
	if useless, ok := errors.AsType[*p2p.UselessPeerError](err); ok {
		return fmt.Errorf("%s has no capability %s but %s: 'rlpx serve' has it", r.addr, echoCap.Cap, list(useless.Caps))
	}
	if errors.Is(err, &p2p.DisconnectError{Reason: p2p.DiscUselessPeer, Remote: true}) {
		return fmt.Errorf("%s has no capability %s: 'rlpx serve' has it", r.addr, echoCap.Cap)
	}
	if err != nil {
		return err
	}
	r.probe = measure.Echo{
		Channel: r.session.Capability(echoCap.Name),
		Payload: measure.NewPayload(slices.Max(r.sizes)),
		Timeout: r.timeout,
		Abort:   func() { _ = r.session.Close() },
	}
	r.results = make([]echoed, len(r.sizes))
	return nil
}

func (r *echoing) rows() (n, steps int) { return len(r.sizes), 2 }
func (r *echoing) done(row int) int     { return len(r.results[row].rate) }

func (r *echoing) title() string {
	hello := r.session.Remote()
	return fmt.Sprintf("%s, %s, p2p version %d, snappy %s\nconnected in %s, handshake in %s\n",
		r.addr, hello.PrintableName(), hello.Version, onOff(r.session.ConnectionState().Snappy),
		short(r.connect), short(r.handshake))
}

func (r *echoing) measure(ctx context.Context, row, _ int) (bytes int64, err error) {
	size := r.sizes[row]
	trips, err := r.probe.RoundTrips(ctx, size, r.each)
	var a measure.Amount
	if err == nil {
		bytes = int64(len(trips)) * int64(size)
		a, err = r.probe.Stream(ctx, size, r.each)
	}
	if err != nil {
		what := fmt.Sprintf("echo of %s from %s", sizeName(size), r.addr)
		switch {
		case errors.Is(err, measure.ErrNoEcho):
			return bytes, fmt.Errorf("%s: nothing came back within %v", what, r.timeout)
		case errors.Is(err, measure.ErrMismatch):
			return bytes, fmt.Errorf("%s: %w", what, err)
		}
		return bytes, inWords(what, r.timeout, err)
	}
	result := &r.results[row]
	result.p50 = append(result.p50, measure.Median(trips))
	result.p99 = append(result.p99, measure.Quantile(trips, 0.99))
	result.rate = append(result.rate, a.Rate())
	return bytes + a.Bytes, nil
}

func (r *echoing) table() table {
	t := table{
		head: []string{"message", "round trip p50", "p99", "throughput", "messages"},
		note: "Medians of the rounds. Throughput: in each direction, several messages under way.",
	}
	for i, size := range r.sizes {
		cells := []string{sizeName(size), "", "", "", ""}
		if result := &r.results[i]; len(result.rate) > 0 {
			rate := measure.Median(result.rate)
			cells = append(cells[:1], short(measure.Median(result.p50)), short(measure.Median(result.p99)),
				perSecond(rate), fmt.Sprintf("%.0f/s", rate/float64(size)))
		}
		t.rows = append(t.rows, cells)
	}
	return t
}

// echoedRecord is a row in JSON: medians of the rounds.
type echoedRecord struct {
	Peer   string `json:"peer"`
	Client string `json:"client"`
	Snappy bool   `json:"snappy"`
	Size   int    `json:"size"`
	Rounds int    `json:"rounds"`
	P50    int64  `json:"roundTripP50Nanoseconds"`
	P99    int64  `json:"roundTripP99Nanoseconds"`
	capacity
}

func (r *echoing) record(row int) any {
	result := &r.results[row]
	return echoedRecord{
		Peer: r.addr, Client: r.session.Remote().Name, Snappy: r.session.ConnectionState().Snappy,
		Size: r.sizes[row], Rounds: len(result.rate),
		P50: int64(measure.Median(result.p50)), P99: int64(measure.Median(result.p99)),
		capacity: newCapacity(result.rate, r.sizes[row]),
	}
}
