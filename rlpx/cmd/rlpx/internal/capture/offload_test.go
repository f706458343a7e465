package capture

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	ct "github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capturetest"
)

// offloaded returns a segment as it is captured before the network card cuts it: with an IP length
// of 0, and longer than the field could say.
func offloaded(w *ct.Writer, n ct.Network, s ct.Segment) []byte {
	rest := s.Payload[min(len(s.Payload), 100):]
	s.Payload = s.Payload[:len(s.Payload)-len(rest)]
	p := append(bytes.Clone(w.Packet(s)), rest...)
	at := len(n.Header(s.Src.Addr().Is6())) + 2
	if s.Src.Addr().Is6() {
		at += 2
	}
	p[at], p[at+1] = 0, 0
	return p
}

var families = []struct {
	name           string
	client, server netip.AddrPort
}{{"IPv4", ct.Client4, ct.Server4}, {"IPv6", ct.Client6, ct.Server6}}

// A packet whose IP length is 0 is as long as what was captured of it.
func TestCase_N5_LengthZero(t *testing.T) {
	for _, family := range families {
		for _, mss := range []int{100, 1448, 60_000, 100_000} {
			for _, n := range ct.Networks {
				chunks := talk(newRand(uint64(mss)), 6, 150_000)
				tcp := ct.NewTCP(family.client, family.server)
				tcp.MSS = mss
				var file bytes.Buffer
				w := ct.NewPcap(&file, n)
				for _, s := range tcp.Conversation(chunks) {
					p := offloaded(w, n, s)
					w.Write(p, len(p))
				}
				rec, stats := mustRead(t, file.Bytes())
				if stats.Unreadable > 0 || stats.Cut > 0 {
					t.Errorf("%s, %s: %+v", family.name, n, stats)
				}
				if err := rec.only(t).want(chunks); err != nil {
					t.Errorf("%s, %s, segments of %d bytes: %v", family.name, n, mss, err)
				}
			}
		}
	}
}

// Without a length in its header, a packet that was captured in part is one all the same.
func TestCase_N5_LengthZeroCut(t *testing.T) {
	for _, family := range families {
		chunks := []ct.Chunk{{FromClient: true, Data: bytes.Repeat([]byte{1}, 500)}, {FromClient: false, Data: []byte("answer")}}
		var file bytes.Buffer
		w := ct.NewPcap(&file, ct.Raw)
		for _, s := range ct.NewTCP(family.client, family.server).Conversation(chunks) {
			p := offloaded(w, ct.Raw, s)
			w.Write(p[:min(len(p), 300)], len(p))
		}
		rec, stats := mustRead(t, file.Bytes())
		gaps := rec.only(t).gaps[FromClient]
		if stats.Cut != 1 || len(gaps) != 1 || !gaps[0].Snaplen || gaps[0].Offset == 0 {
			t.Errorf("%s: %+v, gaps %+v", family.name, stats, gaps)
		}
	}
}

// Options of a hop change nothing.
func TestCase_N5_LengthZeroHopByHop(t *testing.T) {
	chunks, _ := small()
	var file bytes.Buffer
	w := ct.NewPcap(&file, ct.Raw)
	for _, s := range ct.NewTCP(ct.Client6, ct.Server6).Conversation(chunks) {
		p := offloaded(w, ct.Raw, s)
		next := p[6]
		p[6] = 0
		p = slices.Insert(p, 40, next, 0, 1, 4, 0, 0, 0, 0) // and padding
		w.Write(p, len(p))
	}
	rec, stats := mustRead(t, file.Bytes())
	if err := rec.only(t).want(chunks); err != nil {
		t.Errorf("%v, %+v", err, stats)
	}
}

// What goes through a tunnel is not decoded, but the tunnel is named.
func TestCase_N5_Tunnels(t *testing.T) {
	udp := func(port uint16) []byte { return []byte{0x30, 0x39, byte(port >> 8), byte(port), 0, 8, 0, 0} }
	ip4 := func(protocol byte, payload []byte) []byte {
		total := 20 + len(payload)
		return append([]byte{0x45, 0, byte(total >> 8), byte(total), 0, 0, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2}, payload...)
	}
	ip6 := func(next byte, payload []byte) []byte {
		header := append([]byte{0x60, 0, 0, 0, 0, byte(len(payload)), next, 64}, make([]byte, 32)...)
		return append(header, payload...)
	}
	ether := func(kind uint16, payload []byte) []byte {
		return append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, byte(kind >> 8), byte(kind)}, payload...)
	}
	some := make([]byte, 40)
	for _, tc := range []struct {
		name   string
		packet []byte
	}{
		{"GRE", ether(0x0800, ip4(47, some))},
		{"GRE", ether(0x86dd, ip6(47, some))},
		{"GRE", ether(0x86dd, ip6(60, append([]byte{47, 0, 1, 4, 0, 0, 0, 0}, some...)))}, // behind options
		{"GRE", ether(0x86dd, ip6(0, append([]byte{47, 0, 1, 4, 0, 0, 0, 0}, some...)))},
		{"IPsec", ether(0x0800, ip4(50, some))},
		{"VXLAN", ether(0x0800, ip4(17, append(udp(4789), some...)))},
		{"VXLAN", ether(0x8100, append([]byte{0, 5, 8, 0}, ip4(17, append(udp(4789), some...))...))},
		{"WireGuard", ether(0x86dd, ip6(17, append(udp(51820), some...)))},
		{"PPPoE", ether(0x8864, some)},
		{"MPLS", ether(0x8847, some)},
		{"", ether(0x0800, ip4(17, append(udp(30303), some...)))},
		{"", ether(0x0800, ip4(1, some))},
		{"", ether(0x0806, some)},
		{"", ether(0x0800, ip4(17, nil))},
	} {
		var file bytes.Buffer
		w := ct.NewPcap(&file, ct.Ethernet)
		w.Write(tc.packet, len(tc.packet))
		w.Write(tc.packet, len(tc.packet))
		_, stats := mustRead(t, file.Bytes())
		if tc.name == "" {
			if stats.Tunneled != 0 || stats.Other != 2 {
				t.Errorf("%x: %+v", tc.packet, stats)
			}
		} else if stats.Tunneled != 2 || !slices.Equal(stats.Tunnels, []string{tc.name}) {
			t.Errorf("%s: %+v", tc.name, stats)
		}
	}
}
