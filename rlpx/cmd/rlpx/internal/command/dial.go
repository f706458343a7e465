package command

import (
	"context"
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

// dialed is a session with a target.
type dialed struct {
	session            *p2p.Session
	node               *p2p.Node     // of the target's addresses, the one that was dialed last
	addr               string        // of node
	connect, handshake time.Duration // TCP and the encrypted handshake; 0 if there was none
}

// dial opens a session with the target. Its addresses are tried one after the other, until there is
// a node with the target's key at one of them. Each has the timeout for the connection, and again
// for both handshakes.
func dial(ctx context.Context, to target, cfg *rlpx.Config, session *p2p.SessionConfig, timeout time.Duration) (d dialed, failures error) {
	for _, node := range to {
		var err error
		if d, err = dialNode(ctx, node, cfg, session, timeout); err == nil {
			return d, nil
		}
		if failures == nil {
			failures = err
		} else {
			failures = fmt.Errorf("%w; %w", failures, err)
		}
		if d.handshake > 0 || ctx.Err() != nil {
			break
		}
	}
	return d, failures
}

func dialNode(ctx context.Context, node *p2p.Node, cfg *rlpx.Config, session *p2p.SessionConfig, timeout time.Duration) (d dialed, err error) {
	d.node, d.addr = node, node.Addr()
	cfg = cfg.Clone()
	cfg.HandshakeTimeout = timeout
	cfg.Trace = &rlpx.Trace{HandshakeDone: func(_ *rlpx.Conn, took time.Duration, err error) {
		if err == nil {
			d.handshake = took
		}
	}}
	dialer := p2p.Dialer{
		RLPx: cfg, Session: session,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			start := time.Now()
			tcp, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, network, addr)
			if err == nil {
				d.connect = time.Since(start)
			}
			return tcp, err
		},
	}
	d.session, err = dialer.DialNode(ctx, node)
	switch {
	case err == nil:
		return d, nil
	case d.handshake > 0:
		return d, inWords("no session with "+d.addr, timeout, err)
	case errors.Is(err, rlpx.ErrHandshake):
		return d, inWords("handshake with "+d.addr+" failed", timeout, err)
	default:
		return d, inWords("cannot connect to "+d.addr, timeout, err)
	}
}

// inWords says why something failed, in terms of what a user can look after. Errors that speak for
// themselves are left alone.
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

// cause returns the error inside the first E in the chain of err, or err. It drops what repeats the
// obvious.
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
