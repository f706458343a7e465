package capture

import (
	"cmp"
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/reassembly"
)

// flowKey identifies the connections between two ports.
type flowKey struct{ ends [2]netip.AddrPort } // in order

// keyOf returns the key of a segment and which end sent it.
func keyOf(src, dst netip.AddrPort) (key flowKey, from int) {
	if src.Compare(dst) <= 0 {
		return flowKey{[2]netip.AddrPort{src, dst}}, 0
	}
	return flowKey{[2]netip.AddrPort{dst, src}}, 1
}

// table holds the connections that are followed. One that ended stays for a while.
type table struct {
	handler   Handler
	stats     *Stats
	conns     map[flowKey]*conn
	assembler *reassembly.Assembler
	creating  *conn // whose segment is being assembled
	serial    uint64

	waiting   int // segments of all connections that wait for a SYN
	pooled    int // connections that the reassembly has
	now       time.Time
	at        Point
	reset     layers.TCP // what forget gives to the reassembly
	lastSweep time.Time
	flushing  bool      // the reassembly is told to give up waiting
	late      []lateGap // what came out of that
}

// lateGap is a gap that was given up.
type lateGap struct {
	c       *conn
	from    int
	missing int
}

// segmentContext is what the reassembly passes through. Segments that wait keep theirs.
type segmentContext struct {
	ci   gopacket.CaptureInfo
	from int
	rst  bool
}

func (c *segmentContext) GetCaptureInfo() gopacket.CaptureInfo { return c.ci }

// New returns the Stream of a connection to the reassembly.
func (t *table) New(_, _ gopacket.Flow, _ *layers.TCP, _ reassembly.AssemblerContext) reassembly.Stream {
	if t.creating == nil {
		return nil
	}
	t.pooled++
	t.creating.pooled = true
	return t.creating
}

func newTable(h Handler, stats *Stats) *table {
	t := &table{handler: h, stats: stats, conns: map[flowKey]*conn{}}
	t.assembler = reassembly.NewAssembler(reassembly.NewStreamPool(t))
	t.assembler.MaxBufferedPagesPerConnection = maxPages
	t.assembler.MaxBufferedPagesTotal = maxPagesTotal
	return t
}

// take takes the next segment.
func (t *table) take(seg *segment, ci gopacket.CaptureInfo, at Point) {
	t.tick(at)
	if t.now.Sub(t.lastSweep) > sweepEvery {
		t.sweep()
	}
	key, from := keyOf(seg.src, seg.dst)
	c := t.find(key, from, seg.tcp)
	if c == nil {
		return
	}
	c.last, c.lastAt = t.now, at
	if seg.tcp.SYN {
		c.opened(from, seg.tcp)
		t.waiting -= c.waiting
		c.waiting = 0
	}
	if e, other := &c.ends[from], &c.ends[1-from]; c.client == from && !other.known && tcpAcks(seg.tcp, e.start) {
		other.start, other.known = seg.tcp.Ack, true
	}
	if c.client == unknown && !c.over && len(seg.tcp.Payload) > 0 {
		c.waiting++
		t.waiting++
		if c.waiting > maxWaiting || t.waiting > maxWaitingTotal {
			t.giveUpWaiting(c)
		}
	}
	c.ends[from].fin = c.ends[from].fin || seg.tcp.FIN
	if c.over || c.stream != nil && c.stream.Done() {
		t.ignore(c, seg.tcp)
		return
	}
	t.assemble(c, from, seg, ci)
}

// tick moves the clock on, which never goes back. However late a packet says that it is, that is no
// proof that much time has passed: clocks are set, and captures joined.
func (t *table) tick(at Point) {
	if t.at.Packet == 0 {
		t.now, t.lastSweep = at.Time, at.Time
	} else if step := at.Time.Sub(t.at.Time); step > 0 {
		t.now = t.now.Add(min(step, maxStep))
	}
	t.at = at
}

// tcpAcks reports whether a segment is the first after a SYN: what it acknowledges is the SYN of
// the other side.
func tcpAcks(tcp *layers.TCP, start uint32) bool { return tcp.ACK && !tcp.SYN && tcp.Seq == start }

// find returns the connection that a segment belongs to, or nil.
func (t *table) find(key flowKey, from int, tcp *layers.TCP) *conn {
	c := t.conns[key]
	first := tcp.SYN && !tcp.ACK
	if c != nil && first && c.follows(from, tcp.Seq) {
		t.waiting -= c.waiting
		c.waiting = 0
		c.close(Superseded)
		t.forget(c)
		c = nil
	}
	if c != nil {
		return c
	}
	if !tcp.SYN && len(tcp.Payload) == 0 {
		return nil // the rest of a connection
	}
	if len(t.conns) >= maxConnections && t.conns[key] == nil {
		// Looking for those that ended takes long.
		if t.stats.Refused%(maxConnections/4) == 0 {
			t.sweep()
		}
		if len(t.conns) >= maxConnections {
			t.stats.Refused++
			return nil
		}
	}
	c = newConn(t, key, t.at, from)
	c.ends[from].low = tcp.Seq
	t.conns[key] = c
	return c
}

// follows reports whether a SYN with that sequence number begins a connection after c.
func (c *conn) follows(from int, seq uint32) bool {
	e := &c.ends[from]
	switch {
	case e.hasISN:
		return e.isn != seq
	case c.over, c.offered && !c.info.FromStart:
		return true
	case c.firstSeen == from && c.client == unknown:
		return e.low-seq > maxBeforeSYN
	default:
		return e.known && seq+1 != e.start
	}
}

// giveUpWaiting declares that a connection began before the capture.
func (t *table) giveUpWaiting(c *conn) {
	t.waiting -= c.waiting
	c.waiting = 0
	c.offer()
	if !c.over {
		c.close(Closed)
		c.ended = false
	}
}

// ignore notes the end of a connection that is of no interest.
func (t *table) ignore(c *conn, tcp *layers.TCP) {
	t.forget(c)
	if tcp.RST {
		c.close(Reset)
	} else if c.ends[0].fin && c.ends[1].fin {
		c.close(Closed)
	}
}

func (t *table) assemble(c *conn, from int, seg *segment, ci gopacket.CaptureInfo) {
	tcp := seg.tcp
	if e := &c.ends[from]; seg.cut {
		t.stats.Cut++
		if !e.cut {
			e.cut, e.cutAt = true, tcp.Seq+uint32(len(tcp.Payload))
		}
		tcp.FIN = false // comes after what is missing
	}
	if !c.assembled {
		c.assembled, c.keyed = true, from
	}
	// Segments that wait keep it. Times never go back in it.
	ctx := &segmentContext{ci: gopacket.CaptureInfo{Timestamp: t.now, Length: ci.Length}, from: from, rst: tcp.RST}
	t.creating = c
	t.assembler.AssembleWithContext(c.flows[from], tcp, ctx)
	t.creating = nil
}

// forget makes the reassembly drop a connection, which else keeps it until both sides have sent a
// FIN or it is idle: its reset comes from both sides.
func (t *table) forget(c *conn) {
	for from := 0; c.pooled && from < len(c.ends); from++ {
		var header [tcpHeader]byte
		binary.BigEndian.PutUint16(header[0:], c.key.ends[from].Port())
		binary.BigEndian.PutUint16(header[2:], c.key.ends[1-from].Port())
		header[12] = tcpHeader / 4 << 4
		for range 2 { // what waits may come before the end
			if err := t.reset.DecodeFromBytes(header[:], gopacket.NilDecodeFeedback); err != nil {
				panic(err) // it is well formed
			}
			t.reset.RST = true
			c.forgotten = true
			t.assembler.AssembleWithContext(c.flows[from], &t.reset, &segmentContext{ci: gopacket.CaptureInfo{Timestamp: t.now}, from: from})
		}
	}
}

// flush makes the reassembly give up on what it has waited for since t.
func (t *table) flush(opt reassembly.FlushOptions) {
	t.flushing = true
	t.assembler.FlushWithOptions(opt)
	t.flushing = false
	slices.SortStableFunc(t.late, func(a, b lateGap) int { return cmp.Compare(a.c.serial, b.c.serial) })
	for _, l := range t.late {
		l.c.gap(l.from, l.missing)
	}
	clear(t.late)
	t.late = t.late[:0]
}

// sweep gives up on what does not come any more.
func (t *table) sweep() {
	t.lastSweep = t.now
	t.flush(reassembly.FlushOptions{T: t.now.Add(-lostAfter), TC: t.now.Add(-idleAfter)})
	var idle []*conn
	for key, c := range t.conns {
		silent := t.now.Sub(c.last)
		switch {
		case c.ended && silent > stragglerTime:
			t.forget(c)
			delete(t.conns, key)
		case silent > idleAfter:
			idle = append(idle, c)
			delete(t.conns, key)
		}
	}
	t.end(idle, Idle)
	for _, c := range idle {
		t.forget(c)
	}
}

// finish ends everything that is open.
func (t *table) finish() {
	t.flush(reassembly.FlushOptions{T: t.now.Add(idleAfter)})
	t.end(slices.Collect(maps.Values(t.conns)), StillOpen)
	clear(t.conns)
}

// end ends connections in the order in which they began.
func (t *table) end(conns []*conn, how Ending) {
	slices.SortFunc(conns, func(a, b *conn) int { return cmp.Compare(a.serial, b.serial) })
	for _, c := range conns {
		if c.waiting > 0 && !c.over {
			t.giveUpWaiting(c)
		}
		if c.ends[0].fin && c.ends[1].fin {
			c.close(Closed) // but for what was not captured of it
		}
		c.close(how)
	}
}
