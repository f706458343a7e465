package rlpx

import (
	"bytes"
	"errors"
	"fmt"
	"net"
)

// Errors that callers branch on with errors.Is. Errors of the net.Conn are
// returned as they came, so io.EOF, timeouts and *net.OpError keep their meaning; after
// [Conn.Close] they are net.ErrClosed.
var (
	// ErrAuthentication: a header or frame failed its MAC. The text says which.
	// The connection is closed: nothing the peer sends can be trusted any more.
	ErrAuthentication = errors.New("rlpx: message authentication failed")

	// ErrProtocol: the peer proved its identity and broke the rules all the same:
	// a frame of size zero, an invalid message code, corrupt snappy data, or a
	// message over a limit. Nothing more can be read, but writing still works,
	// to tell the peer why.
	ErrProtocol = errors.New("rlpx: protocol violation")

	// ErrMessageTooBig: a message to be sent or received is over a limit. See [SizeError].
	ErrMessageTooBig = errors.New("rlpx: message too big")

	// ErrHandshake is the class of every failed handshake. Package handshake has
	// the errors that say what went wrong.
	ErrHandshake = errors.New("rlpx: handshake failed")
)

// authError is an authentication failure of one part of a frame.
type authError string

const (
	errHeaderMAC authError = "rlpx: bad header MAC"
	errFrameMAC  authError = "rlpx: bad frame MAC"
)

func (e authError) Error() string        { return string(e) }
func (e authError) Is(target error) bool { return target == ErrAuthentication }

// SizeError says that a message is over a limit. It matches [ErrMessageTooBig],
// and [ErrProtocol] too if a peer sent it.
type SizeError struct {
	What  string // what was measured: "message", "frame" or "compressed message"
	Size  int    // bytes; what the peer declared if it sent the message
	Limit int    // bytes
	Read  bool   // the peer sent the message
}

func (e *SizeError) Error() string {
	text := fmt.Sprintf("rlpx: message too big: %s of %d bytes, limit %d", e.What, e.Size, e.Limit)
	if e.Limit == maxUint24 {
		text += " (message length >= 16MB)"
	}
	return text
}

func (e *SizeError) Is(target error) bool {
	return target == ErrMessageTooBig || e.Read && target == ErrProtocol
}

// PayloadError says that a message was authentic but its payload could not be
// decompressed. It matches [ErrProtocol].
type PayloadError struct {
	Code uint64

	// Size is how many bytes followed the code on the wire.
	Size int

	// Payload is a copy of the first of these bytes, at most 112. Some clients send a Disconnect
	// uncompressed when they should not, which fits.
	Payload []byte

	Err error
}

// shownPayload is how much of a peer's payload an error keeps. Errors are kept for as long as
// somebody cares, so they own what they show, and it is little.
const shownPayload = 112

// newPayloadError makes the error of a payload that lies in the read buffer, which is somebody
// else's after the next Read.
func newPayloadError(code uint64, payload []byte, err error) *PayloadError {
	return &PayloadError{
		Code:    code,
		Size:    len(payload),
		Payload: bytes.Clone(payload[:min(len(payload), shownPayload)]),
		Err:     err,
	}
}

func (e *PayloadError) Error() string {
	return fmt.Sprintf("rlpx: message code %#x, %d bytes on the wire: %v", e.Code, e.Size, e.Err)
}

func (e *PayloadError) Is(target error) bool { return target == ErrProtocol }
func (e *PayloadError) Unwrap() error        { return e.Err }

// protocolError is a breach of the rules that needs no more than words.
type protocolError struct {
	text string
	err  error
}

var errZeroFrame = &protocolError{text: "rlpx: frame of size zero"}

func (e *protocolError) Error() string {
	if e.err != nil {
		return e.text + ": " + e.err.Error()
	}
	return e.text
}

func (e *protocolError) Is(target error) bool { return target == ErrProtocol }
func (e *protocolError) Unwrap() error        { return e.err }

// handshakeError puts an error of package handshake, whose text says all, into the class of
// ErrHandshake.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string        { return e.err.Error() }
func (e *handshakeError) Is(target error) bool { return target == ErrHandshake }
func (e *handshakeError) Unwrap() error        { return e.err }

// isTimeout reports whether err is an expired deadline, after which the
// connection can go on. A system's ETIMEDOUT says that it is a timeout too, but
// there the connection is gone.
func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout() && !isErrno(err)
}

// PanicError is why a direction ended if the net.Conn or a callback panicked under it. Where a call
// of ours was on the stack, the panic went on to its caller, and others get this error without
// Value. In a goroutine of this package, where nobody could see it, it was recovered.
type PanicError struct {
	Value any    // of the panic, if it was recovered
	Stack []byte // of it
}

func (e *PanicError) Error() string {
	if e.Value == nil {
		return "rlpx: a panic ended the direction"
	}
	return fmt.Sprintf("rlpx: a panic ended the direction: %v", e.Value)
}
