package decode

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/rlp"
	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capture"
	ct "github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capturetest"
	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/keylog"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// script is a session whose handshake was done by package rlpx, and whose frames are made by hand.
type script struct {
	t      *testing.T
	inner  *ct.Session
	keyLog string
	keys   *keylog.Session
	egress [2]*rlpxtest.Direction
	chunks []ct.Chunk // so far; the first two are auth and ack
}

func newScript(t *testing.T) *script {
	t.Helper()
	s := &script{t: t, inner: ct.NewSession(t)}
	s.chunks = s.inner.Take()
	if len(s.chunks) != 2 || !s.chunks[0].FromClient || s.chunks[1].FromClient {
		t.Fatalf("the handshake has %d packets", len(s.chunks))
	}
	s.keyLog = s.inner.KeyLog.String()
	log, err := keylog.Read(strings.NewReader(s.keyLog))
	if err != nil {
		t.Fatal(err)
	}
	s.keys = log.Find([32]byte(s.chunks[0].Data[3:35]))
	seed := func(nonce [32]byte, packet []byte) *rlpxtest.Direction {
		b := make([]byte, 32)
		for i := range b {
			b[i] = s.keys.MAC[i] ^ nonce[i]
		}
		return rlpxtest.NewDirection(s.keys.AES[:], s.keys.MAC[:], rlpxtest.Keccak(append(b, packet...)))
	}
	s.egress = [2]*rlpxtest.Direction{
		seed(s.keys.RecipientNonce, s.chunks[0].Data),
		seed(s.keys.InitiatorNonce, s.chunks[1].Data),
	}
	return s
}

// bytes adds something that a side sends.
func (s *script) bytes(fromClient bool, b []byte) {
	s.chunks = append(s.chunks, ct.Chunk{FromClient: fromClient, Data: b})
}

func (s *script) direction(fromClient bool) *rlpxtest.Direction {
	if fromClient {
		return s.egress[0]
	}
	return s.egress[1]
}

// frame adds a frame.
func (s *script) frame(fromClient bool, data ...byte) {
	s.bytes(fromClient, s.direction(fromClient).Seal(data))
}

// message adds a message with a payload as it travels.
func (s *script) message(fromClient bool, code uint64, payload ...byte) {
	s.frame(fromClient, append(rlp.AppendUint64(nil, code), payload...)...)
}

// packed adds a message with a compressed payload.
func (s *script) packed(fromClient bool, code uint64, payload ...byte) {
	s.message(fromClient, code, snappy.Encode(nil, payload)...)
}

func (s *script) hello(fromClient bool, version uint64, caps ...p2p.Cap) {
	s.message(fromClient, p2p.HelloCode, s.inner.Hello(fromClient, version, caps...)...)
}

var (
	eth68  = p2p.Cap{Name: "eth", Version: 68}
	eth69  = p2p.Cap{Name: "eth", Version: 69}
	snap1  = p2p.Cap{Name: "snap", Version: 1}
	odd    = p2p.Cap{Name: "odd", Version: 1}
	known  = p2p.Capabilities{{Cap: eth68, Length: 17}, {Cap: eth69, Length: 18}, {Cap: snap1, Length: 8}}
	client = netip.MustParseAddrPort("192.0.2.1:40000")
	server = netip.MustParseAddrPort("192.0.2.2:30303")
)

// greet adds two Hellos of version 5.
func (s *script) greet(caps ...p2p.Cap) {
	s.hello(true, 5, caps...)
	s.hello(false, 5, caps...)
}

// events is a Sink that keeps what it gets, as text.
type events struct {
	lines    []string
	notes    []*Note
	messages []*Message
}

func dir(d capture.Direction) string { return [...]string{"->", "<-"}[d] }

func (e *events) add(format string, args ...any) {
	e.lines = append(e.lines, fmt.Sprintf(format, args...))
}

func (e *events) Session(s *Session, _ capture.Point) {
	e.add("session %d %v -> %v line %d", s.Number, s.Initiator, s.Recipient, s.Keys.Line)
}

func (e *events) Packet(s *Session, d capture.Direction, _ int, _ capture.Point) {
	e.add("%d %s packet", s.Number, dir(d))
}

func (e *events) Message(m *Message) {
	kept := *m
	kept.Payload = bytes.Clone(m.Payload)
	e.messages = append(e.messages, &kept)
	text := fmt.Sprintf("%d %s %v %#x %s", m.Session.Number, dir(m.Direction), m.Cap, m.ID, m.Name)
	switch {
	case m.Hello != nil:
		text += " " + m.Hello.Name
	case m.Cap.Name == "p2p" && m.Code == p2p.DisconnectCode:
		text += " " + m.Disconnect.String()
	}
	text += fmt.Sprintf(" %d/%d", m.Plain, m.Wire)
	if m.Problem != "" {
		text += " !! " + m.Problem
	}
	e.add("%s", text)
}

func (e *events) Note(n *Note) {
	kept := *n
	e.notes = append(e.notes, &kept)
	e.add("note %s: %s", n.Kind, n.Text)
}

func (e *events) End(s *Session, how capture.Ending, _ capture.Point) {
	e.add("end %d: %v", s.Number, how)
}

// wantLines checks the events between the handshake and the end.
func (e *events) wantLines(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(e.lines, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(e.lines, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// play gives the chunks to a decoder, cut into pieces of so many bytes; 0: not cut.
func (s *script) play(size int) (*events, *Decoder) {
	return play(s.t, s.keyLog, size, s.chunks)
}

func play(t *testing.T, keyLog string, size int, chunks []ct.Chunk) (*events, *Decoder) {
	t.Helper()
	d, e, stream := open(t, keyLog)
	at := point(0)
	for _, c := range chunks {
		at = feed(stream, at, size, c)
	}
	stream.Close(capture.Closed, at)
	if d.held != 0 {
		t.Errorf("%d bytes are held after the end", d.held)
	}
	return e, d
}

func point(n int) capture.Point {
	return capture.Point{Packet: n, Time: time.Unix(1000, 0).Add(time.Duration(n) * time.Millisecond)}
}

func open(t *testing.T, keyLog string) (*Decoder, *events, capture.Stream) {
	t.Helper()
	log, err := keylog.Read(strings.NewReader(keyLog))
	if err != nil {
		t.Fatal(err)
	}
	e := new(events)
	d := New(log, known, e)
	return d, e, d.Open(&capture.Conn{Client: client, Server: server, FromStart: true, Start: point(1)})
}

func feed(stream capture.Stream, at capture.Point, size int, c ct.Chunk) capture.Point {
	d := capture.FromServer
	if c.FromClient {
		d = capture.FromClient
	}
	if size == 0 {
		size = len(c.Data)
	}
	for part := range slices.Chunk(c.Data, max(size, 1)) {
		at = point(at.Packet + 1)
		if !stream.Done() {
			stream.Data(d, part, at)
		}
	}
	return at
}

// opening are the events of a handshake.
var opening = []string{"session 1 192.0.2.1:40000 -> 192.0.2.2:30303 line 1", "1 -> packet", "1 <- packet"}

// inSession puts lines between a handshake and the end.
func inSession(lines ...string) []string {
	return append(append(slices.Clone(opening), lines...), "end 1: closed")
}
