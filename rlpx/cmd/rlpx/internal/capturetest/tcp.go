package capturetest

import (
	"net/netip"
	"slices"
)

// Segment is a TCP segment.
type Segment struct {
	Src, Dst           netip.AddrPort
	Seq, Ack           uint32
	SYN, ACK, FIN, RST bool
	Payload            []byte
	Cut                int // bytes at its end that are not captured
}

// TCP makes the segments of a connection.
type TCP struct {
	Client, Server netip.AddrPort
	MSS            int // bytes of data in a segment; 0: 1448
	next           [2]uint32
}

// Addresses of tests.
var (
	Client4 = netip.MustParseAddrPort("192.0.2.1:40000")
	Server4 = netip.MustParseAddrPort("192.0.2.2:30303")
	Client6 = netip.MustParseAddrPort("[2001:db8::1]:40000")
	Server6 = netip.MustParseAddrPort("[2001:db8::2]:30303")
)

// NewTCP makes a connection. Its sequence numbers wrap around after some bytes.
func NewTCP(client, server netip.AddrPort) *TCP {
	return &TCP{Client: client, Server: server, next: [2]uint32{0xffffff00, 0xfffff000 + uint32(client.Port())}}
}

// Advance moves the sequence numbers of both sides. It is for before Open.
func (c *TCP) Advance(n uint32) {
	c.next[0] += n
	c.next[1] += n
}

func side(fromClient bool) int {
	if fromClient {
		return 0
	}
	return 1
}

func (c *TCP) segment(fromClient bool) Segment {
	i := side(fromClient)
	s := Segment{Src: c.Client, Dst: c.Server, Seq: c.next[i], Ack: c.next[1-i], ACK: true}
	if !fromClient {
		s.Src, s.Dst = s.Dst, s.Src
	}
	return s
}

// Open returns the three segments that open the connection.
func (c *TCP) Open() []Segment {
	syn := c.segment(true)
	syn.SYN, syn.ACK, syn.Ack = true, false, 0
	c.next[0]++
	synAck := c.segment(false)
	synAck.SYN = true
	c.next[1]++
	return []Segment{syn, synAck, c.segment(true)}
}

// Data returns the segments that carry data. They refer to it.
func (c *TCP) Data(fromClient bool, data []byte) []Segment {
	mss := c.MSS
	if mss == 0 {
		mss = 1448
	}
	var segments []Segment
	for part := range slices.Chunk(data, mss) {
		s := c.segment(fromClient)
		s.Payload = part
		c.next[side(fromClient)] += uint32(len(part))
		segments = append(segments, s)
	}
	return segments
}

// Close returns the segments that close the connection, the client first.
func (c *TCP) Close() []Segment {
	a := c.segment(true)
	a.FIN = true
	c.next[0]++
	b := c.segment(false)
	b.FIN = true
	c.next[1]++
	return []Segment{a, b, c.segment(true)}
}

// Reset returns the segment with which a side aborts the connection.
func (c *TCP) Reset(fromClient bool) []Segment {
	s := c.segment(fromClient)
	s.RST = true
	return []Segment{s}
}

// Chunk is what one side wrote at once.
type Chunk struct {
	FromClient bool
	Data       []byte
}

// Talk returns the segments of a connection that stays open.
func (c *TCP) Talk(chunks []Chunk) []Segment {
	segments := c.Open()
	for _, chunk := range chunks {
		segments = append(segments, c.Data(chunk.FromClient, chunk.Data)...)
	}
	return segments
}

// Conversation returns the segments of a whole connection.
func (c *TCP) Conversation(chunks []Chunk) []Segment { return append(c.Talk(chunks), c.Close()...) }

// Interleave takes a segment of each list in turn.
func Interleave(lists ...[]Segment) []Segment {
	var all []Segment
	for more := true; more; {
		more = false
		for i, l := range lists {
			if len(l) > 0 {
				all = append(all, l[0])
				lists[i] = l[1:]
				more = true
			}
		}
	}
	return all
}
