package handshake

import (
	"fmt"
	"io"

	"github.com/ethereum/go-ethereum/crypto"
)

// What package fmt prints of values that hold secrets. A Format method covers every verb, %#v and
// %d among them, which a String method would not.

// Format prints whose secrets they are, and none of them.
func (s Secrets) Format(f fmt.State, _ rune) {
	if s.Remote == nil {
		io.WriteString(f, "handshake.Secrets{}")
		return
	}
	fmt.Fprintf(f, "handshake.Secrets{Remote: %x, redacted}", crypto.FromECDSAPub(s.Remote))
}

// Format, of both states, prints nothing of a handshake but that it is one.
func (party) Format(f fmt.State, _ rune) { io.WriteString(f, "handshake.state{redacted}") }
