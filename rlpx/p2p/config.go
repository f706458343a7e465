package p2p

import (
	"math"
	"time"
)

// What a SessionConfig's zeros stand for.
const (
	// DefaultPingInterval is how often go-ethereum sends a Ping.
	DefaultPingInterval = 15 * time.Second

	// DefaultReadTimeout leaves room for a Ping after half of it to be answered. It is what
	// go-ethereum allows for a message.
	DefaultReadTimeout = 30 * time.Second

	// DefaultWriteTimeout lets a message of 2 MB through to a peer that takes 100 KB a second. It
	// is what go-ethereum allows for a message.
	DefaultWriteTimeout = 20 * time.Second

	// DefaultStallTimeout is for how long a peer's writes may make no progress before it gives up,
	// if it is go-ethereum.
	DefaultStallTimeout = 20 * time.Second

	// DefaultQueueBytes and DefaultQueueMessages keep some packets of usual size for a reader that
	// is busy for a moment. A node with 100 peers, none of whose messages it reads, holds 25 MiB
	// for each capability.
	DefaultQueueBytes    = 256 << 10
	DefaultQueueMessages = 64
)

// A SessionConfig says what a Session announces and what it puts up with. A zero field stands for
// its default; a negative time for no bound at all, or for no keep-alive. A SessionConfig may serve
// many sessions and must not be modified once it does; this package never modifies it.
type SessionConfig struct {
	// What our Hello says.
	Name         string
	Version      uint64 // of the base protocol, see Version
	ListenPort   uint64 // where we listen; a relic that other clients ignore, and 0 in most
	Capabilities Capabilities

	// PingInterval is how long we may have received nothing, or have sent nothing, before a
	// keep-alive Ping is due. It is at most half of ReadTimeout: later, a Pong might come too late.
	PingInterval time.Duration

	// ReadTimeout is how long a peer may take from one message to the end of the next, of whatever
	// kind. A peer that takes longer is gone: the session ends with ErrReadTimeout.
	ReadTimeout time.Duration

	// WriteTimeout is how long a write may make no progress before the session ends. Progress is a
	// call on the net.Conn that returns, with at most about 256 KiB or one frame of up to 1 MiB:
	// see rlpx.Conn.SetWriteTimeout.
	WriteTimeout time.Duration

	// QueueBytes and QueueMessages bound what is kept of each capability's messages until its
	// Channel is read. While the queue has no room for a message nothing at all is read from the
	// peer, until it stops sending. A message larger than QueueBytes is not queued: it waits for a
	// call of Read that takes it. So a peer makes a session hold no more than QueueBytes for each
	// capability and one message; see Capability.MaxMessageSize for the size of that.
	QueueBytes    int
	QueueMessages int

	// Trace is told what happens to the sessions. Nil tells nobody.
	Trace *SessionTrace

	// StallTimeout is how long a full queue may stop the session before it ends with ErrStalled.
	StallTimeout time.Duration
}

// Clone returns a copy of c that shares no memory with it.
func (c *SessionConfig) Clone() *SessionConfig {
	if c == nil {
		return nil
	}
	clone := *c
	clone.Capabilities = append(Capabilities(nil), c.Capabilities...)
	return &clone
}

// withDefaults returns a copy of c in which every field says what it means.
func (c *SessionConfig) withDefaults() SessionConfig {
	if c == nil {
		c = new(SessionConfig)
	}
	full := *c
	for _, field := range []struct {
		value *time.Duration
		zero  time.Duration
	}{
		{&full.PingInterval, DefaultPingInterval},
		{&full.ReadTimeout, DefaultReadTimeout},
		{&full.WriteTimeout, DefaultWriteTimeout},
		{&full.StallTimeout, DefaultStallTimeout},
	} {
		switch {
		case *field.value == 0:
			*field.value = field.zero
		case *field.value < 0:
			*field.value = never
		}
	}
	if full.PingInterval < never {
		full.PingInterval = min(full.PingInterval, full.ReadTimeout/2)
	}
	if full.Trace == nil {
		full.Trace = new(SessionTrace)
	}
	if full.QueueBytes <= 0 {
		full.QueueBytes = DefaultQueueBytes
	}
	if full.QueueMessages <= 0 {
		full.QueueMessages = DefaultQueueMessages
	}
	return full
}

// never is a time that does not pass, and may be added to another.
const never = time.Duration(math.MaxInt64 / 4)

// hello is our Hello but for the ID.
func (c *SessionConfig) hello() *Hello {
	return &Hello{Version: c.Version, Name: c.Name, Caps: c.Capabilities.Caps(), ListenPort: c.ListenPort}
}
