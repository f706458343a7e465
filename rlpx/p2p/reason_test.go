package p2p

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p/testdata/geth/p2p"
)

func TestCase_B25_ReasonNumbers(t *testing.T) {
	for _, tt := range []struct {
		reason DiscReason
		number uint16
		text   string
	}{
		{DiscRequested, 0x00, "disconnect requested"},
		{DiscNetworkError, 0x01, "network error"},
		{DiscProtocolError, 0x02, "breach of protocol"},
		{DiscUselessPeer, 0x03, "useless peer"},
		{DiscTooManyPeers, 0x04, "too many peers"},
		{DiscAlreadyConnected, 0x05, "already connected"},
		{DiscIncompatibleVersion, 0x06, "incompatible p2p protocol version"},
		{DiscInvalidIdentity, 0x07, "null or invalid node identity"},
		{DiscQuitting, 0x08, "client quitting"},
		{DiscUnexpectedIdentity, 0x09, "unexpected node identity"},
		{DiscSelf, 0x0a, "connected to itself"},
		{DiscReadTimeout, 0x0b, "read timeout"},
		{0x0c, 0x0c, "unknown disconnect reason 0x0c"},
		{0x0f, 0x0f, "unknown disconnect reason 0x0f"},
		{DiscSubprotocolError, 0x10, "subprotocol error"},
		{0x11, 0x11, "unknown disconnect reason 0x11"},
		{0xff, 0xff, "unknown disconnect reason 0xff"},
		{DiscUnspecified, 0x100, "no reason given"},
		{0x101, 0x101, "unknown disconnect reason 0x101"},
	} {
		if uint16(tt.reason) != tt.number {
			t.Errorf("%v is %#x, want %#x", tt.reason, uint16(tt.reason), tt.number)
		}
		if tt.reason.String() != tt.text || tt.reason.Error() != tt.text {
			t.Errorf("%#x is %q, want %q", tt.number, tt.reason, tt.text)
		}
	}
}

func TestReasonFor(t *testing.T) {
	timeout := &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	reset := &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.ECONNRESET)}
	_, uselessErr := Match(Capabilities{{Cap: Cap{"eth", 68}, Length: 17}}, nil)
	for _, tt := range []struct {
		name string
		err  error
		want DiscReason
	}{
		{"nil", nil, DiscRequested},
		{"reason", DiscTooManyPeers, DiscTooManyPeers},
		{"unknown reason", DiscReason(0x42), 0x42},
		{"unspecified", DiscUnspecified, DiscRequested},
		{"local disconnect", &DisconnectError{Reason: DiscQuitting}, DiscQuitting},
		{"remote disconnect", &DisconnectError{Reason: DiscSelf, Remote: true}, DiscSelf},
		{"remote disconnect without reason", &DisconnectError{Reason: DiscUnspecified, Remote: true}, DiscRequested},
		{"reason of the application before the cause", fmt.Errorf("%w: %w", DiscUselessPeer, io.EOF), DiscUselessPeer},

		{"malformed Hello", ErrMalformedHello, DiscProtocolError},
		{"big Hello", ErrHelloTooBig, DiscProtocolError},
		{"invalid identity", ErrInvalidIdentity, DiscInvalidIdentity},
		{"null identity", ErrNullIdentity, DiscInvalidIdentity},
		{"invalid code", ErrInvalidCode, DiscProtocolError},
		{"invalid id", ErrInvalidMessageID, DiscSubprotocolError},
		{"invalid capability", ErrInvalidCapability, DiscRequested},
		{"useless peer", uselessErr, DiscUselessPeer},
		{"other identity", ErrUnexpectedIdentity, DiscUnexpectedIdentity},
		{"self", ErrSelf, DiscSelf},
		{"unexpected message", ErrUnexpectedMessage, DiscProtocolError},
		{"silence", ErrReadTimeout, DiscReadTimeout},
		{"stalled", ErrStalled, DiscSubprotocolError},

		{"protocol", rlpx.ErrProtocol, DiscProtocolError},
		{"payload", &rlpx.PayloadError{Err: io.ErrUnexpectedEOF}, DiscProtocolError},
		{"too big from the peer", &rlpx.SizeError{Read: true}, DiscProtocolError},
		{"too big from us", &rlpx.SizeError{}, DiscSubprotocolError},
		{"authentication", rlpx.ErrAuthentication, DiscNetworkError},
		{"evicted", fmt.Errorf("%w: %w", rlpx.ErrHandshake, rlpx.ErrEvicted), DiscTooManyPeers},
		{"refused", rlpx.ErrRefused, DiscRequested},
		{"handshake", rlpx.ErrHandshake, DiscProtocolError},
		{"handshake timeout", fmt.Errorf("%w: %w", rlpx.ErrHandshake, timeout), DiscReadTimeout},
		{"handshake EOF", fmt.Errorf("%w: %w", rlpx.ErrHandshake, io.EOF), DiscNetworkError},

		{"timeout", timeout, DiscReadTimeout},
		{"deadline", context.DeadlineExceeded, DiscReadTimeout},
		{"cancelled", context.Canceled, DiscRequested},
		{"EOF", io.EOF, DiscNetworkError},
		{"unexpected EOF", io.ErrUnexpectedEOF, DiscNetworkError},
		{"closed pipe", io.ErrClosedPipe, DiscNetworkError},
		{"closed", net.ErrClosed, DiscNetworkError},
		{"reset", reset, DiscNetworkError},

		{"application", errors.New("bad block"), DiscSubprotocolError},

		{"go-ethereum's reason", p2p.DiscTooManyPeers, DiscTooManyPeers},
		{"go-ethereum's lowest", p2p.DiscRequested, DiscRequested},
		{"go-ethereum's highest", p2p.DiscSubprotocolError, DiscSubprotocolError},
		{"go-ethereum's unknown reason", p2p.DiscReason(0x42), 0x42},
		{"go-ethereum's reason before the cause", fmt.Errorf("%w: %w", p2p.DiscUselessPeer, io.EOF), DiscUselessPeer},
		{"go-ethereum's reason as the cause", errors.Join(io.EOF, fmt.Errorf("status: %w", p2p.DiscUselessPeer)), DiscUselessPeer},
		{"our reason before go-ethereum's", fmt.Errorf("%w: %w", DiscSelf, p2p.DiscUselessPeer), DiscSelf},
		{"a number of another type", p2p.Severity(4), DiscSubprotocolError},
	} {
		if got := ReasonFor(tt.err); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
		if tt.err == nil {
			continue
		}
		if got := ReasonFor(fmt.Errorf("wrapped: %w", tt.err)); got != tt.want {
			t.Errorf("%s, wrapped: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
