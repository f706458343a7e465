package capture

import (
	"encoding/binary"

	"github.com/gopacket/gopacket/layers"
)

// Ways to carry packets within others, by what says that it is one. They are not looked into, but
// named: TCP may be in them.
var (
	tunnelByEtherType = map[layers.EthernetType]string{
		layers.EthernetTypeMPLSUnicast:                 "MPLS",
		layers.EthernetTypeMPLSMulticast:               "MPLS",
		layers.EthernetTypePPP:                         "PPP",
		layers.EthernetTypePPPoESession:                "PPPoE",
		layers.EthernetTypeTransparentEthernetBridging: "Ethernet in Ethernet",
		layers.EthernetTypeERSPAN:                      "ERSPAN",
		0x88e5:                                         "MACsec",
		0x88e7:                                         "provider backbone bridging",
		0x894f:                                         "NSH",
	}
	tunnelByProtocol = map[layers.IPProtocol]string{
		layers.IPProtocolGRE:      "GRE",
		layers.IPProtocolESP:      "IPsec",
		layers.IPProtocolAH:       "IPsec",
		layers.IPProtocolEtherIP:  "EtherIP",
		layers.IPProtocolMPLSInIP: "MPLS",
		layers.IPProtocolIPIP:     "IP in IP",
		115:                       "L2TP",
	}
	// By port, either one of the two.
	tunnelByUDP = map[uint16]string{
		1194:  "OpenVPN",
		1701:  "L2TP",
		2152:  "GTP",
		3544:  "Teredo",
		4500:  "IPsec",
		4754:  "GRE",
		4789:  "VXLAN",
		6081:  "Geneve",
		6635:  "MPLS",
		8472:  "VXLAN",
		51820: "WireGuard",
	}
)

// tunnelOf names the tunnel that a packet without TCP goes through, or returns "". etherType and
// protocol are what follows the last header that was decoded, payload what is behind it.
func tunnelOf(etherType layers.EthernetType, protocol layers.IPProtocol, payload []byte) string {
	if name := tunnelByEtherType[etherType]; name != "" {
		return name
	}
	if protocol == layers.IPProtocolUDP && len(payload) >= 4 {
		if name := tunnelByUDP[binary.BigEndian.Uint16(payload[2:])]; name != "" {
			return name
		}
		return tunnelByUDP[binary.BigEndian.Uint16(payload)]
	}
	return tunnelByProtocol[protocol]
}
