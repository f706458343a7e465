package command

import (
	"bufio"
	"fmt"
	"net/netip"
	"strings"

	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capture"
	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/decode"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// textReport prints a line for each thing that is found.
type textReport struct {
	w     *bufio.Writer
	name  string
	abs   bool
	dump  dump
	first capture.Point
}

func (t *textReport) begin(first capture.Point) {
	if t.first.Packet > 0 {
		return
	}
	t.first = first
	at := "no time"
	if !first.Time.IsZero() {
		at = first.Time.UTC().Format("2006-01-02 15:04:05.000000 UTC")
	}
	fmt.Fprintf(t.w, "%s: first packet at %s\n", printable(t.name, maxMessage), at)
	fmt.Fprintf(t.w, "%15s %-8s %-8s %-4s %-34s %9s %9s\n", "time", "session", "of", "id", "message", "plain", "wire")
}

func (t *textReport) time(at capture.Point) string {
	if at.Time.IsZero() || !t.abs && t.first.Time.IsZero() {
		return "-"
	}
	if t.abs {
		return at.Time.UTC().Format("15:04:05.000000")
	}
	return fmt.Sprintf("%.6f", at.Time.Sub(t.first.Time).Seconds())
}

// line begins a line. The session's number is 0 where there is none.
func (t *textReport) line(at capture.Point, session int, arrow string) {
	number := ""
	if session > 0 {
		number = fmt.Sprintf("#%d", session)
	}
	fmt.Fprintf(t.w, "%15s %-5s %-2s ", t.time(at), number, arrow)
}

func arrow(d capture.Direction) string {
	if d == capture.FromClient {
		return "->"
	}
	return "<-"
}

func (t *textReport) Session(s *decode.Session, at capture.Point) {
	t.line(at, s.Number, "")
	fmt.Fprintf(t.w, "session %s, secrets of line %d\n", pair(s.Initiator, s.Recipient), s.Keys.Line)
}

func pair(from, to netip.AddrPort) string { return fmt.Sprintf("%s -> %s", from, to) }

func (t *textReport) Packet(s *decode.Session, d capture.Direction, size int, at capture.Point) {
	t.line(at, s.Number, arrow(d))
	fmt.Fprintf(t.w, "%-48s %9s %9d\n", packetName(d), "", size)
}

func packetName(d capture.Direction) string {
	if d == capture.FromClient {
		return "auth"
	}
	return "ack"
}

func (t *textReport) Message(m *decode.Message) {
	t.line(m.At, m.Session.Number, arrow(m.Direction))
	of, id, name := "?", "", m.Name
	if m.Cap.Name != "" {
		of, id = capName(m.Cap), fmt.Sprintf("0x%02x", m.ID)
	}
	if m.ID != m.Code || m.Cap.Name == "" {
		name = strings.TrimSpace(fmt.Sprintf("%s (code %#x)", name, m.Code))
	}
	fmt.Fprintf(t.w, "%-8s %-4s %-34s %9d %9d%s\n", of, id, name, m.Plain, m.Wire, t.details(m))
	t.dump.text(t.w, m.Payload)
	if m.Payload == nil && m.Problem == "" && t.dump.wanted() {
		fmt.Fprintf(t.w, "%24s(too many large messages at once: this one was not kept)\n", "")
	}
}

// capName is how a capability is listed. The base protocol has no version there.
func capName(c p2p.Cap) string {
	if c.Version == 0 && c.Name == "p2p" {
		return c.Name
	}
	return c.String()
}

// details is what a message says, where it is one that everybody speaks, and what is wrong with it.
func (t *textReport) details(m *decode.Message) string {
	var text string
	switch {
	case m.Hello != nil:
		text = "  " + m.Hello.String()
	case m.Name == "Disconnect" && m.Code == p2p.DisconnectCode:
		text = fmt.Sprintf("  %v%s", m.Disconnect, reasonCode(m.Disconnect))
	}
	if m.Problem != "" {
		text += "  !! " + cleaned(m.Problem)
	}
	return text
}

func (t *textReport) Note(n *decode.Note) {
	mark := "!!"
	if n.Kind == decode.Hint {
		mark = "--"
	}
	way := ""
	if n.OneWay {
		way = arrow(n.Direction)
	}
	if n.Session != nil {
		t.line(n.At, n.Session.Number, way)
		fmt.Fprintf(t.w, "%s %s\n", mark, n.Text)
		return
	}
	t.line(n.At, 0, way)
	fmt.Fprintf(t.w, "%s %s: %s\n", mark, pair(n.Initiator, n.Recipient), n.Text)
}

func (t *textReport) End(s *decode.Session, how capture.Ending, at capture.Point) {
	t.line(at, s.Number, "")
	fmt.Fprintf(t.w, "%v: -> %s of %s, <- %s of %s\n", how,
		plural(s.Messages[0], "message"), byteCount(s.Plain[0]), plural(s.Messages[1], "message"), byteCount(s.Plain[1]))
}

func (t *textReport) summary(s *summary) {
	fmt.Fprintf(t.w, "%s decoded: %s, %s plain, %s on the wire", plural(s.Sessions, "session"),
		plural(s.Messages, "message"), byteCount(s.Plain), byteCount(s.Wire))
	if s.Damaged > 0 {
		fmt.Fprintf(t.w, "; %d not to the end", s.Damaged)
	} else if s.Messages > 0 {
		fmt.Fprint(t.w, "; every MAC is right")
	}
	fmt.Fprintln(t.w)
	var rest []string
	add := func(n int, thing, more string) {
		if n > 0 {
			rest = append(rest, plural(n, thing)+more)
		}
	}
	add(s.NoKeys, "session", " without keys")
	add(s.Unfinished, "unfinished handshake", "")
	add(s.Undecidable, "connection", " with bytes lost before the end of a handshake")
	add(s.Middle, "connection", " from before the capture")
	add(s.Foreign, "connection", " of other protocols")
	add(s.Dropped, "payload", " not kept")
	add(s.Capture.Cut, "segment", " captured in part")
	add(s.Capture.Refused, "segment", " of connections beyond those that can be followed at once")
	add(s.Capture.Other, "packet", " without TCP")
	add(s.Capture.Tunneled, "packet", " within "+strings.Join(s.Capture.Tunnels, ", ")+", which is not looked into")
	add(s.Capture.Fragments, "IP fragment", "")
	add(s.Capture.Link, "packet", " of unsupported networks")
	if s.Capture.Unreadable > 0 {
		add(s.Capture.Unreadable, "packet", fmt.Sprintf(" unreadable (%s)", cleaned(s.Capture.FirstUnreadable.Error())))
	}
	if len(rest) > 0 {
		fmt.Fprintf(t.w, "not decoded: %s\n", strings.Join(rest, ", "))
	}
}

// maxDetail bounds a text within a line.
const maxDetail = 512

// cleaned is a text of the library without its prefixes, safe to print.
func cleaned(text string) string {
	return printable(strings.NewReplacer("rlpx: ", "", "p2p: ", "").Replace(text), maxDetail)
}
