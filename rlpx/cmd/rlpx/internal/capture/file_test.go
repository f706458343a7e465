package capture

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gopacket/gopacket/layers"

	ct "github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capturetest"
)

func small() ([]ct.Chunk, []ct.Segment) {
	chunks := []ct.Chunk{{FromClient: true, Data: []byte("hello")}, {FromClient: false, Data: []byte("hello yourself")}}
	return chunks, ct.NewTCP(ct.Client4, ct.Server4).Conversation(chunks)
}

func zipped(b []byte) []byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(b)
	w.Close()
	return z.Bytes()
}

// bigEndian turns the headers of a pcap file around.
func bigEndian(file []byte) []byte {
	file = bytes.Clone(file)
	swap := func(at, n int) {
		for i := range n / 2 {
			file[at+i], file[at+n-1-i] = file[at+n-1-i], file[at+i]
		}
	}
	for _, f := range [][2]int{{0, 4}, {4, 2}, {6, 2}, {8, 4}, {12, 4}, {16, 4}, {20, 4}} {
		swap(f[0], f[1])
	}
	for at := 24; at < len(file); {
		n := int(binary.LittleEndian.Uint32(file[at+8:]))
		for i := range 4 {
			swap(at+4*i, 4)
		}
		at += 16 + n
	}
	return file
}

func TestFormats(t *testing.T) {
	chunks, segments := small()
	pcap, ng := ct.Pcap(ct.Ethernet, segments...), ct.Pcapng(ct.Ethernet, segments...)
	for name, file := range map[string][]byte{
		"pcap": pcap, "pcapng": ng, "pcap, gzip": zipped(pcap), "pcapng, gzip": zipped(ng),
		"pcap, big endian": bigEndian(pcap), "two sections": append(bytes.Clone(ng), ct.Pcapng(ct.Raw)...),
	} {
		for _, r := range []io.Reader{bytes.NewReader(file), iotest.OneByteReader(bytes.NewReader(file)), iotest.DataErrReader(bytes.NewReader(file))} {
			rec, stats, err := readFrom(r)
			if err != nil || stats.Packets != len(segments) {
				t.Errorf("%s: %v, %+v", name, err, stats)
				continue
			}
			if err := rec.only(t).want(chunks); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A capture may have no packets.
func TestNoPackets(t *testing.T) {
	for name, file := range map[string][]byte{"pcap": ct.Pcap(ct.Ethernet), "pcapng": ct.Pcapng(ct.Ethernet)} {
		if rec, stats, err := read(file); err != nil || stats.Packets != 0 || len(rec.conns) != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Wherever a file ends, what is before is there, and the error says in which packet it ends.
func TestCutAtEveryByte(t *testing.T) {
	_, segments := small()
	for name, whole := range map[string][]byte{"pcap": ct.Pcap(ct.Ethernet, segments...), "pcapng": ct.Pcapng(ct.Ethernet, segments...)} {
		cuts := 0
		for n := range len(whole) {
			_, stats, err := read(whole[:n])
			if err == nil {
				// Between two packets nothing shows that there was more.
				if stats.Packets == 0 && n < 24 {
					t.Errorf("%s, %d bytes: no error", name, n)
				}
				continue
			}
			cuts++
			cut, ok := errors.AsType[*CutError](err)
			if n == 0 {
				if !strings.Contains(err.Error(), "empty") {
					t.Errorf("%s, nothing: %v", name, err)
				}
				continue
			}
			if !ok || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%s, %d bytes: %v", name, n, err)
			}
			if cut.Packet != 0 && cut.Packet != stats.Packets+1 {
				t.Errorf("%s, %d bytes: %v after %d packets", name, n, err, stats.Packets)
			}
		}
		if between := len(whole) - cuts; between > len(segments)+3 {
			t.Errorf("%s: %d cuts pass for an end", name, between)
		}
	}
	z := zipped(ct.Pcap(ct.Ethernet, segments...))
	for n := 2; n < len(z); n++ {
		if _, _, err := read(z[:n]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("gzip, %d bytes: %v", n, err)
		}
	}
}

// block is a block of a pcapng file.
func block(kind uint32, body []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, kind)
	b = binary.LittleEndian.AppendUint32(b, uint32(12+len(body)))
	b = append(b, body...)
	return binary.LittleEndian.AppendUint32(b, uint32(12+len(body)))
}

func patched(b []byte, at int, v uint32) []byte {
	b = bytes.Clone(b)
	binary.LittleEndian.PutUint32(b[at:], v)
	return b
}

func TestMalformed(t *testing.T) {
	_, segments := small()
	pcap, ng := ct.Pcap(ct.Ethernet, segments...), ct.Pcapng(ct.Ethernet, segments...)
	empty := ct.Pcapng(ct.Ethernet)
	section := empty[:binary.LittleEndian.Uint32(empty[4:])]
	iface := block(1, []byte{1, 0, 0, 0, 0, 0, 4, 0})
	const firstPacket = 24
	for _, tc := range []struct {
		name string
		file []byte
		want string
	}{
		{"nothing", nil, "empty"},
		{"text", []byte("hello, this is no capture at all"), "neither a pcap nor a pcapng"},
		{"one byte", []byte("x"), "neither"},
		{"zeros", make([]byte, 4096), "neither"},
		{"gzip in gzip", zipped(zipped(pcap)), "neither"},
		{"gzip of nothing", zipped(nil), "empty"},
		{"gzip, damaged", append(zipped(pcap)[:40], make([]byte, 100)...), ""},
		{"pcap, version", patched(pcap, 4, 99), "version"},
		{"pcap, link type", patched(pcap, 20, 105), "link type 105"},
		{"pcap, packet of 4 GiB", patched(pcap, firstPacket+8, 0xffffffff), "packet 1"},
		{"pcap, packet of 4 GiB, length too", patched(patched(pcap, firstPacket+8, 0xfffffff0), firstPacket+12, 0xffffffff), "packet 1"},
		{"pcap, snaplen and packet of 4 GiB", patched(patched(patched(pcap, 16, 0xffffffff), firstPacket+8, 0x7fffffff), firstPacket+12, 0xffffffff), "packet 1"},
		{"pcap, longer than it was", patched(pcap, firstPacket+8, 100), "packet 1"},
		{"pcapng, byte order", patched(ng, 8, 0x01020304), "byte order"},
		{"pcapng, version", patched(ng, 12, 0x00000063), "ersion"},
		{"pcapng, section of 4 GiB", patched(ng, 4, 0xfffffff0), ""},
		{"pcapng, section of no bytes", patched(ng, 4, 0), ""},
		{"pcapng, packet without interface", append(bytes.Clone(section), block(6, make([]byte, 20))...), "packet 1"},
		{"pcapng, unknown interface", append(append(bytes.Clone(section), iface...), block(6, append([]byte{9}, make([]byte, 19)...))...), "packet 1"},
		{"pcapng, interface 2^31", append(append(bytes.Clone(section), iface...), block(6, append([]byte{0, 0, 0, 0x80}, make([]byte, 16)...))...), "packet 1"},
		{"pcapng, statistics of interface 2^31", append(append(bytes.Clone(section), iface...), block(5, append([]byte{0, 0, 0, 0x80}, make([]byte, 8)...))...), "packet 1"},
		{"pcapng, packet of 4 GiB", append(append(bytes.Clone(section), iface...), block(6, append(make([]byte, 12), bytes.Repeat([]byte{0xff}, 8)...))...), "packet 1"},
		{"pcapng, too many interfaces", bytes.Join([][]byte{section, bytes.Repeat(iface, maxInterfaces+1), block(6, make([]byte, 20))}, nil), "interfaces"},
		{"pcapng, no packet for long", append(append(bytes.Clone(section), iface...), bytes.Repeat(block(0x4242, make([]byte, 1<<16)), 80)...), "does not end"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := allocated()
			_, _, err := read(tc.file)
			if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(tc.want)) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error %v, want one with %q", err, tc.want)
			}
			if n := allocated() - before; n > 24<<20 {
				t.Errorf("%d bytes were allocated for a file of %d", n, len(tc.file))
			}
		})
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// Packets of a network that is not supported are counted, those of other networks in the same file
// decoded.
func TestMixedNetworks(t *testing.T) {
	chunks, segments := small()
	empty := ct.Pcapng(ct.Ethernet)
	section := empty[:binary.LittleEndian.Uint32(empty[4:])]
	var file bytes.Buffer
	file.Write(section)
	networks := []ct.Network{ct.Ethernet, ct.Raw, ct.Cooked}
	links := []layers.LinkType{layers.LinkTypeEthernet, layers.LinkTypeRaw, layers.LinkTypeLinuxSLL, layers.LinkTypeIEEE802_11}
	for _, l := range links {
		file.Write(block(1, []byte{byte(l), 0, 0, 0, 0, 0, 4, 0}))
	}
	packet := func(iface int, p []byte) {
		body := binary.LittleEndian.AppendUint32(nil, uint32(iface))
		body = append(body, make([]byte, 8)...)
		body = binary.LittleEndian.AppendUint32(body, uint32(len(p)))
		body = binary.LittleEndian.AppendUint32(body, uint32(len(p)))
		body = append(body, p...)
		file.Write(block(6, append(body, make([]byte, (4-len(p)%4)%4)...)))
	}
	for i, s := range segments {
		n := i % len(networks)
		packet(n, ct.NewPcap(io.Discard, networks[n]).Packet(s))
		packet(3, []byte("a beacon"))
	}
	rec, stats := mustRead(t, file.Bytes())
	if err := rec.only(t).want(chunks); err != nil {
		t.Error(err)
	}
	link, ok := errors.AsType[*LinkError](stats.FirstLink)
	if stats.Link != len(segments) || !ok || link.Type != int(layers.LinkTypeIEEE802_11) {
		t.Errorf("%+v", stats)
	}
}
