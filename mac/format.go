package mac

import (
	"fmt"
	"io"
)

// Format keeps package fmt from printing the state, which is a secret.
func (m *MAC) Format(f fmt.State, _ rune) { io.WriteString(f, "mac.MAC{redacted}") }

// Copied reports whether New took a copy of its seed, so that whoever owns the seed may clear it.
func (m *MAC) Copied() bool { return m.other == nil }
