package p2p

import "time"

// A SessionTrace is a set of callbacks for SessionConfig.Trace: what a program logs or counts of
// its sessions. Any of them may be nil. One SessionTrace serves many sessions at once, so they must
// be safe for concurrent use. Each may use its session in any way, and end it with End, Disconnect
// or Close. Of frames and handshakes, rlpx.Trace tells.
type SessionTrace struct {
	// Started is called when Hello is through, before the first message.
	Started func(s *Session)

	// Ended is called once, when the session has ended, its connection is closed and nothing is
	// received any more. err is that of Session.Err: a *DisconnectError in its chain says who ended
	// it and for what reason.
	Ended func(s *Session, err error)

	// Pong is called with the round trip of a Ping, also of those that keep the session alive.
	Pong func(s *Session, took time.Duration)

	// Stalled is called after the reader had to wait for room in the queue of a capability.
	Stalled func(s *Session, ch *Channel, took time.Duration)
}
