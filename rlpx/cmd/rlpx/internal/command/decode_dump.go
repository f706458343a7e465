package command

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/ethereum/go-ethereum/rlp"
)

// dump is how payloads are shown.
type dump struct {
	hex, rlp bool
	max      int // bytes of each
}

func (d dump) wanted() bool { return d.hex || d.rlp }

// dumpIndent puts dumps under the message that they belong to.
const dumpIndent = "                        "

// text dumps a payload below its line.
func (d dump) text(w *bufio.Writer, payload []byte) {
	shown := payload[:min(len(payload), d.max)]
	if d.hex && len(payload) > 0 {
		for line := range strings.Lines(hex.Dump(shown)) {
			io.WriteString(w, dumpIndent+line)
		}
		if more := len(payload) - len(shown); more > 0 {
			fmt.Fprintf(w, "%s... %s more\n", dumpIndent, plural(more, "byte"))
		}
	}
	if d.rlp && len(payload) > 0 {
		values, cut := rlpValues(payload, d.max)
		for _, v := range values {
			printValue(w, v, dumpIndent)
		}
		if cut {
			fmt.Fprintf(w, "%s... more than %s\n", dumpIndent, plural(d.max, "byte"))
		}
	}
}

// json puts dumps into a message.
func (d dump) json(m *jsonMessage, payload []byte) {
	shown := payload[:min(len(payload), d.max)]
	if d.hex {
		text := hex.EncodeToString(shown)
		m.Hex, m.Cut = &text, len(shown) < len(payload)
	}
	if d.rlp {
		values, cut := rlpValues(payload, d.max)
		m.RLP = values
		m.Cut = m.Cut || cut
	}
}

const (
	// maxDepth bounds nested lists. Messages have a handful.
	maxDepth = 64

	// minText is how long printable bytes are to be taken for text, and minName how long
	// lower-case letters are: "eth" is a name, three other printable bytes are more often a
	// number.
	minText = 4
	minName = 3
)

// rlpValues decodes RLP values that stand one after the other, up to so many bytes of them: strings
// as 0x and hexadecimal digits, lists as []any. Bytes that are not RLP end it, as a string that
// begins with "!".
func rlpValues(payload []byte, limit int) (values []any, cut bool) {
	p := rlpParser{left: limit}
	return p.values(payload, 0), p.cut
}

type rlpParser struct {
	left int // bytes
	cut  bool
}

func (p *rlpParser) values(b []byte, depth int) []any {
	values := []any{}
	for len(b) > 0 && !p.cut {
		if p.left <= 0 {
			p.cut = true
			break
		}
		kind, content, rest, err := rlp.Split(b)
		switch {
		case err != nil:
			return append(values, "!not RLP: 0x"+hex.EncodeToString(p.take(b)))
		case kind == rlp.List && depth == maxDepth:
			return append(values, "!nested too deep: 0x"+hex.EncodeToString(p.take(b)))
		case kind == rlp.List:
			p.left--
			values = append(values, p.values(content, depth+1))
		default:
			p.left--
			values = append(values, "0x"+hex.EncodeToString(p.take(content)))
		}
		b = rest
	}
	return values
}

// take returns as many bytes of b as may be shown.
func (p *rlpParser) take(b []byte) []byte {
	if len(b) > p.left {
		p.cut = true
		b = b[:max(p.left, 0)]
	}
	p.left -= len(b)
	return b
}

// printValue prints a value, with what looks like text beside it.
func printValue(w *bufio.Writer, v any, indent string) {
	switch v := v.(type) {
	case []any:
		if len(v) == 0 {
			fmt.Fprintf(w, "%s[]\n", indent)
			return
		}
		fmt.Fprintf(w, "%s[\n", indent)
		for _, item := range v {
			printValue(w, item, indent+"  ")
		}
		fmt.Fprintf(w, "%s]\n", indent)
	case string:
		fmt.Fprintf(w, "%s%s%s\n", indent, v, asText(v))
	}
}

// asText returns the text that hexadecimal digits stand for, or "" if they do not look like any.
func asText(digits string) string {
	b, err := hex.DecodeString(strings.TrimPrefix(digits, "0x"))
	if err != nil || len(b) < minName {
		return ""
	}
	name := true
	for _, c := range b {
		if c < ' ' || c > '~' {
			return ""
		}
		name = name && 'a' <= c && c <= 'z'
	}
	if len(b) < minText && !name {
		return ""
	}
	return fmt.Sprintf(" %q", b)
}
