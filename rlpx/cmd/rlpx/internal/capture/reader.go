package capture

import (
	"io"
	"slices"
)

// Stats count what a Reader has seen.
type Stats struct {
	Packets     int   // all
	Bytes       int64 // of them, as captured
	Segments    int   // of TCP
	Other       int   // packets that are not TCP
	Tunneled    int   // packets within another protocol, which are not looked into
	Fragments   int   // packets that are parts of IP packets, which are not put together
	Unreadable  int   // packets that cannot be decoded
	Link        int   // packets from networks of a type that is not supported
	Cut         int   // segments of which only a part was captured
	Connections int   // that carry data
	Middle      int   // of these, those whose beginning is not there
	Refused     int   // segments of connections that were too many at once

	Tunnels         []string // the names of those protocols, each once
	FirstUnreadable error    // a *PacketError
	FirstLink       error    // a *PacketError with a *LinkError
}

// A Reader reads a capture.
type Reader struct {
	source *source
	links  *linkDecoder
	table  *table
	stats  Stats
	first  Point
}

// NewReader reads the header of a capture. Its errors are those of Next.
func NewReader(r io.Reader, h Handler) (*Reader, error) {
	src, err := newSource(r)
	if err != nil {
		return nil, err
	}
	if src.pcap != nil {
		if link := src.pcap.LinkType(); !supported(link) {
			return nil, &PacketError{0, &LinkError{int(link)}}
		}
	}
	rd := &Reader{source: src, links: newLinkDecoder()}
	rd.table = newTable(h, &rd.stats)
	return rd, nil
}

// Next reads one packet. The error is io.EOF at the end of the capture, *CutError where it ends too
// early, *PacketError where it is malformed, or the reader's. After an error, only Finish may be
// called.
func (r *Reader) Next() error {
	data, ci, link, err := r.source.next()
	if err != nil {
		return err
	}
	at := Point{Packet: r.source.packets, Time: ci.Timestamp}
	if r.first.Packet == 0 {
		r.first = at
	}
	r.stats.Packets++
	r.stats.Bytes += int64(len(data))
	seg, kind, err := r.links.decode(link, data)
	switch kind {
	case packetTCP:
		r.stats.Segments++
		// Without a length, what is missing shows only in how much of the packet was captured.
		seg.cut = seg.cut || seg.noLength && ci.CaptureLength < ci.Length
		r.table.take(&seg, ci, at)
	case packetTunnel:
		r.stats.Tunneled++
		if name := err.Error(); !slices.Contains(r.stats.Tunnels, name) {
			r.stats.Tunnels = append(r.stats.Tunnels, name)
		}
	case packetFragment:
		r.stats.Fragments++
	case packetUnreadable:
		if r.stats.Unreadable++; r.stats.FirstUnreadable == nil {
			r.stats.FirstUnreadable = &PacketError{at.Packet, err}
		}
	case packetLink:
		if r.stats.Link++; r.stats.FirstLink == nil {
			r.stats.FirstLink = &PacketError{at.Packet, err}
		}
	default:
		r.stats.Other++
	}
	return nil
}

// Finish ends all connections that are open, and must be the last call.
func (r *Reader) Finish() { r.table.finish() }

// Stats returns what was counted so far.
func (r *Reader) Stats() Stats { return r.stats }

// First returns the first packet. Its Packet is 0 before there was one.
func (r *Reader) First() Point { return r.first }
