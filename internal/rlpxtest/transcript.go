package rlpxtest

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/crypto"
)

// A Transcript is a recorded session with a foreign peer: every byte that went through the net.Conn
// in either direction, and what our end needs to do it all again. A [Recorder] makes one,
// [Transcript.Format] and [ParseTranscript] turn it into text and back, [Transcript.Decode] opens
// it.
//
// The keys in it are made for the recording and guard nothing.
type Transcript struct {
	// The header: what a reader wants to know. Each is one line, none empty.
	Peer    string // implementation and version
	Date    string
	Command string // that records it again
	Story   string // what happens, in words

	Key    *ecdsa.PrivateKey // our static key
	Remote *ecdsa.PublicKey  // the peer's
	Role   Role              // ours
	Rand   []byte            // all that our end drew in the handshake

	// Cut says that the recording ends before the session does, or within a frame, of
	// which the beginning is left out.
	Cut bool

	Messages []Message // what Decode finds, in its order
	Chunks   []Chunk
}

// Role says who sends auth.
type Role string

// The roles.
const (
	Initiator Role = "initiator"
	Recipient Role = "recipient"
)

// Way is a direction, as we see it.
type Way byte

// The directions.
const (
	Out Way = '>' // what we sent
	In  Way = '<' // what the peer sent
)

// A Chunk is what went through the net.Conn in one call, or what is left of it after a cut.
type Chunk struct {
	Way  Way
	Data []byte
}

// A Message is what a transcript says about a message, short of its data.
type Message struct {
	Way    Way
	Code   uint64
	Size   int      // of the data, after decompression
	Wire   int      // of the payload on the wire, without the code
	Digest [16]byte // the first half of the SHA-256 of the data
	Words  string   // what Hello and Disconnect say, and the names of Ping and Pong
}

// String is the line of the message in a transcript.
func (m Message) String() string {
	line := fmt.Sprintf("%c %#x %d %d %x", m.Way, m.Code, m.Size, m.Wire, m.Digest)
	if m.Words != "" {
		line += " " + m.Words
	}
	return line
}

// Bytes returns all bytes of one direction.
func (t *Transcript) Bytes(way Way) []byte {
	var all []byte
	for _, chunk := range t.Chunks {
		if chunk.Way == way {
			all = append(all, chunk.Data...)
		}
	}
	return all
}

const (
	transcriptTitle  = "rlpx transcript 1"
	messagesTitle    = "messages:" // one a line: direction, code, data size, wire size, digest, words
	wireTitle        = "wire:"     // the chunks in hex; lines after the first of a chunk are indented
	transcriptColumn = 64          // bytes a line of hex

	// maxTranscript is far above what Recorder makes. It bounds what a damaged file can cost.
	maxTranscript = 4 << 20
)

// header lists the fields of the header in their order.
func (t *Transcript) header() []headerField {
	text := func(name string, value *string) headerField {
		return headerField{name, func() string { return *value }, func(s string) error {
			if s == "" {
				return errors.New("empty")
			}
			*value = s
			return nil
		}}
	}
	return []headerField{
		text("peer", &t.Peer), text("date", &t.Date), text("command", &t.Command), text("story", &t.Story),
		{"role", func() string { return string(t.Role) }, func(s string) error {
			if t.Role = Role(s); t.Role != Initiator && t.Role != Recipient {
				return fmt.Errorf("neither %s nor %s", Initiator, Recipient)
			}
			return nil
		}},
		{"end", func() string {
			if t.Cut {
				return endCut
			}
			return endWhole
		}, func(s string) error {
			if t.Cut = s == endCut; !t.Cut && s != endWhole {
				return fmt.Errorf("neither %q nor %q", endWhole, endCut)
			}
			return nil
		}},
		{"key", func() string { return hex.EncodeToString(crypto.FromECDSA(t.Key)) }, func(s string) (err error) {
			t.Key, err = crypto.HexToECDSA(s)
			return err
		}},
		{"remote", func() string { return hex.EncodeToString(crypto.FromECDSAPub(t.Remote)[1:]) }, func(s string) error {
			point, err := hex.DecodeString("04" + s)
			if err == nil {
				t.Remote, err = crypto.UnmarshalPubkey(point)
			}
			return err
		}},
		{"rand", func() string { return hex.EncodeToString(t.Rand) }, func(s string) (err error) {
			t.Rand, err = hex.DecodeString(s)
			return err
		}},
	}
}

const (
	endWhole = "of the session"
	endCut   = "cut at a frame"
)

type headerField struct {
	name string
	get  func() string
	set  func(string) error
}

// Format returns the text of a transcript.
func (t *Transcript) Format() []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, transcriptTitle)
	for _, field := range t.header() {
		fmt.Fprintf(&b, "%s: %s\n", field.name, field.get())
	}
	fmt.Fprintln(&b, messagesTitle)
	for _, m := range t.Messages {
		fmt.Fprintln(&b, m)
	}
	fmt.Fprintln(&b, wireTitle)
	for _, chunk := range t.Chunks {
		mark := chunk.Way
		for rest := chunk.Data; len(rest) > 0; mark = ' ' {
			n := min(len(rest), transcriptColumn)
			fmt.Fprintf(&b, "%c %x\n", mark, rest[:n])
			rest = rest[n:]
		}
	}
	return b.Bytes()
}

// ParseTranscript reads what Format wrote, and nothing else: whatever it accepts formats to the
// same bytes again.
func ParseTranscript(text []byte) (*Transcript, error) {
	if len(text) > maxTranscript {
		return nil, fmt.Errorf("rlpxtest: transcript of %d bytes, limit %d", len(text), maxTranscript)
	}
	p := &transcriptParser{lines: strings.Split(string(text), "\n")}
	t := new(Transcript)
	if err := p.parse(t); err != nil {
		return nil, fmt.Errorf("rlpxtest: transcript, line %d: %w", p.at, err)
	}
	if again := t.Format(); !bytes.Equal(again, text) {
		return nil, errors.New("rlpxtest: transcript is not in the form in which it is written")
	}
	return t, nil
}

type transcriptParser struct {
	lines []string
	at    int // lines consumed; the number of the last one
}

func (p *transcriptParser) next() (string, error) {
	if p.at >= len(p.lines)-1 { // what follows the last newline is empty
		return "", errors.New("the transcript ends here")
	}
	p.at++
	return p.lines[p.at-1], nil
}

func (p *transcriptParser) expect(want string) error {
	line, err := p.next()
	if err == nil && line != want {
		err = fmt.Errorf("%.40q instead of %q", line, want)
	}
	return err
}

func (p *transcriptParser) parse(t *Transcript) error {
	if err := p.expect(transcriptTitle); err != nil {
		return err
	}
	for _, field := range t.header() {
		line, err := p.next()
		if err != nil {
			return err
		}
		value, ok := strings.CutPrefix(line, field.name+": ")
		if !ok {
			return fmt.Errorf("no %q", field.name+": ")
		}
		if err := field.set(value); err != nil {
			return fmt.Errorf("%s: %w", field.name, err)
		}
	}
	if err := p.expect(messagesTitle); err != nil {
		return err
	}
	for {
		line, err := p.next()
		if err != nil {
			return err
		}
		if line == wireTitle {
			break
		}
		m, err := parseMessage(line)
		if err != nil {
			return err
		}
		t.Messages = append(t.Messages, m)
	}
	for p.at < len(p.lines)-1 {
		line, _ := p.next()
		if err := t.parseWire(line); err != nil {
			return err
		}
	}
	if len(t.Chunks) == 0 {
		return errors.New("no bytes")
	}
	return nil
}

// parseMessage reads a line of Message.String.
func parseMessage(line string) (m Message, err error) {
	fields := strings.SplitN(line, " ", 6)
	if len(fields) < 5 || len(fields[0]) != 1 {
		return m, fmt.Errorf("%.40q is no message", line)
	}
	m.Way = Way(fields[0][0])
	if m.Way != Out && m.Way != In {
		return m, fmt.Errorf("direction %q", fields[0])
	}
	if m.Code, err = strconv.ParseUint(fields[1], 0, 64); err != nil {
		return m, err
	}
	if m.Size, err = strconv.Atoi(fields[2]); err != nil {
		return m, err
	}
	if m.Wire, err = strconv.Atoi(fields[3]); err != nil {
		return m, err
	}
	digest, err := hex.DecodeString(fields[4])
	if err != nil || copy(m.Digest[:], digest) != len(m.Digest) || len(digest) != len(m.Digest) {
		return m, fmt.Errorf("digest %.40q", fields[4])
	}
	if len(fields) > 5 {
		m.Words = fields[5]
	}
	return m, nil
}

// parseWire reads a line of the wire.
func (t *Transcript) parseWire(line string) error {
	if len(line) < 2 || line[1] != ' ' {
		return fmt.Errorf("%.40q is no line of the wire", line)
	}
	data, err := hex.DecodeString(line[2:])
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return errors.New("no bytes")
	}
	switch way := Way(line[0]); {
	case way == Out || way == In:
		t.Chunks = append(t.Chunks, Chunk{Way: way, Data: data})
	case way == ' ' && len(t.Chunks) > 0:
		last := &t.Chunks[len(t.Chunks)-1]
		last.Data = append(last.Data, data...)
	default:
		return fmt.Errorf("direction %q", line[:1])
	}
	return nil
}
