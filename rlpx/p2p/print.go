package p2p

import (
	"fmt"
	"io"
	"strings"
)

// How much of a peer's choice is printed, in bytes after escaping. The three together, and so any
// error text, stay well under 512 bytes.
const (
	printedName    = 128 // real client names take 40 to 100
	printedCapName = 16  // twice what the specification allows
	printedCaps    = 256 // some 30 capabilities of usual length
)

// printable returns s with every byte that is not printable ASCII written as \xNN and cut to limit
// bytes, the cut shown by "...". A backslash is doubled, so that different short strings never look
// the same.
func printable(s string, limit int) string {
	var b strings.Builder
	for i := range len(s) {
		var text string
		switch c := s[i]; {
		case c == '\\':
			text = `\\`
		case isPrintable(c):
			text = s[i : i+1]
		default:
			text = fmt.Sprintf(`\x%02x`, c)
		}
		if b.Len()+len(text) > limit {
			b.WriteString("...")
			break
		}
		b.WriteString(text)
	}
	return b.String()
}

// Format prints which session s is. Package fmt would read fields that its goroutine writes.
func (s *Session) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "p2p.Session{peer %v", s.RemoteAddr())
	for _, shared := range s.matched.shared {
		fmt.Fprintf(f, ", %v", shared.Cap)
	}
	io.WriteString(f, "}")
}

// Format prints which capability of which session ch is.
func (ch *Channel) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "p2p.Channel{%v, peer %v}", ch.shared.Cap, ch.session.RemoteAddr())
}

func isPrintable(c byte) bool { return c >= ' ' && c <= '~' }

// printableCaps lists capabilities as "eth/68, snap/1" or, where they are many, "eth/68, snap/1 and
// 7 more".
func printableCaps(caps []Cap) string {
	if len(caps) == 0 {
		return "none"
	}
	var b strings.Builder
	for i, c := range caps {
		text := c.String()
		if b.Len()+len(text) > printedCaps {
			fmt.Fprintf(&b, " and %d more", len(caps)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(text)
	}
	return b.String()
}
