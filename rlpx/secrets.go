package rlpx

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"errors"
	"hash"
	"time"

	"github.com/go-rlpx/transport/handshake"
	"github.com/go-rlpx/transport/mac"
)

// Secrets are the results of a handshake, for [Conn.InitWithSecrets].
type Secrets struct {
	AES, MAC              []byte    // AES keys; 32 bytes each after a handshake, any AES key size is taken
	EgressMAC, IngressMAC hash.Hash // seeded MAC states, with digests of 32 bytes
}

// Handshake performs the handshake with prv as the node's static key and
// returns the peer's static key, on the curve of prv. It must come before
// anything is read or written, and once: a second call, also one that waited for
// the first, panics if that succeeded. Deadlines bound it; [Conn.HandshakeContext] has one of
// its own. A handshake that fails closes the net.Conn.
//
// What a recipient learns is who the peer claims to be: see [ConnectionState].
func (c *Conn) Handshake(prv *ecdsa.PrivateKey) (*ecdsa.PublicKey, error) {
	return c.handshake(context.Background(), prv)
}

// HandshakeContext performs the handshake with the Config's key, within the Config's
// HandshakeTimeout and until ctx is done, and returns the peer's static key. Like
// Handshake it is called once, and panics after a success. A handshake that
// fails closes the net.Conn; its error matches [ErrHandshake].
func (c *Conn) HandshakeContext(ctx context.Context) (*ecdsa.PublicKey, error) {
	return c.handshake(ctx, c.cfg.Key)
}

func (c *Conn) handshake(ctx context.Context, key *ecdsa.PrivateKey) (*ecdsa.PublicKey, error) {
	remote, traced, err := c.handshakeOnce(ctx, key)
	if traced != nil {
		traced.done(err)
	}
	return remote, err
}

// handshakeOnce performs the handshake, or returns the error of the first one. It is traced
// if it was performed and there is a Trace.
func (c *Conn) handshakeOnce(ctx context.Context, key *ecdsa.PrivateKey) (remote *ecdsa.PublicKey, traced *tracedHandshake, err error) {
	c.handshakeMu.Lock()
	defer c.handshakeMu.Unlock()
	switch c.phase.Load() {
	case phaseEstablished:
		panic("rlpx: second handshake")
	case phaseFailed:
		return nil, nil, c.handshakeErr
	}
	defer func() {
		if c.phase.Load() == phaseNew { // a callback or the net.Conn panics
			c.handshakeErr = &handshakeError{errPanicked}
			c.phase.Store(phaseFailed)
			c.Close()
		}
	}()
	traced = c.traceHandshake()
	sec, err := c.runHandshake(ctx, key, traced)
	if err != nil {
		c.handshakeErr = &handshakeError{err}
		c.phase.Store(phaseFailed)
		c.Close()
		return nil, traced, c.handshakeErr
	}
	c.logKeys(&sec)
	c.local = &key.PublicKey
	c.leaveListener()
	c.establish(Secrets{AES: sec.AES, MAC: sec.MAC, EgressMAC: sec.EgressMAC, IngressMAC: sec.IngressMAC}, sec.Remote)
	c.wipe(&sec)
	return sec.Remote, traced, nil
}

var errPanicked = errors.New("rlpx: panic in a handshake")

func (c *Conn) runHandshake(ctx context.Context, key *ecdsa.PrivateKey, traced *tracedHandshake) (handshake.Secrets, error) {
	// A Listener has set a deadline, and ended ctx with it.
	if timeout := c.cfg.handshakeTimeout(); timeout > 0 && c.deadline.Load() == nil {
		var cancel context.CancelFunc
		deadline := time.Now().Add(timeout)
		c.deadline.Store(&deadline)
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	steps := c.handshakeSteps(traced)
	if c.dialer {
		return steps.Initiate(ctx, handshakeConn{c}, key, c.dialDest, c.cfg.Rand)
	}
	verify := c.cfg.VerifyPeer
	if verify != nil {
		verify = func(remote *ecdsa.PublicKey) error {
			defer c.crew.outside()()
			return c.cfg.VerifyPeer(remote)
		}
	}
	return steps.Respond(ctx, handshakeConn{c}, key, c.cfg.Rand, verify)
}

// handshakeSteps are the callbacks for those who want to know how far the handshake is: the
// Listener that the connection came from, and the Trace.
func (c *Conn) handshakeSteps(traced *tracedHandshake) (steps handshake.Steps) {
	in, _ := c.conn.(*inbound)
	if in == nil && traced == nil {
		return steps
	}
	steps.Received = func(_ string, size int) error {
		if in != nil {
			if err := in.authReceived(); err != nil {
				return c.ioError(err)
			}
		}
		if traced != nil {
			traced.received(size)
		}
		return nil
	}
	if in != nil {
		steps.Sending = func(string, int) { in.releaseSlot() }
	}
	if traced != nil {
		steps.Sent = func(_ string, size int) { traced.sent(size) }
	}
	return steps
}

// handshakeConn is the net.Conn as the handshake's driver sees it: what it
// closes when the context ends is closed once, by Conn.
type handshakeConn struct{ c *Conn }

func (h handshakeConn) Read(p []byte) (int, error) {
	n, err := h.c.conn.Read(p)
	return n, h.c.ioError(err)
}

func (h handshakeConn) Write(p []byte) (int, error) {
	n, err := h.c.conn.Write(p)
	return n, h.c.ioError(err)
}

func (h handshakeConn) Close() error { return h.c.Close() }

// InitWithSecrets starts the session with the given secrets as if a handshake
// had been performed. It panics after a handshake, and if a key or a digest has
// an impossible size. The hashes belong to the connection from here on.
func (c *Conn) InitWithSecrets(sec Secrets) {
	c.handshakeMu.Lock()
	defer c.handshakeMu.Unlock()
	if c.phase.Load() != phaseNew {
		panic("rlpx: second handshake")
	}
	c.establish(sec, nil)
}

// establish is called with handshakeMu held.
func (c *Conn) establish(sec Secrets, remote *ecdsa.PublicKey) {
	macBlock, err := aes.NewCipher(sec.MAC)
	if err != nil {
		panic("rlpx: invalid MAC secret: " + err.Error())
	}
	block, err := aes.NewCipher(sec.AES)
	if err != nil {
		panic("rlpx: invalid AES secret: " + err.Error())
	}
	// Both directions start from the same key and IV: see the package documentation.
	var iv [blockSize]byte
	c.in.stream = cipher.NewCTR(block, iv[:])
	c.out.stream = cipher.NewCTR(block, iv[:])
	c.in.mac = mac.New(macBlock, sec.IngressMAC)
	c.out.mac = mac.New(macBlock, sec.EgressMAC)
	c.in.mac.Share(c.cfg.SharedHashing)
	c.out.mac.Share(c.cfg.SharedHashing)
	c.socket = newSocket(c.conn)
	c.remote = remote
	c.phase.Store(phaseEstablished)
}
