package capture

import (
	"fmt"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// segment is a TCP segment as it was captured. It is valid until the next one is decoded.
type segment struct {
	src, dst netip.AddrPort
	tcp      *layers.TCP
	cut      bool // not all of it was captured
}

// What a packet is.
type packetKind int

const (
	packetTCP        packetKind = iota
	packetOther                 // no TCP
	packetFragment              // of an IP packet
	packetUnreadable            // malformed, or too little of it captured
	packetLink                  // from a kind of network that is not supported
)

// linkDecoder decodes packets down to TCP. Its layers are reused, for no allocation per packet.
type linkDecoder struct {
	eth      layers.Ethernet
	loopback layers.Loopback
	sll      layers.LinuxSLL
	sll2     layers.LinuxSLL2
	vlan     layers.Dot1Q
	ip4      layers.IPv4
	ip6      layers.IPv6
	ext      layers.IPv6ExtensionSkipper
	fragment layers.IPv6Fragment
	tcp      layers.TCP

	parsers map[gopacket.LayerType]*gopacket.DecodingLayerParser // by the first layer
	decoded []gopacket.LayerType
}

func newLinkDecoder() *linkDecoder {
	return &linkDecoder{parsers: map[gopacket.LayerType]*gopacket.DecodingLayerParser{}}
}

// Raw IP, as the operating systems and the file formats number it.
const (
	linkRawBSD     layers.LinkType = 12
	linkRawOpenBSD layers.LinkType = 14
)

// firstLayer returns the layer that packets of a link type begin with, or false.
func firstLayer(link layers.LinkType, data []byte) (gopacket.LayerType, bool) {
	switch link {
	case layers.LinkTypeEthernet:
		return layers.LayerTypeEthernet, true
	case layers.LinkTypeNull, layers.LinkTypeLoop:
		return layers.LayerTypeLoopback, true
	case layers.LinkTypeLinuxSLL:
		return layers.LayerTypeLinuxSLL, true
	case layers.LinkTypeLinuxSLL2:
		return layers.LayerTypeLinuxSLL2, true
	case layers.LinkTypeIPv4:
		return layers.LayerTypeIPv4, true
	case layers.LinkTypeIPv6:
		return layers.LayerTypeIPv6, true
	case layers.LinkTypeRaw, linkRawBSD, linkRawOpenBSD:
		if len(data) > 0 && data[0]>>4 == 6 {
			return layers.LayerTypeIPv6, true
		}
		return layers.LayerTypeIPv4, true
	default:
		return 0, false
	}
}

// LinkError reports a capture from a kind of network that is not supported.
type LinkError struct {
	Type int // as pcap numbers link types
}

func (e *LinkError) Error() string {
	return fmt.Sprintf("captured on a network of link type %d, which is not supported (Ethernet, loopback, raw IP and Linux cooked are)", e.Type)
}

func (d *linkDecoder) parser(first gopacket.LayerType) *gopacket.DecodingLayerParser {
	p := d.parsers[first]
	if p == nil {
		// The later ones win: fragments are not skipped.
		p = gopacket.NewDecodingLayerParser(first, &d.eth, &d.loopback, &d.sll, &d.sll2, &d.vlan, &d.ip4, &d.ip6, &d.ext, &d.fragment, &d.tcp)
		p.IgnoreUnsupported = true
		d.parsers[first] = p
	}
	return p
}

// decode decodes one packet.
func (d *linkDecoder) decode(link layers.LinkType, data []byte) (s segment, kind packetKind, err error) {
	first, ok := firstLayer(link, data)
	if !ok {
		return s, packetLink, &LinkError{int(link)}
	}
	p := d.parser(first)
	if err = p.DecodeLayers(data, &d.decoded); err != nil {
		return s, packetUnreadable, err
	}
	var src, dst []byte
	for _, layer := range d.decoded {
		switch layer {
		case layers.LayerTypeIPv4:
			src, dst = d.ip4.SrcIP, d.ip4.DstIP
			if d.ip4.Flags&layers.IPv4MoreFragments != 0 || d.ip4.FragOffset != 0 {
				return s, packetFragment, nil
			}
		case layers.LayerTypeIPv6:
			src, dst = d.ip6.SrcIP, d.ip6.DstIP
		case layers.LayerTypeIPv6Fragment:
			if d.fragment.FragmentOffset != 0 || d.fragment.MoreFragments {
				return s, packetFragment, nil
			}
		case layers.LayerTypeTCP:
			from, _ := netip.AddrFromSlice(src)
			to, _ := netip.AddrFromSlice(dst)
			return segment{
				src: netip.AddrPortFrom(from, uint16(d.tcp.SrcPort)),
				dst: netip.AddrPortFrom(to, uint16(d.tcp.DstPort)),
				tcp: &d.tcp,
				cut: p.Truncated,
			}, packetTCP, nil
		}
	}
	return s, packetOther, nil
}

func supported(link layers.LinkType) bool {
	_, ok := firstLayer(link, nil)
	return ok
}
