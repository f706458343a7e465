package capture

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	ct "github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capturetest"
)

// However segments are captured, as long as all bytes are there, the streams are what was sent.
func TestStreamsInOrder(t *testing.T) {
	for _, tc := range []struct {
		name   string
		mangle func(rng *rand.Rand, s []ct.Segment) []ct.Segment
	}{
		{"as sent", func(_ *rand.Rand, s []ct.Segment) []ct.Segment { return s }},
		{"reordered", func(rng *rand.Rand, s []ct.Segment) []ct.Segment {
			return append(s[:3:3], shuffle(rng, s[3:len(s)-3], 20)...)
		}},
		{"reordered, with the handshake", func(rng *rand.Rand, s []ct.Segment) []ct.Segment { return shuffle(rng, s[:len(s)-3], 3) }},
		{"reordered to the end", func(rng *rand.Rand, s []ct.Segment) []ct.Segment { return append(s[:3:3], shuffle(rng, s[3:], 10)...) }},
		{"each twice", func(_ *rand.Rand, s []ct.Segment) []ct.Segment {
			var out []ct.Segment
			for _, seg := range s {
				out = append(out, seg, seg)
			}
			return out
		}},
		{"repeated later", func(rng *rand.Rand, s []ct.Segment) []ct.Segment {
			data := s[3 : len(s)-3]
			var out []ct.Segment
			for i, seg := range data {
				out = append(out, seg)
				if rng.IntN(3) == 0 {
					out = append(out, data[rng.IntN(i+1)])
				}
			}
			return append(s[:3:3], append(out, s[len(s)-3:]...)...)
		}},
		{"cut up anew", func(rng *rand.Rand, s []ct.Segment) []ct.Segment {
			var out []ct.Segment
			for _, seg := range s {
				// Both halves, and something that overlaps both.
				if n := len(seg.Payload); n > 4 && rng.IntN(2) == 0 {
					at := 1 + rng.IntN(n-2)
					from := rng.IntN(at)
					out = append(out, part(seg, at, n), part(seg, from, at+1), part(seg, 0, at))
					continue
				}
				out = append(out, seg)
			}
			return out
		}},
		{"joined with what comes next", func(_ *rand.Rand, s []ct.Segment) []ct.Segment {
			var out []ct.Segment
			for i, seg := range s {
				out = append(out, seg)
				if i+1 < len(s) && s[i+1].Src == seg.Src && s[i+1].Seq == seg.Seq+uint32(len(seg.Payload)) && len(seg.Payload) > 0 {
					seg.Payload = slices.Concat(seg.Payload, s[i+1].Payload)
					out = append(out, seg)
				}
			}
			return out
		}},
		{"keep-alive", func(_ *rand.Rand, s []ct.Segment) []ct.Segment {
			probe := s[3]
			probe.Seq--
			probe.Payload = []byte{0}
			return slices.Insert(slices.Clone(s), 5, probe)
		}},
		{"SYN not captured", func(_ *rand.Rand, s []ct.Segment) []ct.Segment { return s[1:] }},
		{"SYN-ACK not captured", func(_ *rand.Rand, s []ct.Segment) []ct.Segment { return slices.Delete(slices.Clone(s), 1, 2) }},
		{"last ACK not captured", func(_ *rand.Rand, s []ct.Segment) []ct.Segment { return s[:len(s)-1] }},
		{"no end", func(_ *rand.Rand, s []ct.Segment) []ct.Segment { return s[:len(s)-3] }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for seed := range uint64(8) {
				rng := newRand(seed)
				chunks := append([]ct.Chunk{{FromClient: true, Data: []byte("begin")}}, talk(rng, 30, 4000)...)
				tcp := ct.NewTCP(ct.Client4, ct.Server4)
				tcp.MSS = 200 + rng.IntN(1200)
				segments := tc.mangle(rng, tcp.Conversation(chunks))
				rec, _ := mustRead(t, ct.Pcap(ct.Ethernet, segments...))
				c := rec.only(t)
				if err := c.want(chunks); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if c.Client != ct.Client4 || c.Server != ct.Server4 || !c.FromStart {
					t.Fatalf("seed %d: connection %+v", seed, c.Conn)
				}
			}
		})
	}
}

// part is bytes from to to of a segment.
func part(s ct.Segment, from, to int) ct.Segment {
	s.Seq += uint32(from)
	s.Payload = s.Payload[from:to]
	return s
}

func TestNetworks(t *testing.T) {
	chunks := talk(newRand(1), 20, 3000)
	for _, n := range ct.Networks {
		for _, ends := range [][2]netip.AddrPort{{ct.Client4, ct.Server4}, {ct.Client6, ct.Server6}, {ct.Server6, ct.Client6}} {
			for name, file := range map[string]func(ct.Network, ...ct.Segment) []byte{"pcap": ct.Pcap, "pcapng": ct.Pcapng} {
				rec, stats := mustRead(t, file(n, ct.NewTCP(ends[0], ends[1]).Conversation(chunks)...))
				c := rec.only(t)
				if err := c.want(chunks); err != nil || c.Client != ends[0] || c.how != Closed {
					t.Errorf("%s on %s, %v: %v, %+v, %v", name, n, ends, err, c.Conn, c.how)
				}
				if stats.Segments != stats.Packets || stats.Connections != 1 {
					t.Errorf("%s on %s: %+v", name, n, stats)
				}
				if !c.Start.Time.Equal(ct.Start) || c.Start.Packet != 1 {
					t.Errorf("%s on %s: start %+v", name, n, c.Start)
				}
			}
		}
	}
}

func TestConnectionsSideBySide(t *testing.T) {
	rng := newRand(3)
	var lists [][]ct.Segment
	want := map[netip.AddrPort][]ct.Chunk{}
	for i := range 40 {
		client := netip.AddrPortFrom(ct.Client4.Addr(), uint16(50000+i))
		want[client] = talk(rng, 20, 2000)
		lists = append(lists, ct.NewTCP(client, ct.Server4).Conversation(want[client]))
	}
	rec, _ := mustRead(t, ct.Pcap(ct.Raw, ct.Interleave(lists...)...))
	if len(rec.conns) != len(want) {
		t.Fatalf("%d connections", len(rec.conns))
	}
	for _, c := range rec.conns {
		if err := c.want(want[c.Client]); err != nil {
			t.Errorf("%v: %v", c.Client, err)
		}
	}
}

// Connections that follow each other on the same ports are told apart, however the first one ended.
func TestPortsUsedAgain(t *testing.T) {
	first, second := talk(newRand(4), 10, 2000), talk(newRand(5), 10, 2000)
	a := ct.NewTCP(ct.Client4, ct.Server4)
	whole := a.Conversation(first)
	r := ct.NewTCP(ct.Client4, ct.Server4)
	reset := append(r.Talk(first), r.Reset(false)...)
	b := ct.NewTCP(ct.Client4, ct.Server4)
	b.Advance(1 << 20)
	again := b.Conversation(second)
	for _, tc := range []struct {
		name   string
		before []ct.Segment
		how    Ending
	}{
		{"closed", whole, Closed},
		{"no FIN captured", whole[:len(whole)-3], Superseded},
		{"one FIN captured", whole[:len(whole)-2], Superseded},
		{"reset", reset, Reset},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec, _ := mustRead(t, ct.Pcap(ct.Ethernet, append(slices.Clone(tc.before), again...)...))
			if len(rec.conns) != 2 {
				t.Fatalf("%d connections", len(rec.conns))
			}
			if err := rec.conns[0].want(first); err != nil || rec.conns[0].how != tc.how {
				t.Errorf("first: %v, %v", err, rec.conns[0].how)
			}
			if err := rec.conns[1].want(second); err != nil {
				t.Errorf("second: %v", err)
			}
		})
	}
}

func TestReset(t *testing.T) {
	chunks := talk(newRand(6), 10, 2000)
	for _, fromClient := range []bool{true, false} {
		tcp := ct.NewTCP(ct.Client4, ct.Server4)
		rec, _ := mustRead(t, ct.Pcap(ct.Ethernet, append(tcp.Talk(chunks), tcp.Reset(fromClient)...)...))
		c := rec.only(t)
		if err := c.want(chunks); err != nil || c.how != Reset {
			t.Errorf("%v, %v", err, c.how)
		}
	}
}
