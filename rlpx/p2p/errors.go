package p2p

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

var (
	// ErrMalformedHello reports a Hello whose payload is not the RLP that the specification asks
	// for.
	ErrMalformedHello = errors.New("p2p: malformed Hello")

	// ErrHelloTooBig reports a Hello over HelloLimit, whether ours or a peer's.
	ErrHelloTooBig = errors.New("p2p: message too big for Hello")

	// ErrInvalidIdentity reports a Hello whose node key has not IDLength bytes.
	ErrInvalidIdentity = errors.New("p2p: invalid node identity in Hello")

	// ErrNullIdentity reports a Hello whose node key is all zeros.
	ErrNullIdentity = errors.New("p2p: null node identity in Hello")

	// ErrUnexpectedIdentity reports a Hello whose node key is not the one that the peer proved to
	// own in the encrypted handshake.
	ErrUnexpectedIdentity = errors.New("p2p: unexpected node identity in Hello")

	// ErrSelf reports a connection to a node that has our own key.
	ErrSelf = errors.New("p2p: connected to itself")

	// ErrUnexpectedMessage reports a message of the base protocol out of its time: anything before
	// Hello, or a second Hello.
	ErrUnexpectedMessage = errors.New("p2p: unexpected message")

	// ErrReadTimeout reports a peer from which nothing came within a session's ReadTimeout. It is a
	// net.Error with Timeout.
	ErrReadTimeout error = timeoutError("p2p: peer is silent: read timeout")

	// ErrStalled reports a capability whose messages the local program did not read within a
	// session's StallTimeout, while its queue was full.
	ErrStalled = errors.New("p2p: messages of a capability are not read")

	// ErrInvalidCapability reports a capability of our own that cannot be announced: a mistake of
	// the local program, not of a peer.
	ErrInvalidCapability = errors.New("p2p: invalid capability")

	// ErrInvalidCode reports a message from a peer whose code belongs to no shared capability.
	ErrInvalidCode = errors.New("p2p: invalid message code")

	// ErrNotShared reports the use of a nil Channel: that of a capability that the peer does not
	// share.
	ErrNotShared = errors.New("p2p: capability is not shared with the peer")

	// ErrInvalidMessageID reports a message id that the local program used although the
	// capability's Length does not reach it.
	ErrInvalidMessageID = errors.New("p2p: message id out of the capability's range")
)

type timeoutError string

func (e timeoutError) Error() string   { return string(e) }
func (e timeoutError) Timeout() bool   { return true }
func (e timeoutError) Temporary() bool { return false }

// ErrPingNotSent reports a Ping that was given up while it waited for its turn.
var ErrPingNotSent = errors.New("p2p: Ping not sent, an earlier one is unanswered")

// A DisconnectError says that a session ended by a Disconnect message. errors.Is(err,
// DiscTooManyPeers) asks for the reason, whoever gave it.
type DisconnectError struct {
	Reason DiscReason
	Remote bool // the peer sent the Disconnect; otherwise we did
}

func (e *DisconnectError) Error() string {
	if e.Remote {
		return "p2p: disconnected by peer: " + e.Reason.String()
	}
	return "p2p: disconnected by us: " + e.Reason.String()
}

// Unwrap returns the reason.
func (e *DisconnectError) Unwrap() error { return e.Reason }

// Is reports whether target is a *DisconnectError with the same reason from the same side. If we
// said the Disconnect, net.ErrClosed matches too: what we closed is used after that.
func (e *DisconnectError) Is(target error) bool {
	if target == net.ErrClosed {
		return !e.Remote
	}
	t, ok := target.(*DisconnectError)
	return ok && t != nil && *t == *e
}

// breachError is the end of a session for something that the peer did or left undone. Its
// DisconnectError is found by errors.As, but net.ErrClosed does not match: nobody here closed it.
type breachError struct {
	disconnect *DisconnectError
	err        error
}

// Error gives the reason once, also where err carries it.
func (e *breachError) Error() string {
	text := e.err.Error()
	if reason := e.disconnect.Reason.String(); !strings.Contains(text, reason) {
		text = reason + ": " + text
	}
	return "p2p: disconnected by us: " + text
}

func (e *breachError) Unwrap() []error { return []error{e.disconnect.Reason, e.err} }

func (e *breachError) Is(target error) bool {
	return target != net.ErrClosed && e.disconnect.Is(target)
}

func (e *breachError) As(target any) bool {
	t, ok := target.(**DisconnectError)
	if ok {
		*t = e.disconnect
	}
	return ok
}

// A UselessPeerError says that a peer shares no capability with us. errors.Is(err, DiscUselessPeer)
// holds for it.
type UselessPeerError struct {
	Caps []Cap // what the peer announced, as it was sent

	// Hello is the peer's, if the error comes from Dial, NewSession or a Listener; nil if from
	// Match.
	Hello *Hello
}

func newUselessPeerError(theirs []Cap) *UselessPeerError {
	return &UselessPeerError{Caps: slices.Clone(theirs)}
}

func (e *UselessPeerError) Error() string {
	return fmt.Sprintf("p2p: no shared capability, peer has %s", printableCaps(e.Caps))
}

// Unwrap returns DiscUselessPeer.
func (e *UselessPeerError) Unwrap() error { return DiscUselessPeer }
