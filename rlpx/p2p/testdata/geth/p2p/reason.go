// Package p2p stands for go-ethereum's package of that name in tests: to import that one would put
// a whole node among the dependencies. The live tests use the real one.
package p2p

import "fmt"

// DiscReason has the name, the kind and the methods of go-ethereum's.
type DiscReason uint8

// Some of go-ethereum's reasons.
const (
	DiscRequested        DiscReason = 0x00
	DiscUselessPeer      DiscReason = 0x03
	DiscTooManyPeers     DiscReason = 0x04
	DiscSubprotocolError DiscReason = 0x10
)

func (d DiscReason) Error() string { return fmt.Sprintf("reason %d", uint8(d)) }

// Severity is another error that is a number.
type Severity uint8

func (s Severity) Error() string { return fmt.Sprintf("severity %d", uint8(s)) }
