package main

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-rlpx/transport/rlpx"
)

const namespace = "rlpx"

// counters are the counters of a connection: one metric each, with a label for the direction.
var counters = []struct {
	desc          *prometheus.Desc
	read, written func(*rlpx.Stats) uint64
}{
	{counter("messages_total", "Messages."),
		func(s *rlpx.Stats) uint64 { return s.MessagesRead }, func(s *rlpx.Stats) uint64 { return s.MessagesWritten }},
	{counter("plain_bytes_total", "Message data before compression."),
		func(s *rlpx.Stats) uint64 { return s.PlainBytesRead }, func(s *rlpx.Stats) uint64 { return s.PlainBytesWritten }},
	{counter("data_bytes_total", "Message data as on the wire."),
		func(s *rlpx.Stats) uint64 { return s.DataBytesRead }, func(s *rlpx.Stats) uint64 { return s.DataBytesWritten }},
	{counter("wire_bytes_total", "Everything that went through the net.Conns after the handshakes."),
		func(s *rlpx.Stats) uint64 { return s.WireBytesRead }, func(s *rlpx.Stats) uint64 { return s.WireBytesWritten }},
	{counter("calls_total", "Calls on the net.Conns."),
		func(s *rlpx.Stats) uint64 { return s.ReadCalls }, func(s *rlpx.Stats) uint64 { return s.WriteCalls }},
	{counter("permutations_total", "Runs of the Keccak permutation for MACs."),
		func(s *rlpx.Stats) uint64 { return s.PermutationsRead }, func(s *rlpx.Stats) uint64 { return s.PermutationsWritten }},
	{counter("shared_pieces_total", "Pieces of frames that were hashed together with those of other connections."),
		func(s *rlpx.Stats) uint64 { return s.SharedPiecesRead }, func(s *rlpx.Stats) uint64 { return s.SharedPiecesWritten }},
	{counter("shared_lanes_total", "Lanes that were busy when shared pieces were hashed; divided by these, how many a piece shared."),
		func(s *rlpx.Stats) uint64 { return s.SharedLanesRead }, func(s *rlpx.Stats) uint64 { return s.SharedLanesWritten }},
}

func counter(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, []string{"direction"}, nil)
}

var connections = prometheus.NewDesc(prometheus.BuildFQName(namespace, "", "connections"), "Connections that are open.", nil, nil)

// totals are the sums of all counters, in their order.
type totals []struct{ read, written uint64 }

func newTotals() totals { return make(totals, len(counters)) }

func (t totals) add(s rlpx.Stats) {
	for i, c := range counters {
		t[i].read += c.read(&s)
		t[i].written += c.written(&s)
	}
}

// Collector publishes what the connections of a node count, and its handshakes. It is safe for
// concurrent use.
type Collector struct {
	handshakes *handshakes

	mu     sync.Mutex
	live   map[*rlpx.Conn]struct{}
	closed totals // of connections that are no longer tracked
}

// NewCollector returns the Collector of a node. To tell several nodes of a process apart, register
// each with prometheus.WrapRegistererWith.
func NewCollector() *Collector {
	return &Collector{handshakes: newHandshakes(), live: make(map[*rlpx.Conn]struct{}), closed: newTotals()}
}

// Track counts conn, whose handshake is done, until untrack is called. Call that when nothing runs
// on conn any more: what it counted by then stays in the totals, and what it counts later is lost.
func (c *Collector) Track(conn *rlpx.Conn) (untrack func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live[conn] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, ok := c.live[conn]; ok {
			delete(c.live, conn)
			c.closed.add(conn.ConnectionState().Stats)
		}
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, counter := range counters {
		ch <- counter.desc
	}
	ch <- connections
	c.handshakes.Describe(ch)
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	sums, open := c.sum()
	for i, counter := range counters {
		ch <- prometheus.MustNewConstMetric(counter.desc, prometheus.CounterValue, float64(sums[i].read), "read")
		ch <- prometheus.MustNewConstMetric(counter.desc, prometheus.CounterValue, float64(sums[i].written), "written")
	}
	ch <- prometheus.MustNewConstMetric(connections, prometheus.GaugeValue, float64(open))
	c.handshakes.Collect(ch)
}

// sum holds the lock while it asks, so that no connection is counted twice or not at all. Asking
// never waits for a connection.
func (c *Collector) sum() (sums totals, open int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sums = append(totals(nil), c.closed...)
	for conn := range c.live {
		sums.add(conn.ConnectionState().Stats)
	}
	return sums, len(c.live)
}
