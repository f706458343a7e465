package command

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/go-rlpx/transport/handshake"
	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// dialed is a connection after its handshake.
type dialed struct {
	conn               *rlpx.Conn
	addr               string        // of the target's, the one that was dialed
	connect, handshake time.Duration // how long the TCP connection and the handshake took
}

// dial connects to the target and performs the handshake. The addresses of the target are tried
// one after the other, each within timeout.
func dial(ctx context.Context, to target, cfg *rlpx.Config, timeout time.Duration) (dialed, error) {
	var failures error
	for _, addr := range to.addrs {
		d, err := dialAddr(ctx, addr, to.key, cfg, timeout)
		switch {
		case err == nil:
			return d, nil
		case failures == nil:
			failures = err
		default:
			failures = fmt.Errorf("%w; %w", failures, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return dialed{}, failures
}

func dialAddr(ctx context.Context, addr string, key *ecdsa.PublicKey, cfg *rlpx.Config, timeout time.Duration) (dialed, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	d := dialed{addr: addr}
	start := time.Now()
	dialer := rlpx.Dialer{
		Config: cfg,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			tcp, err := new(net.Dialer).DialContext(ctx, network, addr)
			d.connect = time.Since(start)
			return tcp, err
		},
	}
	conn, err := dialer.Dial(ctx, "tcp", addr, key)
	switch {
	case errors.Is(err, rlpx.ErrHandshake):
		return d, inWords("handshake with "+addr+" failed", timeout, err)
	case err != nil:
		return d, inWords("cannot connect to "+addr, timeout, err)
	}
	d.conn = conn
	d.handshake = time.Since(start) - d.connect
	return d, nil
}

// inWords says why something failed, in terms of what a user can look after. Errors that speak for themselves are
// left alone.
func inWords(what string, timeout time.Duration, err error) error {
	var reason string
	var disconnect *p2p.DisconnectError
	switch {
	case errors.As(err, &disconnect) && disconnect.Remote:
		reason = fmt.Sprintf("the peer said Disconnect: %v%s", disconnect.Reason, reasonCode(disconnect.Reason))
	case errors.Is(err, handshake.ErrPacketSize):
		reason = fmt.Sprintf("this is not an RLPx port: %v", cause[*handshake.Error](err))
	case errors.Is(err, handshake.ErrRemoteClosed):
		reason = "the peer closed the connection: it may have another node key, or no room for more peers"
	case errors.Is(err, handshake.ErrDecrypt), errors.Is(err, handshake.ErrInvalidPublicKey):
		reason = "the answer was damaged, or is not RLPx at all"
	case isTimeout(err):
		reason = fmt.Sprintf("no answer within %v", timeout)
	case errors.Is(err, context.Canceled):
		reason = "interrupted"
	case isGone(err):
		reason = "the peer closed the connection without a Disconnect"
	default:
		return fmt.Errorf("%s: %w", what, cause[*net.OpError](cause[*handshake.Error](err)))
	}
	return &wordedError{what + ": " + reason, err}
}

// reasonCode is a reason's code on the wire, for those who look it up.
func reasonCode(reason p2p.DiscReason) string {
	if reason > 0xff {
		return ""
	}
	return fmt.Sprintf(" (reason 0x%02x)", uint16(reason))
}

// cause returns the error inside the first E in the chain of err, or err. It drops what repeats the obvious.
func cause[E interface {
	error
	comparable
}](err error) error {
	if e, ok := errors.AsType[E](err); ok {
		if inner := errors.Unwrap(e); inner != nil {
			return inner
		}
	}
	return err
}

// wordedError is an error with a text of its own.
type wordedError struct {
	text string
	err  error
}

func (e *wordedError) Error() string { return e.text }
func (e *wordedError) Unwrap() error { return e.err }

// isGone reports whether err is how the end of a connection by the other side shows.
func isGone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
