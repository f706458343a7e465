package rlpx

import (
	"fmt"
	"io"

	"github.com/go-rlpx/transport/handshake"
)

// What must not be left in memory, and what package fmt prints of values that hold secrets. A
// Format method covers every verb, %#v and %d among them, which a String method would not.

// testHookWiped, when a test sets it, is given the secrets of a handshake once they are wiped.
var testHookWiped func(sec *handshake.Secrets)

// wipe forgets the secrets of a handshake, which the session has taken over. What it keeps of
// them is in the key schedules of its ciphers and in its MAC states.
func (c *Conn) wipe(sec *handshake.Secrets) {
	clear(sec.AES)
	clear(sec.MAC)
	if c.in.mac.Copied() && c.out.mac.Copied() {
		sec.EgressMAC.Reset()
		sec.IngressMAC.Reset()
	}
	clear(sec.InitiatorNonce[:])
	clear(sec.RecipientNonce[:])
	if testHookWiped != nil {
		testHookWiped(sec)
	}
}

// Format prints that there are secrets, and none of them.
func (s Secrets) Format(f fmt.State, _ rune) {
	io.WriteString(f, "rlpx.Secrets{redacted}")
}

// Format prints where l listens.
func (l *Listener) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "rlpx.Listener{%v}", l.Addr()) }

// Format prints which connection c is: its role and its addresses.
func (c *Conn) Format(f fmt.State, _ rune) {
	role := "recipient"
	if c.dialer {
		role = "initiator"
	}
	fmt.Fprintf(f, "rlpx.Conn{%s, %v, peer %v}", role, c.LocalAddr(), c.RemoteAddr())
}
