// Package p2p implements the "p2p" base protocol of RLPx: the messages that two nodes exchange
// before and beside those of their capabilities. It follows the section "p2p" Capability of the
// rlpx.md document of ethereum/devp2p; messages are told apart by these codes:
//
//	0x00  Hello       [version, clientId, [[name, version], ...], listenPort, nodeKey, ...]
//	0x01  Disconnect  [reason]
//	0x02  Ping        []
//	0x03  Pong        []
//
// Codes 0x04 to 0x0f are reserved, and 0x10 and above belong to the capabilities that both sides
// announced in Hello: [Match] finds these and fixes which codes are whose.
//
// # Sessions
//
// [NewSession] makes a [Session] of a connection from package rlpx: it exchanges Hello, matches
// capabilities, and from then on gives the messages of each capability to its [Channel], answers
// Ping, keeps the connection alive and says Disconnect at the end. A session has one goroutine,
// and none after its Done channel is closed. Each Channel should be read all the time: what is not
// read is kept up to a bound, and beyond it nothing more is read from the peer, for any capability.
//
// [Dial] makes a session from an enode URL, and a [Listener] accepts them. [Pipe] makes a pair in memory
// for tests.
//
// To receive, a capability has a Handle function, which is called with data that is lent, or its
// Channel is read. To send, [Channel.Write] waits until a message is written, and [Channel.Send] queues
// it and never waits: rlpx.ErrQueueFull says that the peer does not keep up. [Broadcast] and
// [SendAll] do so for many peers at once. A [SessionTrace] tells of beginnings, ends, round trips and stalls.
//
// [Handshake] is Hello alone, for programs that go on with the connection themselves. [Refuse]
// turns a peer away before it.
//
// Both own the connection once they are called, up to closing it on error, and tell the peer why.
//
// # Time
//
// Every bound holds on every net.Conn, also on one that has no deadlines or ignores them: a timer closes it.
//
//	Handshake, NewSession         the context, else what is left of rlpx.Config.HandshakeTimeout, else HelloTimeout;
//	                              then up to a second for our Disconnect
//	SessionConfig.ReadTimeout     from one message of the peer to the end of the next; a Ping is due after half of it
//	SessionConfig.WriteTimeout    each call of Write on the net.Conn
//	SessionConfig.StallTimeout    a full queue
//	Disconnect, Close, Refuse     about a second, whatever the peer or a callback does
//
// # Callbacks
//
// Every callback may end its session with End, Disconnect or Close, and so may those of rlpx.Config: none of these waits for
// callbacks, but Done does.
//
//	Capability.Handle             the session's reader; what it waits for keeps all messages waiting
//	SessionTrace.Started          the goroutine that calls NewSession
//	SessionTrace.Pong, Stalled    the session's reader
//	SessionTrace.Ended            a goroutine of its own; Done is closed after it
//
// A panic in the reader's goroutine ends the process, as it does in any goroutine that a program starts.
//
// # Codecs
//
// The codecs here are pure: they neither hold nor touch a connection. Append functions add one
// message payload (what follows the code in a frame, before compression) to a slice of the caller.
// Decode functions keep no reference to their input and allocate by what they read, within the
// bounds below, never by what a peer announces.
//
// What a peer chose (its client name, its capability names) stays as it was sent in the fields of
// [Hello] and [Cap]. Their String methods and all error texts of this package escape and shorten
// it, so that these are safe to log.
//
// # Errors and concurrency
//
// Errors that callers branch on are sentinels or structs; [ReasonFor] gives the reason to send in a
// Disconnect for any of them.
//
// Sessions and their channels may be used by any goroutine at any time. All other values are safe
// for concurrent use as long as nobody modifies them; nothing modifies a [Matched] after it was
// made.
package p2p
