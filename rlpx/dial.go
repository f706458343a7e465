package rlpx

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/go-rlpx/transport/handshake"
)

// DefaultDialTimeout bounds the connecting, without the handshake, of a Dialer
// that has no DialContext of its own. The system's limit is minutes.
const DefaultDialTimeout = 15 * time.Second

// ErrConnect is in the chain of an error of Dial that came before the first byte of a handshake:
// the peer's host was not found or not reached, or nothing listens there. The error of package net
// that says which is in the chain, too.
var ErrConnect = errors.New("rlpx: cannot connect")

// Dialer connects to peers. Only its Config must be set. A Dialer may be used
// by several goroutines at once.
type Dialer struct {
	// Config is used for every connection, as by [Client].
	Config *Config

	// DialContext makes the connection under the handshake; that of a net.Dialer or of
	// a proxy fits. Nil means a net.Dialer with DefaultDialTimeout.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Dial connects to the peer with the static key remote at addr and performs the
// handshake. It is Dial of a [Dialer] with nothing but cfg.
func Dial(ctx context.Context, network, addr string, remote *ecdsa.PublicKey, cfg *Config) (*Conn, error) {
	d := Dialer{Config: cfg}
	return d.Dial(ctx, network, addr, remote)
}

// Dial connects to the peer with the static key remote at addr and performs the
// handshake, after which the peer is known to own that key. ctx bounds all of it, the Config's
// HandshakeTimeout the handshake alone; once Dial returned, ctx has no meaning for the connection.
//
// The keys are checked first: a Config without a valid key is handshake.ErrInvalidPrivateKey, an
// invalid remote handshake.ErrInvalidPublicKey, and nothing is connected then. A failed handshake
// matches [ErrHandshake], and handshake.ErrRemoteClosed if the peer hung up, which is all that a
// peer does when the caller has its key wrong. Errors of connecting match [ErrConnect], and wrap
// that of DialContext.
func (d *Dialer) Dial(ctx context.Context, network, addr string, remote *ecdsa.PublicKey) (*Conn, error) {
	cfg := d.Config
	if cfg == nil {
		cfg = new(Config)
	}
	if err := cfg.checkKey(); err != nil {
		return nil, &dialError{addr: addr, err: err}
	}
	if err := handshake.CheckPublicKey(remote); err != nil {
		return nil, &dialError{addr: addr, err: err}
	}
	dial := d.DialContext
	if dial == nil {
		dial = (&net.Dialer{Timeout: DefaultDialTimeout}).DialContext
	}
	inner, err := dial(ctx, network, addr)
	if err != nil {
		return nil, &dialError{addr: addr, err: err, connecting: true}
	}
	conn := Client(inner, remote, cfg)
	done := false
	defer func() {
		if !done { // a callback panics, when nobody has the connection yet
			conn.Close()
		}
	}()
	_, err = conn.HandshakeContext(ctx)
	done = true
	if err != nil { // inner is closed
		return nil, &dialError{addr: addr, err: err}
	}
	return conn, nil
}

// dialError is a failed Dial. What failed is in the chain.
type dialError struct {
	addr       string
	err        error
	connecting bool // nothing was connected yet
}

func (e *dialError) Error() string {
	text := strings.TrimPrefix(e.err.Error(), "rlpx: ")
	if !strings.Contains(text, e.addr) { // as errors of package net do
		text = "dialing " + e.addr + ": " + text
	}
	if errors.Is(e.err, handshake.ErrRemoteClosed) {
		// A recipient that cannot decrypt auth says nothing, by design.
		text += "; wrong node key?"
	}
	return "rlpx: " + text
}

func (e *dialError) Unwrap() error { return e.err }

func (e *dialError) Is(target error) bool { return e.connecting && target == ErrConnect }

// Timeout and Temporary make it a net.Error, as what package net returns from a
// dial. That the system gave up connecting is a timeout too, unlike for isTimeout.
func (e *dialError) Timeout() bool {
	var ne net.Error
	return errors.As(e.err, &ne) && ne.Timeout()
}

func (e *dialError) Temporary() bool { return false }
