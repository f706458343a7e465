package command

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capture"
	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/decode"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// jsonReport prints one object a line. Its types are named by their field "type": session,
// handshake, message, note, end, summary.
type jsonReport struct {
	enc   *json.Encoder
	dump  dump
	first capture.Point
}

func newJSONReport(w io.Writer, d dump) *jsonReport {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return &jsonReport{enc: enc, dump: d}
}

// jsonHead is what all objects but the summary begin with.
type jsonHead struct {
	Type    string  `json:"type"`
	Packet  int     `json:"packet"`            // counted from 1
	Time    string  `json:"time,omitempty"`    // RFC 3339
	Elapsed float64 `json:"t"`                 // seconds since the first packet
	Session int     `json:"session,omitempty"` // its number, from 1
	From    string  `json:"from,omitempty"`    // initiator or recipient
}

func (j *jsonReport) head(kind string, at capture.Point, session int) jsonHead {
	h := jsonHead{Type: kind, Packet: at.Packet, Session: session}
	if !at.Time.IsZero() {
		h.Time = at.Time.UTC().Format(time.RFC3339Nano)
		if !j.first.Time.IsZero() {
			h.Elapsed = at.Time.Sub(j.first.Time).Seconds()
		}
	}
	return h
}

func (j *jsonReport) from(h jsonHead, d capture.Direction) jsonHead {
	h.From = "initiator"
	if d == capture.FromServer {
		h.From = "recipient"
	}
	return h
}

// print writes an object. Errors are those of the output, which keeps them.
func (j *jsonReport) print(v any) { _ = j.enc.Encode(v) }

func (j *jsonReport) begin(first capture.Point) { j.first = first }

func (j *jsonReport) Session(s *decode.Session, at capture.Point) {
	j.print(struct {
		jsonHead
		Initiator string `json:"initiator"`
		Recipient string `json:"recipient"`
		X         string `json:"x"`
		Line      int    `json:"keylog_line"`
	}{j.head("session", at, s.Number), s.Initiator.String(), s.Recipient.String(), hex.EncodeToString(s.Keys.X[:]), s.Keys.Line})
}

func (j *jsonReport) Packet(s *decode.Session, d capture.Direction, size int, at capture.Point) {
	j.print(struct {
		jsonHead
		Name string `json:"name"`
		Wire int    `json:"wire"`
	}{j.from(j.head("handshake", at, s.Number), d), packetName(d), size})
}

// jsonMessage is a message. Sizes are of the payload, but for Frame.
type jsonMessage struct {
	jsonHead
	Code       uint64          `json:"code"`
	Cap        string          `json:"cap,omitempty"`
	ID         *uint64         `json:"id,omitempty"` // within the capability
	Name       string          `json:"name,omitempty"`
	Plain      int             `json:"plain"`
	Wire       int             `json:"wire"`
	Frame      int             `json:"frame"`
	Snappy     bool            `json:"snappy"`
	Hello      *jsonHello      `json:"hello,omitempty"`
	Disconnect *jsonDisconnect `json:"disconnect,omitempty"`
	Problem    string          `json:"problem,omitempty"`
	Hex        *string         `json:"hex,omitempty"`
	RLP        []any           `json:"rlp,omitempty"` // values one after the other: strings in hexadecimal, lists as arrays
	Cut        bool            `json:"cut,omitempty"` // hex or rlp is not all
}

type jsonHello struct {
	Version    uint64   `json:"version"`
	Name       string   `json:"name"`
	Caps       []string `json:"caps"`
	ListenPort uint64   `json:"listen_port"`
	ID         string   `json:"id"`
}

type jsonDisconnect struct {
	Reason *uint16 `json:"reason,omitempty"` // missing if none was given
	Text   string  `json:"text"`
}

func (j *jsonReport) Message(m *decode.Message) {
	out := jsonMessage{
		jsonHead: j.from(j.head("message", m.At, m.Session.Number), m.Direction),
		Code:     m.Code,
		Name:     m.Name,
		Plain:    m.Plain,
		Wire:     m.Wire,
		Frame:    m.Frame,
		Snappy:   m.Snappy,
	}
	if m.Cap.Name != "" {
		out.Cap, out.ID = capName(m.Cap), &m.ID
	}
	if m.Problem != "" {
		out.Problem = cleaned(m.Problem)
	}
	if h := m.Hello; h != nil {
		out.Hello = &jsonHello{Version: h.Version, Name: h.PrintableName(), Caps: []string{}, ListenPort: h.ListenPort, ID: hex.EncodeToString(h.ID[:])}
		for _, c := range h.Caps {
			out.Hello.Caps = append(out.Hello.Caps, c.String())
		}
	}
	if m.Cap.Name == "p2p" && m.Code == p2p.DisconnectCode {
		out.Disconnect = &jsonDisconnect{Text: m.Disconnect.String()}
		if reason := uint16(m.Disconnect); m.Disconnect != p2p.DiscUnspecified {
			out.Disconnect.Reason = &reason
		}
	}
	if m.Payload != nil {
		j.dump.json(&out, m.Payload)
	}
	j.print(out)
}

func (j *jsonReport) Note(n *decode.Note) {
	session := 0
	if n.Session != nil {
		session = n.Session.Number
	}
	h := j.head("note", n.At, session)
	if n.OneWay {
		h = j.from(h, n.Direction)
	}
	j.print(struct {
		jsonHead
		Kind      decode.Kind `json:"kind"`
		Initiator string      `json:"initiator"`
		Recipient string      `json:"recipient"`
		Text      string      `json:"text"`
	}{h, n.Kind, n.Initiator.String(), n.Recipient.String(), n.Text})
}

func (j *jsonReport) End(s *decode.Session, how capture.Ending, at capture.Point) {
	type way struct {
		Messages int   `json:"messages"`
		Plain    int64 `json:"plain"`
		Wire     int64 `json:"wire"`
		Damaged  bool  `json:"damaged"`
	}
	j.print(struct {
		jsonHead
		How       string `json:"how"`
		Initiator way    `json:"from_initiator"`
		Recipient way    `json:"from_recipient"`
	}{j.head("end", at, s.Number), how.String(),
		way{s.Messages[0], s.Plain[0], s.Wire[0], s.Damaged[0]}, way{s.Messages[1], s.Plain[1], s.Wire[1], s.Damaged[1]}})
}

func (j *jsonReport) summary(s *summary) {
	unreadable := ""
	if s.Capture.FirstUnreadable != nil {
		unreadable = cleaned(s.Capture.FirstUnreadable.Error())
	}
	j.print(struct {
		Type        string `json:"type"`
		Packets     int    `json:"packets"`
		Sessions    int    `json:"sessions"`
		Damaged     int    `json:"damaged"`
		Messages    int    `json:"messages"`
		Plain       int64  `json:"plain"`
		Wire        int64  `json:"wire"`
		NoKeys      int    `json:"no_keys"`
		Unfinished  int    `json:"unfinished"`
		Undecidable int    `json:"undecidable"`
		Middle      int    `json:"middle"`
		Foreign     int    `json:"foreign"`
		Dropped     int    `json:"payloads_dropped"`
		Cut         int    `json:"segments_cut"`
		Refused     int    `json:"segments_refused"`
		Other       int    `json:"packets_other"`
		Tunneled    int    `json:"packets_tunneled"`
		Fragments   int    `json:"fragments"`
		Link        int    `json:"packets_of_unsupported_networks"`
		Unreadable  int    `json:"packets_unreadable"`
		First       string `json:"first_unreadable,omitempty"`
		Tunnels     string `json:"tunnels,omitempty"`
	}{"summary", s.Capture.Packets, s.Sessions, s.Damaged, s.Messages, s.Plain, s.Wire, s.NoKeys, s.Unfinished, s.Undecidable, s.Middle, s.Foreign,
		s.Dropped, s.Capture.Cut, s.Capture.Refused, s.Capture.Other, s.Capture.Tunneled, s.Capture.Fragments, s.Capture.Link, s.Capture.Unreadable, unreadable, strings.Join(s.Capture.Tunnels, ", ")})
}
