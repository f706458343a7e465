package main

import (
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/go-rlpx/transport/handshake"
	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// Outcome is in one phrase what became of a visit. That a node said Disconnect is "told: " and its
// reason.
type Outcome string

const (
	Met        Outcome = "met"
	InvalidURL Outcome = "invalid enode URL"

	// Connecting.
	NotResolved    Outcome = "name not resolved"
	Refused        Outcome = "connection refused"
	ConnectTimeout Outcome = "timeout of connecting"
	NotConnected   Outcome = "cannot connect" // such as no route

	// The encrypted handshake.
	HandshakeTimeout Outcome = "timeout of handshake"
	HungUp           Outcome = "hung up in handshake" // all that a node does whose key is another one
	NotRLPx          Outcome = "not RLPx"             // it speaks another protocol
	BadHandshake     Outcome = "bad handshake"        // its answer is damaged, or noise
	HandshakeLost    Outcome = "handshake failed"     // in another way

	// Hello.
	HelloTimeout  Outcome = "timeout of Hello"
	HelloLost     Outcome = "closed without a Hello"
	Unproven      Outcome = "frame not authentic" // damaged, or by somebody without the key
	Self          Outcome = "ourselves"
	WrongIdentity Outcome = "identity in Hello is not its key"
	BadHello      Outcome = "bad Hello"
	NotHello      Outcome = "no Hello first"
	BadFrame      Outcome = "breach of the frame protocol"
	NothingShared Outcome = "no shared capability"
)

// told is the outcome of a node that said Disconnect where Hello was due.
func told(reason p2p.DiscReason) Outcome { return Outcome("told: " + reason.String()) }

// causes are the errors that a phase may end with. The first that matches counts.
type causes []struct {
	err     error
	outcome Outcome
}

var handshakeCauses = causes{
	{handshake.ErrPacketSize, NotRLPx},
	{handshake.ErrRemoteClosed, HungUp},
	{handshake.ErrDecrypt, BadHandshake},
	{handshake.ErrInvalidPublicKey, BadHandshake},
	{handshake.ErrMessage, BadHandshake},
}

var helloCauses = causes{
	{p2p.ErrSelf, Self},
	{p2p.ErrInvalidIdentity, WrongIdentity},
	{p2p.ErrNullIdentity, WrongIdentity},
	{p2p.ErrUnexpectedIdentity, WrongIdentity},
	{p2p.ErrMalformedHello, BadHello},
	{p2p.ErrHelloTooBig, BadHello},
	{p2p.ErrUnexpectedMessage, NotHello},
	{rlpx.ErrAuthentication, Unproven},
	{rlpx.ErrProtocol, BadFrame},
	// That of a *p2p.UselessPeerError. What a node told us was found before.
	{p2p.DiscUselessPeer, NothingShared},
}

func (c causes) find(err error, timeout, other Outcome) Outcome {
	for _, row := range c {
		if errors.Is(err, row.err) {
			return row.outcome
		}
	}
	if isTimeout(err) {
		return timeout
	}
	return other
}

// outcomeOf says what an error of p2p.Dialer.Dial means.
func outcomeOf(err error) Outcome {
	disconnect, ended := errors.AsType[*p2p.DisconnectError](err)
	switch {
	case errors.Is(err, p2p.ErrInvalidNode):
		return InvalidURL
	case errors.Is(err, rlpx.ErrConnect):
		return connectOutcome(err)
	case errors.Is(err, rlpx.ErrHandshake):
		return handshakeCauses.find(err, HandshakeTimeout, HandshakeLost)
	case ended:
		return told(disconnect.Reason)
	default:
		return helloCauses.find(err, HelloTimeout, HelloLost)
	}
}

// wsaConnRefused is what Windows says where others say ECONNREFUSED. No other system uses the
// number.
const wsaConnRefused = syscall.Errno(10061)

func connectOutcome(err error) Outcome {
	_, lookup := errors.AsType[*net.DNSError](err)
	switch {
	case lookup:
		return NotResolved
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, wsaConnRefused):
		return Refused
	case isTimeout(err):
		return ConnectTimeout
	default:
		return NotConnected
	}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded)
}
