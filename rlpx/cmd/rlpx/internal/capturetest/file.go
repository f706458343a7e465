package capturetest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// Network is a kind of network to capture on.
type Network string

const (
	Ethernet Network = "ethernet"
	VLAN     Network = "vlan"
	Loopback Network = "loopback"
	Raw      Network = "raw"
	Cooked   Network = "cooked"  // Linux
	Cooked2  Network = "cooked2" // Linux, version 2
)

// Networks are all of them.
var Networks = []Network{Ethernet, VLAN, Loopback, Raw, Cooked, Cooked2}

// LinkType returns the link type of the network.
func (n Network) LinkType() layers.LinkType {
	return map[Network]layers.LinkType{
		Ethernet: layers.LinkTypeEthernet,
		VLAN:     layers.LinkTypeEthernet,
		Loopback: layers.LinkTypeNull,
		Raw:      layers.LinkTypeRaw,
		Cooked:   layers.LinkTypeLinuxSLL,
		Cooked2:  layers.LinkTypeLinuxSLL2,
	}[n]
}

// Header returns what comes before the IP packet.
func (n Network) Header(v6 bool) []byte {
	etherType := []byte{0x08, 0x00}
	family := byte(2)
	if v6 {
		etherType = []byte{0x86, 0xdd}
		family = 30
	}
	switch n {
	case Ethernet:
		return append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}, etherType...)
	case VLAN:
		return append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0x00, 0x00, 0x05}, etherType...)
	case Loopback:
		return []byte{family, 0, 0, 0}
	case Cooked:
		return append([]byte{0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0}, etherType...)
	case Cooked2:
		return append(etherType, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0)
	default:
		return nil
	}
}

// Start is when captures begin. Packets follow each other by Step.
var Start = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)

// Step is the time between packets.
const Step = time.Millisecond

// Writer writes packets to a file.
type Writer struct {
	Now  time.Time // of the next packet
	Step time.Duration

	network Network
	pcap    *pcapgo.Writer
	ng      *pcapgo.NgWriter
	buf     gopacket.SerializeBuffer
}

// NewPcap begins a pcap file.
func NewPcap(w io.Writer, n Network) *Writer {
	pcap := pcapgo.NewWriterNanos(w)
	if err := pcap.WriteFileHeader(262144, n.LinkType()); err != nil {
		panic(err)
	}
	return &Writer{Now: Start, Step: Step, network: n, pcap: pcap, buf: gopacket.NewSerializeBuffer()}
}

// NewPcapng begins a pcapng file.
func NewPcapng(w io.Writer, n Network) *Writer {
	ng, err := pcapgo.NewNgWriter(w, n.LinkType())
	if err != nil {
		panic(err)
	}
	return &Writer{Now: Start, Step: Step, network: n, ng: ng, buf: gopacket.NewSerializeBuffer()}
}

// Flush writes what is buffered.
func (w *Writer) Flush() error {
	if w.ng != nil {
		return w.ng.Flush()
	}
	return nil
}

// Packet returns the bytes of a segment as they are on the network, valid until the next call.
func (w *Writer) Packet(s Segment) []byte {
	tcp := &layers.TCP{
		SrcPort: layers.TCPPort(s.Src.Port()), DstPort: layers.TCPPort(s.Dst.Port()),
		Seq: s.Seq, Ack: s.Ack, SYN: s.SYN, ACK: s.ACK, FIN: s.FIN, RST: s.RST, Window: 0xffff,
	}
	v6 := s.Src.Addr().Is6()
	var ip gopacket.SerializableLayer
	if src, dst := net.IP(s.Src.Addr().AsSlice()), net.IP(s.Dst.Addr().AsSlice()); v6 {
		ip = &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolTCP, SrcIP: src, DstIP: dst}
	} else {
		ip = &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolTCP, SrcIP: src, DstIP: dst}
	}
	err := gopacket.SerializeLayers(w.buf, gopacket.SerializeOptions{FixLengths: true},
		gopacket.Payload(w.network.Header(v6)), ip, tcp, gopacket.Payload(s.Payload))
	if err != nil {
		panic(fmt.Sprint("a segment cannot be made: ", err))
	}
	return w.buf.Bytes()
}

// Segment writes a segment.
func (w *Writer) Segment(s Segment) error {
	p := w.Packet(s)
	return w.Write(p[:len(p)-s.Cut], len(p))
}

// Write writes a packet, and how long it was on the network.
func (w *Writer) Write(packet []byte, length int) error {
	ci := gopacket.CaptureInfo{Timestamp: w.Now, CaptureLength: len(packet), Length: length}
	w.Now = w.Now.Add(w.Step)
	if w.ng != nil {
		return w.ng.WritePacket(ci, packet)
	}
	return w.pcap.WritePacket(ci, packet)
}

// Pcap returns a pcap file with the segments.
func Pcap(n Network, segments ...Segment) []byte { return file(NewPcap, n, segments) }

// Pcapng returns a pcapng file with the segments.
func Pcapng(n Network, segments ...Segment) []byte { return file(NewPcapng, n, segments) }

func file(begin func(io.Writer, Network) *Writer, n Network, segments []Segment) []byte {
	var b bytes.Buffer
	w := begin(&b, n)
	for _, s := range segments {
		if err := w.Segment(s); err != nil {
			panic(err)
		}
	}
	if err := w.Flush(); err != nil {
		panic(err)
	}
	return b.Bytes()
}
