package rlpx

import (
	"crypto/ecdsa"
	"sync"
	"time"

	"github.com/go-rlpx/transport/mac"
)

// ConnectionState is what is known about a connection at one moment.
type ConnectionState struct {
	// HandshakeComplete says that messages can be read and written.
	HandshakeComplete bool

	// Initiator says that this side dialled, and sent auth.
	Initiator bool

	// LocalKey is our static key in the handshake, nil before it.
	LocalKey *ecdsa.PublicKey

	// RemoteKey is the static key of the peer, nil before the handshake.
	RemoteKey *ecdsa.PublicKey

	// PeerProven says that a frame of the peer was verified, which only the
	// owner of RemoteKey can make. Until then a recipient knows no more than a
	// claim: anybody can send an auth packet with somebody else's key and will
	// be answered.
	PeerProven bool

	// HandshakeDeadline is when the Config's HandshakeTimeout ended the handshake,
	// had it taken so long; zero if there was no such bound. Package p2p takes it
	// for the deadline of Hello as well. The time for which a Listener waited for Accept is added.
	HandshakeDeadline time.Time

	// Snappy says that messages are compressed in both directions. See [Conn.SetSnappy].
	Snappy bool

	// LastWrite is when a call on the net.Conn last wrote something while there was a write
	// timeout, zero if there was none. See [Conn.SetWriteTimeout].
	LastWrite time.Time

	Stats Stats
}

// Stats counts what a connection carried since its session started.
type Stats struct {
	MessagesRead, MessagesWritten     uint64
	PlainBytesRead, PlainBytesWritten uint64 // message data before compression
	DataBytesRead, DataBytesWritten   uint64 // message data as on the wire
	WireBytesRead, WireBytesWritten   uint64 // all that went through the net.Conn
	ReadCalls, WriteCalls             uint64 // calls on the net.Conn

	// Runs of the Keccak permutation for the MACs of each direction, which is most of what a frame
	// costs: four for the smallest, and one for each 136 bytes. Whether they ran alone or beside
	// others is the next counters' concern. Zero for a hash of [Secrets] that only knows its own
	// methods.
	PermutationsRead, PermutationsWritten uint64

	// Pieces of long frames that were hashed in one pass with those of other connections, and how
	// many lanes were busy in these passes, all of them together: SharedLanes / SharedPieces is how
	// many lanes a piece shared on average, its own included. Zero without Config.SharedHashing.
	// See [SharedHashing] for the process as a whole.
	SharedPiecesRead, SharedPiecesWritten uint64
	SharedLanesRead, SharedLanesWritten   uint64
}

// SharedHashing returns what the process did so far in the queue in which connections with
// Config.SharedHashing hash together when they are busy at the same time, and whether they do at
// the moment.
func SharedHashing() mac.QueueStats { return mac.Queue() }

// ConnectionState returns the state of the connection. It never waits for a
// blocked Read or Write.
func (c *Conn) ConnectionState() ConnectionState {
	state := ConnectionState{
		Initiator: c.dialer,
		Snappy:    c.snappy.Load(),
	}
	if c.phase.Load() == phaseEstablished {
		state.HandshakeComplete = true
		state.LocalKey = c.local
		if deadline := c.deadline.Load(); deadline != nil {
			state.HandshakeDeadline = *deadline
		}
		state.RemoteKey = c.remote
		if last := c.out.watchdog.last.Load(); last != 0 {
			state.LastWrite = epoch.Add(time.Duration(last))
		}
		state.PeerProven = c.proven.Load()
		state.Stats = c.collectStats()
	}
	return state
}

// directionStats are the Stats of one direction, guarded by its mu.
type directionStats struct {
	messages, plain, data, wire, calls uint64
	hashed                             mac.Work
}

func (s *directionStats) message(plain, data int) {
	s.messages++
	s.plain += uint64(plain)
	s.data += uint64(data)
}

func (s *directionStats) call(n int) {
	s.calls++
	s.wire += uint64(n)
}

// publishedStats are a copy for those who cannot wait for a blocked Read. One
// uncontended lock is cheaper than five atomic counters.
type publishedStats struct {
	mu    sync.Mutex
	stats directionStats
}

func (p *publishedStats) set(stats directionStats) {
	p.mu.Lock()
	p.stats = stats
	p.mu.Unlock()
}

func (p *publishedStats) get() directionStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

func (c *Conn) collectStats() Stats {
	in, out := c.in.published.get(), c.out.snapshot()
	return Stats{
		MessagesRead: in.messages, MessagesWritten: out.messages,
		PlainBytesRead: in.plain, PlainBytesWritten: out.plain,
		DataBytesRead: in.data, DataBytesWritten: out.data,
		WireBytesRead: in.wire, WireBytesWritten: out.wire,
		ReadCalls: in.calls, WriteCalls: out.calls,
		PermutationsRead: in.hashed.Permutations, PermutationsWritten: out.hashed.Permutations,
		SharedPiecesRead: in.hashed.SharedPieces, SharedPiecesWritten: out.hashed.SharedPieces,
		SharedLanesRead: in.hashed.SharedLanes, SharedLanesWritten: out.hashed.SharedLanes,
	}
}
