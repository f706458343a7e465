package rlpx

import (
	"crypto/ecdsa"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-rlpx/transport/handshake"
)

// DefaultHandshakeTimeout is the deadline of a whole handshake when the Config
// sets none. Honest peers need a few hundred milliseconds; go-ethereum allows as long.
const DefaultHandshakeTimeout = 5 * time.Second

// Bounds of a [Listener] whose Config sets none.
const (
	// DefaultMaxHandshakes is far more than a machine has cores, so that one
	// VerifyPeer that waits for something does not hold up the others.
	DefaultMaxHandshakes = 50

	// DefaultMaxPending is how many connections a flood must open within a
	// round trip of an honest peer to push that out. Each costs a file
	// descriptor and about 16 KiB, most of it a goroutine's stack.
	DefaultMaxPending = 1024
)

// Config configures connections. The zero value works but for Key. A Config
// may serve many connections and must not be modified once it does; this
// package never modifies it.
type Config struct {
	// Key is the static private key of the node. Required.
	Key *ecdsa.PrivateKey

	// Rand is the source of ephemeral keys, nonces and padding. Nil means crypto/rand. It must be
	// safe for concurrent use if the Config serves several connections.
	Rand io.Reader

	// HandshakeTimeout bounds the whole handshake, not each read of it. Zero
	// means DefaultHandshakeTimeout, negative no bound beyond the context's. The
	// exchange of Hello in package p2p has the same deadline, unless its context has one.
	HandshakeTimeout time.Duration

	// MaxMessageSize is the largest message that Read accepts, in bytes after
	// decompression. Zero means 2^24-1, the protocol's own limit.
	MaxMessageSize int

	// MessageLimit gives the largest message of each code, as MaxMessageSize does for all; the
	// smaller of the two counts. It is called by Read, once a message, before its payload is
	// decompressed. Package p2p keeps messages of the base protocol within bounds of its own, about
	// which MessageLimit is not asked. It may end its connection or session, and must not wait for
	// anything that waits for Read, such as p2p.Session.Done. Nil means no further limit.
	MessageLimit func(code uint64) int

	// SendQueue bounds what a connection keeps of messages that nobody waits for until they are
	// written, in bytes of memory: see [Conn.Send]. Zero or less means DefaultSendQueue. Less than
	// 9 KiB means 9 KiB, without which small messages, which share buffers, had no place. What is
	// being sent with the call under way counts beside it: it is in a buffer of at most 1 MiB.
	SendQueue int

	// VerifyPeer decides whether a recipient goes on with the peer that claims the
	// given static key. It is called after auth was decoded and before
	// ack is made, so that a refusal costs no further curve operations; the
	// handshake then fails with the returned error. In a Listener it holds one of
	// MaxHandshakes slots and must not wait without a bound of its own. Nil accepts everybody. The
	// claim is not proven yet: see ConnectionState.PeerProven.
	VerifyPeer func(remote *ecdsa.PublicKey) error

	// KeyLogWriter receives one line for each session, enough to decrypt a capture of it: "RLPX",
	// the X coordinate of the auth packet's ephemeral point, aes-secret, mac-secret,
	// initiator-nonce and recipient-nonce, in hex. Whoever reads that file reads the traffic, so it
	// is for debugging only. Nil logs nothing. Writes of all sessions to the same writer are
	// serialised, whatever Config they have. A writer that blocks holds up the handshakes that log
	// to it, and no others.
	KeyLogWriter io.Writer

	// Trace is told what happens on the connections. Nil tells nobody and costs nothing.
	Trace *Trace

	// SharedHashing lets these connections hash together with others of the process that have it
	// set. The long frames of those that are busy at the same time then advance side by side where
	// the processor can, which raises the throughput of many connections up to several times.
	// Without it, the MAC of each connection is hashed by itself, except within one [Broadcast],
	// [WriteAll] or [SendAll].
	//
	// It is for nodes with many busy connections and few goroutines that compute beside them. To
	// meet the others, a goroutine yields to those that are ready to run, once for each piece of up
	// to 64 KiB of a frame that is sent or received. From time to time, the process compares
	// throughput with sharing and without for some milliseconds, and does what is better. Beside
	// goroutines that compute, a loss may remain all the same: measure your own load before you set
	// it. A Conn of [NewConn] has no Config and never shares.
	SharedHashing bool

	// MaxHandshakes is how many handshakes a Listener computes side by side, each from the arrival
	// of its whole auth packet until ack is ready to be sent; VerifyPeer is part of it. Further
	// ones wait in turn. Zero means DefaultMaxHandshakes.
	MaxHandshakes int

	// MaxPending is how many connections a Listener holds that Accept has not
	// returned yet, in whatever state. When there is no room for a new one, that which
	// has waited longest for its peer's auth is closed (ErrEvicted). If none waits
	// for its peer, new connections stay in the backlog of the inner listener.
	// Zero means DefaultMaxPending.
	MaxPending int

	// Allow decides whether a Listener takes a connection from the given address, before a byte is
	// read. An error closes the connection at once. Each call has the goroutine and the place of
	// its connection, so it must be safe for concurrent use, and what it waits for is taken from
	// the connection's HandshakeTimeout. Nil allows everybody.
	Allow func(addr net.Addr) error

	// OnError is told of every connection that a Listener accepted from the
	// inner listener and that Accept will not return, once, when it is closed.
	// The error matches ErrRefused, or ErrHandshake, also with ErrEvicted, or
	// net.ErrClosed if the Listener was closed first. It is also told, with the
	// Listener's own address, of errors of the inner listener after which it goes
	// on accepting. Each call has a goroutine of its own, so it must be safe for
	// concurrent use, may take its time and may call Close. While MaxPending calls
	// are under way, the Listener holds further ones back and in the end accepts nothing.
	OnError func(addr net.Addr, err error)
}

// Clone returns a copy of c. It is safe to clone a Config in use.
func (c *Config) Clone() *Config {
	if c == nil {
		return nil
	}
	clone := *c
	return &clone
}

func (c *Config) handshakeTimeout() time.Duration {
	if c.HandshakeTimeout == 0 {
		return DefaultHandshakeTimeout
	}
	return c.HandshakeTimeout
}

func (c *Config) maxHandshakes() int {
	if c.MaxHandshakes <= 0 {
		return DefaultMaxHandshakes
	}
	return c.MaxHandshakes
}

func (c *Config) maxPending() int {
	if c.MaxPending <= 0 {
		return DefaultMaxPending
	}
	return c.MaxPending
}

func (c *Config) maxMessageSize() int {
	if c.MaxMessageSize <= 0 || c.MaxMessageSize > maxUint24 {
		return maxUint24
	}
	return c.MaxMessageSize
}

func (c *Config) sendQueue() int {
	if c.SendQueue <= 0 {
		return DefaultSendQueue
	}
	return max(c.SendQueue, minSendQueue)
}

// messageLimit is the plain size allowed for messages of the given code.
func (c *Config) messageLimit(code uint64) int {
	limit := c.maxMessageSize()
	if c.MessageLimit != nil {
		limit = min(limit, max(0, c.MessageLimit(code)))
	}
	return limit
}

// checkKey returns handshake.ErrInvalidPrivateKey for a Config that nobody can shake hands with.
func (c *Config) checkKey() error {
	if c == nil || c.Key == nil {
		return fmt.Errorf("%w: Config.Key is not set", handshake.ErrInvalidPrivateKey)
	}
	return handshake.CheckKey(c.Key)
}
