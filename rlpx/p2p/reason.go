package p2p

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"reflect"

	"github.com/go-rlpx/transport/rlpx"
)

// A DiscReason says why a session ends. Values up to 0xff are the codes of the wire;
// implementations differ in what they mean by them, so a reason from a peer is information for
// people rather than something to act upon.
//
// A DiscReason is an error, so that errors.Is(err, DiscTooManyPeers) works for any error of this
// package that carries one.
type DiscReason uint16

// The reasons of the specification, with the names that go-ethereum gave them.
const (
	DiscRequested           DiscReason = 0x00
	DiscNetworkError        DiscReason = 0x01
	DiscProtocolError       DiscReason = 0x02
	DiscUselessPeer         DiscReason = 0x03
	DiscTooManyPeers        DiscReason = 0x04
	DiscAlreadyConnected    DiscReason = 0x05
	DiscIncompatibleVersion DiscReason = 0x06
	DiscInvalidIdentity     DiscReason = 0x07
	DiscQuitting            DiscReason = 0x08
	DiscUnexpectedIdentity  DiscReason = 0x09
	DiscSelf                DiscReason = 0x0a
	DiscReadTimeout         DiscReason = 0x0b
	DiscSubprotocolError    DiscReason = 0x10
)

// DiscUnspecified stands for a Disconnect that gave no reason or none that could be read. It lies
// outside the range of the wire, so that it is never taken for DiscRequested nor for any code that
// a peer can send.
const DiscUnspecified DiscReason = 0x100

var reasonText = map[DiscReason]string{
	DiscRequested:           "disconnect requested",
	DiscNetworkError:        "network error",
	DiscProtocolError:       "breach of protocol",
	DiscUselessPeer:         "useless peer",
	DiscTooManyPeers:        "too many peers",
	DiscAlreadyConnected:    "already connected",
	DiscIncompatibleVersion: "incompatible p2p protocol version",
	DiscInvalidIdentity:     "null or invalid node identity",
	DiscQuitting:            "client quitting",
	DiscUnexpectedIdentity:  "unexpected node identity",
	DiscSelf:                "connected to itself",
	DiscReadTimeout:         "read timeout",
	DiscSubprotocolError:    "subprotocol error",
	DiscUnspecified:         "no reason given",
}

// String returns the reason in words.
func (r DiscReason) String() string {
	if text, ok := reasonText[r]; ok {
		return text
	}
	return fmt.Sprintf("unknown disconnect reason 0x%02x", uint16(r))
}

// Error returns the reason in words.
func (r DiscReason) Error() string { return r.String() }

// onWire returns r, or DiscRequested, the most general reason, where r has no code on the wire.
func (r DiscReason) onWire() DiscReason {
	if r > 0xff {
		return DiscRequested
	}
	return r
}

// errorReasons maps sentinels to the reason to send: one row an error, grouped by the layer that it
// comes from. The first row that matches decides.
var errorReasons = [...]struct {
	err    error
	reason DiscReason
}{
	// Hello
	{ErrMalformedHello, DiscProtocolError},
	{ErrHelloTooBig, DiscProtocolError},
	{ErrInvalidIdentity, DiscInvalidIdentity},
	{ErrNullIdentity, DiscInvalidIdentity},
	{ErrUnexpectedIdentity, DiscUnexpectedIdentity},
	{ErrSelf, DiscSelf},
	{ErrUnexpectedMessage, DiscProtocolError},

	// Capabilities. The peer has no part in a mistake of the local configuration.
	{ErrInvalidCode, DiscProtocolError},
	{ErrInvalidMessageID, DiscSubprotocolError},
	{ErrInvalidCapability, DiscRequested},

	// Session. ErrReadTimeout is a timeout.
	{ErrStalled, DiscSubprotocolError},

	// Package rlpx. What is too big and came from the peer is ErrProtocol as well.
	{rlpx.ErrProtocol, DiscProtocolError},
	{rlpx.ErrMessageTooBig, DiscSubprotocolError},
	{rlpx.ErrAuthentication, DiscNetworkError}, // anybody on the way can damage a frame
	{rlpx.ErrEvicted, DiscTooManyPeers},
	{rlpx.ErrRefused, DiscRequested},

	// Standard library
	{context.Canceled, DiscRequested},
	{io.EOF, DiscNetworkError},
	{io.ErrUnexpectedEOF, DiscNetworkError},
	{io.ErrClosedPipe, DiscNetworkError},
	{net.ErrClosed, DiscNetworkError},

	// The class of all failed handshakes, whose causes come first.
	{rlpx.ErrHandshake, DiscProtocolError},
}

// ReasonFor returns the reason to send to a peer when a session ends because of err: the reason
// that err carries if it carries one, the one that fits where err is from this module or from the
// network, DiscRequested where err is nil. Any other error comes from the application and gives
// DiscSubprotocolError; an application that knows better wraps a DiscReason.
//
// Code written for go-ethereum may return the DiscReason of its package p2p, or of a fork's. That
// is understood as well: it has the same numbers.
//
// The result always has a code on the wire.
func ReasonFor(err error) DiscReason {
	if err == nil {
		return DiscRequested
	}
	if reason, ok := errors.AsType[DiscReason](err); ok {
		return reason.onWire()
	}
	if reason, ok := gethReason(err); ok {
		return reason
	}
	netErr, isNetErr := errors.AsType[net.Error](err)
	if isNetErr && netErr.Timeout() {
		return DiscReadTimeout
	}
	for _, row := range errorReasons {
		if errors.Is(err, row.err) {
			return row.reason
		}
	}
	if isNetErr {
		return DiscNetworkError
	}
	return DiscSubprotocolError
}

// gethReason finds the first error in err's tree that is a DiscReason of go-ethereum's package p2p,
// by the type's name: to import that package takes its whole node along.
func gethReason(err error) (DiscReason, bool) {
	if v := reflect.ValueOf(err); v.Kind() == reflect.Uint8 {
		t := v.Type()
		if t.Name() == "DiscReason" && path.Base(t.PkgPath()) == "p2p" {
			return DiscReason(v.Uint()), true
		}
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		if inner := err.Unwrap(); inner != nil {
			return gethReason(inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range err.Unwrap() {
			if inner == nil {
				continue
			}
			if reason, ok := gethReason(inner); ok {
				return reason, true
			}
		}
	}
	return 0, false
}
