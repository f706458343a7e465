package capture

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// ErrFormat reports a file that is neither pcap nor pcapng.
var ErrFormat = errors.New("neither a pcap nor a pcapng file")

// A CutError reports a capture that ends inside a packet.
type CutError struct {
	Packet int // counted from 1; 0: the header of the file
}

func (e *CutError) Error() string {
	if e.Packet == 0 {
		return "the capture is cut off in its first bytes"
	}
	return fmt.Sprintf("the capture is cut off in packet %d", e.Packet)
}

// Unwrap returns io.ErrUnexpectedEOF.
func (e *CutError) Unwrap() error { return io.ErrUnexpectedEOF }

// A PacketError reports what makes a capture unreadable from a packet on.
type PacketError struct {
	Packet int // counted from 1; 0: the header of the file
	Err    error
}

func (e *PacketError) Error() string {
	if e.Packet == 0 {
		return fmt.Sprintf("header of the capture: %v", e.Err)
	}
	return fmt.Sprintf("packet %d: %v", e.Packet, e.Err)
}

func (e *PacketError) Unwrap() error { return e.Err }

// source yields the packets of a file.
type source struct {
	quota   *quota
	pcap    *pcapgo.Reader   // exactly one of the two
	ng      *pcapgo.NgReader //
	packets int              // read
	content int64            // bytes of them
}

// The first four bytes of the formats, in either byte order: pcap with microseconds and with
// nanoseconds, and pcapng.
var (
	pcapMagics = [][]byte{{0xd4, 0xc3, 0xb2, 0xa1}, {0xa1, 0xb2, 0xc3, 0xd4}, {0x4d, 0x3c, 0xb2, 0xa1}, {0xa1, 0xb2, 0x3c, 0x4d}}
	ngMagic    = []byte{0x0a, 0x0d, 0x0d, 0x0a}
	gzipMagic  = []byte{0x1f, 0x8b}
)

func newSource(r io.Reader) (*source, error) {
	br := bufio.NewReaderSize(r, readSize)
	if magic, _ := br.Peek(len(gzipMagic)); bytes.Equal(magic, gzipMagic) {
		zr, err := gzip.NewReader(br)
		if err != nil {
			return nil, headerError(err)
		}
		// Here and not in pcapgo, so that the quota counts what comes out.
		br = bufio.NewReaderSize(zr, readSize)
	}
	s := &source{quota: &quota{r: br, left: maxBetween}}
	magic, err := br.Peek(4)
	switch {
	case err == io.EOF && len(magic) == 0:
		return nil, &PacketError{0, errors.New("the file is empty")}
	case err == io.EOF && isPrefix(magic):
		return nil, &CutError{}
	case err != nil && err != io.EOF:
		return nil, headerError(err)
	case bytes.Equal(magic, ngMagic):
		s.ng, err = pcapgo.NewNgReader(bufio.NewReaderSize(s.quota, readSize), pcapgo.NgReaderOptions{WantMixedLinkType: true})
	case len(magic) == 4 && isPrefix(magic):
		s.pcap, err = pcapgo.NewReader(bufio.NewReaderSize(s.quota, readSize))
	default:
		return nil, ErrFormat
	}
	if err != nil {
		return nil, headerError(err)
	}
	return s, nil
}

// isPrefix reports whether a format begins like that.
func isPrefix(magic []byte) bool {
	for _, m := range append(pcapMagics[:len(pcapMagics):len(pcapMagics)], ngMagic) {
		if bytes.HasPrefix(m, magic) {
			return true
		}
	}
	return false
}

func headerError(err error) error {
	if isCut(err) {
		return &CutError{}
	}
	return &PacketError{0, err}
}

func isCut(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// next returns the next packet, valid until the call after it, and the link type of where it was
// captured. The error is io.EOF where the capture ends as it should.
func (s *source) next() (data []byte, ci gopacket.CaptureInfo, link layers.LinkType, err error) {
	data, ci, link, err = s.read()
	switch {
	case err == io.EOF && s.pcap != nil && !ci.Timestamp.IsZero():
		return nil, ci, link, &CutError{s.packets + 1} // right after the header of a packet
	case err == io.EOF:
		return nil, ci, link, io.EOF
	case err != nil && isCut(err):
		return nil, ci, link, &CutError{s.packets + 1}
	case err != nil:
		return nil, ci, link, &PacketError{s.packets + 1, err}
	}
	s.packets++
	s.content += int64(len(data))
	s.quota.left = maxBetween
	if s.ng != nil {
		if n := s.ng.NInterfaces(); n > maxInterfaces {
			return nil, ci, link, &PacketError{s.packets, fmt.Errorf("there are %d interfaces, more than %d", n, maxInterfaces)}
		}
		if n := s.ng.NNames(); n > maxNames {
			return nil, ci, link, &PacketError{s.packets, fmt.Errorf("there are %d names of hosts, more than %d", n, maxNames)}
		}
		const blockOverhead = 128 // of a packet, with its options
		if s.quota.read-s.content-int64(s.packets)*blockOverhead > maxOther {
			return nil, ci, link, &PacketError{s.packets, fmt.Errorf("more than %d MiB before it are no packets", maxOther>>20)}
		}
	}
	return data, ci, link, nil
}

var errMalformed = errors.New("malformed")

// read reads a packet. Where int has 32 bits pcapgo panics at numbers of interfaces of 2^31 and
// more.
func (s *source) read() (data []byte, ci gopacket.CaptureInfo, link layers.LinkType, err error) {
	defer func() {
		if recover() != nil {
			err = errMalformed
		}
	}()
	if s.pcap != nil {
		data, ci, err = s.pcap.ZeroCopyReadPacketData()
		return data, ci, s.pcap.LinkType(), err
	}
	data, ci, err = s.ng.ZeroCopyReadPacketData()
	if len(ci.AncillaryData) > 0 {
		link, _ = ci.AncillaryData[0].(layers.LinkType)
	}
	return data, ci, link, err
}

// quota passes on so many bytes.
type quota struct {
	r    io.Reader
	left int
	read int64
}

var errQuota = fmt.Errorf("does not end within %d MiB", maxBetween>>20)

func (q *quota) Read(p []byte) (int, error) {
	if q.left == 0 {
		return 0, errQuota
	}
	n, err := q.r.Read(p[:min(len(p), q.left)])
	q.left -= n
	q.read += int64(n)
	return n, err
}
