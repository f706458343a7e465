package capture

import (
	"encoding/binary"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/reassembly"
)

// unknown stands for an end of a connection.
const unknown = -1

// conn is a connection. Its ends are numbered 0 and 1, as in its flowKey.
type conn struct {
	table  *table
	serial uint64 // connections are numbered as they begin
	key    flowKey
	flows  [2]gopacket.Flow // from end 0 and from end 1, unlike those of any other conn

	client  int // the end that opened it, or unknown
	info    Conn
	stream  Stream
	offered bool // to the Handler
	over    bool // Close was called, or the Handler did not want it
	ended   bool // only stragglers come
	last    time.Time
	lastAt  Point

	waiting   int // segments that came before a SYN
	firstSeen int // the end that sent the first segment
	keyed     int // the end that sent the first segment that the reassembly got
	assembled bool
	pooled    bool // the reassembly has it
	forgotten bool // and is made to drop it
	ends      [2]end
}

// end is what one end of a connection sends.
type end struct {
	isn     uint32 // sequence number of its SYN
	hasISN  bool
	start   uint32 // sequence number of its first byte, as its SYN or the other end says
	known   bool   // start is known
	low     uint32 // sequence number of the first segment that came, while no SYN was seen
	started bool   // the reassembly has begun
	gone    bool   // a gap came, nothing more is reported
	fin     bool   // it was seen
	got     uint64 // bytes reported

	sent bool   // it sent data
	high uint32 // sequence number after the last byte of it that was captured

	cut   bool   // a segment was captured in part, and the bytes that are missing did not come since
	cutAt uint32 // where they are missing
}

// flowType marks the flows that tell connections apart. They are never printed.
const flowType gopacket.EndpointType = 0x726c7078

func newConn(t *table, key flowKey, at Point, from int) *conn {
	t.serial++
	var a, b [9]byte
	binary.BigEndian.PutUint64(a[:], t.serial)
	b, b[8] = a, 1
	return &conn{
		table:     t,
		serial:    t.serial,
		key:       key,
		flows:     [2]gopacket.Flow{gopacket.NewFlow(flowType, a[:], b[:]), gopacket.NewFlow(flowType, b[:], a[:])},
		client:    unknown,
		firstSeen: from,
		info:      Conn{Start: at},
	}
}

// direction of what an end sends.
func (c *conn) direction(from int) Direction {
	if from == c.client {
		return FromClient
	}
	return FromServer
}

// opened notes a SYN. What was reported stands, whatever it says.
func (c *conn) opened(from int, tcp *layers.TCP) {
	e := &c.ends[from]
	e.isn, e.hasISN = tcp.Seq, true
	if e.got == 0 {
		e.start, e.known = tcp.Seq+1, true
	}
	client := from
	if tcp.ACK {
		client = 1 - from
		if other := &c.ends[client]; !other.known {
			other.start, other.known = tcp.Ack, true
		}
	}
	if !c.offered {
		c.client = client
	}
}

// offer gives the connection to the Handler, once.
func (c *conn) offer() {
	if c.offered {
		return
	}
	c.offered = true
	c.table.stats.Connections++
	if c.info.FromStart = c.client != unknown; !c.info.FromStart {
		c.table.stats.Middle++
		c.client = c.firstSeen
	}
	c.info.Client, c.info.Server = c.key.ends[c.client], c.key.ends[1-c.client]
	if c.stream = c.table.handler.Open(&c.info); c.stream == nil {
		c.over = true
	}
}

// close ends the connection.
func (c *conn) close(how Ending) {
	c.ended = true
	for i := range c.ends {
		c.missing(i)
	}
	if c.over {
		return
	}
	c.over = true
	if c.stream != nil {
		c.stream.Close(how, c.lastAt)
		c.stream = nil
	}
}

// missing reports what is still missing of an end when the connection ends.
func (c *conn) missing(from int) {
	e := &c.ends[from]
	if c.over || e.gone || !e.known {
		return
	}
	next := e.start + uint32(e.got)
	cut := e.cut && e.cutAt == next
	if !cut && (!e.sent || int32(e.high-next) <= 0) {
		return
	}
	if c.offer(); c.over {
		return
	}
	e.gone = true
	c.stream.Gap(c.direction(from), Gap{Offset: e.got, Snaplen: cut}, c.lastAt)
}

// The methods that follow are called by the reassembly.

// Accept decides about a segment before the reassembly looks at it.
func (c *conn) Accept(tcp *layers.TCP, _ gopacket.CaptureInfo, _ reassembly.TCPFlowDirection, next reassembly.Sequence, start *bool, ac reassembly.AssemblerContext) bool {
	if c.forgotten {
		*start = next < 0
		if next >= 0 {
			tcp.Seq = uint32(next) // elsewhere a reset does not count
		}
		return true
	}
	e := &c.ends[ac.(*segmentContext).from]
	if n := uint32(len(tcp.Payload)); n > 0 {
		end := tcp.Seq + n
		if tcp.SYN {
			end++
		}
		if !e.sent || int32(end-e.high) > 0 {
			e.sent, e.high = true, end
		}
	}
	if next < 0 && !tcp.SYN && e.known && tcp.Seq == e.start {
		*start = true // its SYN was not captured
	}
	e.started = e.started || *start
	return !c.over
}

// ReassembledSG takes data in order.
func (c *conn) ReassembledSG(sg reassembly.ScatterGather, ac reassembly.AssemblerContext) {
	dir, _, last, skip := sg.Info()
	from := c.keyed
	if dir == reassembly.TCPDirServerToClient {
		from = 1 - from
	}
	n, _ := sg.Lengths()
	switch e := &c.ends[from]; {
	case c.over || c.forgotten || e.gone:
	case c.table.flushing:
		// What waited for bytes that did not come. The order of connections is random here.
		c.table.late = append(c.table.late, lateGap{c, from, skip})
	case n > 0 && (!e.started || skip > 0):
		c.gap(from, skip)
	case n > 0:
		c.data(from, sg.Fetch(n))
	}
	if ctx, ok := ac.(*segmentContext); ok && last && ctx.rst && ctx.from == from {
		c.close(Reset)
	}
}

// gap reports that so many bytes do not come; -1: not known how many.
func (c *conn) gap(from, missing int) {
	e := &c.ends[from]
	if c.offer(); c.over || e.gone {
		return
	}
	e.gone = true
	c.stream.Gap(c.direction(from), Gap{Offset: e.got, Missing: max(missing, 0), Snaplen: e.cut}, c.table.at)
}

func (c *conn) data(from int, p []byte) {
	e := &c.ends[from]
	if c.offer(); c.over {
		return
	}
	e.got += uint64(len(p))
	if e.cut && int32(e.start+uint32(e.got)-e.cutAt) > 0 {
		e.cut = false // repeated in full
	}
	c.stream.Data(c.direction(from), p, c.table.at)
}

// ReassemblyComplete is called when both directions have ended.
func (c *conn) ReassemblyComplete(reassembly.AssemblerContext) bool {
	c.pooled = false
	c.table.pooled--
	if !c.table.flushing && !c.forgotten {
		c.close(Closed)
	}
	return true
}
