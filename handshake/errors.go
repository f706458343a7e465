package handshake

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Failures of a handshake. They arrive wrapped in an *Error; match them with errors.Is.
var (
	// ErrPacketSize: the size prefix is below the ECIES overhead or above the limit, or is not the
	// packet's size.
	ErrPacketSize = errors.New("rlpx: bad handshake packet size")
	// ErrInvalidPublicKey: a public key is not a point of the curve in canonical form.
	ErrInvalidPublicKey = errors.New("rlpx: invalid public key")
	// ErrDecrypt: the ECIES tag is wrong. The packet was damaged, or encrypted to another key.
	ErrDecrypt = errors.New("rlpx: packet does not decrypt: damaged, or meant for another node key")
	// ErrMessage: the decrypted message is not an auth or ack list.
	ErrMessage = errors.New("rlpx: malformed handshake message")
	// ErrSignature: the signature in auth is out of range or recovers to no key.
	ErrSignature = errors.New("rlpx: invalid handshake signature")
	// ErrRemoteClosed: the remote closed the connection before its packet was complete. The chain
	// also holds the cause: io.EOF, io.ErrUnexpectedEOF, the system's error for a reset connection,
	// or io.ErrClosedPipe.
	ErrRemoteClosed = errors.New("rlpx: remote closed the connection during the handshake")
)

// ErrInvalidPrivateKey is returned for a local key that is nil, zero, out of range, or has no point
// of the curve as its public key. It is the caller's mistake, not the peer's, and does not come in
// an *Error.
var ErrInvalidPrivateKey = errors.New("rlpx: invalid private key")

// Values of Error.Role and Error.Step, in the words of the specification.
const (
	RoleInitiator = "initiator"
	RoleRecipient = "recipient"

	StepAuth = "auth"
	StepAck  = "ack"
)

// Error is a failed handshake: which end we are, which of the two messages it was about, and why.
type Error struct {
	Role string // RoleInitiator or RoleRecipient: what this end is
	Step string // StepAuth or StepAck
	Err  error
}

func (e *Error) Error() string {
	verb := "reading"
	if (e.Role == RoleInitiator) == (e.Step == StepAuth) {
		verb = "sending"
	}
	return "rlpx: handshake: " + e.Role + " " + verb + " " + e.Step + ": " + strings.TrimPrefix(e.Err.Error(), "rlpx: ")
}

func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether a deadline ended the handshake. It makes *Error a net.Error.
func (e *Error) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.Err, &t) && t.Timeout()
}

// Temporary is there for net.Error alone. A handshake that failed is over: it reports false.
func (e *Error) Temporary() bool { return false }

// sizeError is ErrPacketSize with the size that the prefix announced and, where it can be told, who
// sent it.
type sizeError struct {
	size     int
	protocol string
}

func (e sizeError) Error() string {
	text := fmt.Sprintf("message too big: %d bytes announced, at most %d", e.size, maxPacketSize)
	if e.size < eciesOverhead {
		text = fmt.Sprintf("message too small: %d bytes announced, at least %d", e.size, eciesOverhead)
	}
	if e.protocol != "" {
		text += " (the peer speaks " + e.protocol + ")"
	}
	return text
}

func (e sizeError) Is(target error) bool { return target == ErrPacketSize }

// foreign names the protocol of a peer whose first bytes read as a size that no packet can have.
func foreign(prefix [prefixSize]byte) string {
	switch string(prefix[:]) {
	case "GE", "PO", "PU", "HE", "OP", "DE", "CO", "TR", "PA", "PR", "HT", // methods, the HTTP/2 preface, a response
		"<!", "<h", "<H": // an error page without a status line
		return "HTTP"
	case "\x16\x03", "\x15\x03": // records of a handshake and of an alert
		return "TLS"
	case "SS":
		return "SSH"
	case "22": // the 220 of a greeting
		return "SMTP or FTP"
	}
	return ""
}

// closedError is ErrRemoteClosed with how far the remote's packet came.
type closedError struct {
	received int
	cause    error
}

func (e closedError) Error() string {
	return fmt.Sprintf("%v (%d bytes received)", ErrRemoteClosed, e.received)
}

func (e closedError) Is(target error) bool { return target == ErrRemoteClosed }
func (e closedError) Unwrap() error        { return e.cause }

// readError classifies an error of the underlying connection after received bytes of the remote's
// packet.
func readError(err error, received int) error {
	switch {
	case errors.Is(err, io.EOF) && received > 0:
		return closedError{received, io.ErrUnexpectedEOF}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), isReset(err):
		return closedError{received, err}
	}
	return err
}

// writeError classifies an error of writing our packet. A Write to a pipe whose other end is closed
// returns io.ErrClosedPipe, where a Read returns io.EOF; to a Read io.ErrClosedPipe says that this
// end is closed.
func writeError(err error) error {
	if isReset(err) || errors.Is(err, io.ErrClosedPipe) {
		return closedError{0, err}
	}
	return readError(err, 0)
}
