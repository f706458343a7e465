package capture

import (
	"encoding/binary"
	"errors"
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
	noLength bool // the IP header does not say how long the packet is
}

// What a packet is.
type packetKind int

const (
	packetTCP        packetKind = iota
	packetOther                 // no TCP
	packetTunnel                // may have TCP in it, within another protocol
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
	ip6      ipv6
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

// ipv6 is layers.IPv6, but takes a length of 0 for that of what was captured. A network card that
// cuts packets into segments gets them so, and they are captured before it. IPv4 does the same by
// itself.
type ipv6 struct{ layers.IPv6 }

func (ip *ipv6) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	err := ip.IPv6.DecodeFromBytes(data, df)
	if err == nil || len(data) < 40 || ip.Length != 0 {
		return err
	}
	payload := data[40:]
	if ip.NextHeader == layers.IPProtocolIPv6HopByHop {
		// Either its option for long packets is damaged or it has none.
		if ip.HopByHop == nil || ip.HopByHop.ActualLength > len(payload) {
			return err
		}
		for _, option := range ip.HopByHop.Options {
			if option.OptionType == layers.IPv6HopByHopOptionJumbogram {
				return err
			}
		}
		payload = payload[ip.HopByHop.ActualLength:]
	}
	ip.Payload = payload
	return nil
}

// decode decodes one packet. If it is packetTunnel, the error names the tunnel.
func (d *linkDecoder) decode(link layers.LinkType, data []byte) (s segment, kind packetKind, err error) {
	first, ok := firstLayer(link, data)
	if !ok {
		return s, packetLink, &LinkError{int(link)}
	}
	p := d.parser(first)
	if err = p.DecodeLayers(data, &d.decoded); err != nil {
		return s, packetUnreadable, err
	}
	var src, dst, payload []byte
	var etherType layers.EthernetType
	var protocol layers.IPProtocol
	for _, layer := range d.decoded {
		switch layer {
		case layers.LayerTypeEthernet:
			etherType = d.eth.EthernetType
		case layers.LayerTypeDot1Q:
			etherType = d.vlan.Type
		case layers.LayerTypeLinuxSLL:
			etherType = d.sll.EthernetType
		case layers.LayerTypeLinuxSLL2:
			etherType = d.sll2.ProtocolType
		case layers.LayerTypeIPv4:
			src, dst = d.ip4.SrcIP, d.ip4.DstIP
			protocol, payload = d.ip4.Protocol, d.ip4.Payload
			s.noLength = binary.BigEndian.Uint16(d.ip4.Contents[2:]) == 0
			if d.ip4.Flags&layers.IPv4MoreFragments != 0 || d.ip4.FragOffset != 0 {
				return s, packetFragment, nil
			}
		case layers.LayerTypeIPv6:
			src, dst = d.ip6.SrcIP, d.ip6.DstIP
			protocol, payload = d.ip6.NextHeader, d.ip6.Payload
			if d.ip6.HopByHop != nil {
				protocol = d.ip6.HopByHop.NextHeader
			}
			s.noLength = d.ip6.Length == 0
		case layers.LayerTypeIPv6Routing, layers.LayerTypeIPv6Destination:
			protocol, payload = d.ext.NextHeader, d.ext.Payload
		case layers.LayerTypeIPv6Fragment:
			if d.fragment.FragmentOffset != 0 || d.fragment.MoreFragments {
				return s, packetFragment, nil
			}
		case layers.LayerTypeTCP:
			from, _ := netip.AddrFromSlice(src)
			to, _ := netip.AddrFromSlice(dst)
			return segment{
				src:      netip.AddrPortFrom(from, uint16(d.tcp.SrcPort)),
				dst:      netip.AddrPortFrom(to, uint16(d.tcp.DstPort)),
				tcp:      &d.tcp,
				cut:      p.Truncated,
				noLength: s.noLength,
			}, packetTCP, nil
		}
	}
	if name := tunnelOf(etherType, protocol, payload); name != "" {
		return s, packetTunnel, errors.New(name)
	}
	return s, packetOther, nil
}

func supported(link layers.LinkType) bool {
	_, ok := firstLayer(link, nil)
	return ok
}
