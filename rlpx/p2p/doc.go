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
// # Which type do I want?
//
// A [Session], nearly always: it is a connection of package rlpx with Hello exchanged, Pings
// answered and messages told apart by capability. Each capability that both sides have is a
// [Channel], through which its messages go. [Handshake] is Hello alone, for programs that go on
// with the rlpx.Conn themselves, and [Refuse] turns a peer away before it. The codecs, such as
// [DecodeHello] and [Match], hold no connection.
//
// # One connection
//
// [Dial] makes a session from an enode URL, which [ParseNode] takes apart, and a [Listener]
// accepts them. [NewSession] makes one of an rlpx.Conn whose handshake is done, and [Pipe] a pair
// in memory for tests. All of them own the connection from then on, up to closing it on error, and
// tell the peer why.
//
// To receive, a [Capability] has a Handle function, which is called with data that is lent, or its
// Channel is read. To send, [Channel.Write] waits until a message is written,
// [Channel.WriteContext] until a context ends, and [Channel.WriteBatch] sends many together.
// [Channel.WriteRLP] and [Channel.SendRLP] encode a value.
//
// [Session.Close] says Disconnect and ends the session. It has one goroutine, and none after its
// Done channel is closed.
//
// # Many peers
//
// [Broadcast] sends one message to many channels and waits, [SendAll] does not. Both compress once
// and seal for several peers together; the id of a message may become another code with each. A
// [Listener] does the handshakes of its peers side by side. A [Dialer] holds the configuration for
// many calls.
//
// # Slow peers
//
// [Channel.Send] queues a message and never waits: rlpx.ErrQueueFull says that the peer does not
// keep up, and whoever sends decides what to do about it. Who ends the session gives
// DiscUselessPeer for a reason, as other clients do; a peer that does not read will hardly see it.
// SessionConfig.WriteTimeout ends a session whose peer takes nothing at all.
//
// The other way round, each Channel without Handle should be read all the time: what is not read
// is kept up to a bound, and beyond it nothing more is read from the peer, for any capability.
// After SessionConfig.StallTimeout that ends the session.
//
// # Limits
//
//	Capability.MaxMessageSize                     bytes of a message, checked before it is decompressed
//	SessionConfig.QueueBytes, QueueMessages       what waits in a Channel to be read
//	rlpx.Config.SendQueue                         what Send keeps for a connection
//	rlpx.Config.MaxPending, MaxHandshakes, Allow  what strangers can make a Listener do
//	HelloLimit, MaxCaps                           Hello, until which nothing larger is read
//
// # Errors to branch on
//
// Use errors.Is for values, and errors.As for types. [Session.Err] says why a session ended, and
// all calls fail with that from then on.
//
//	ErrInvalidNode                  Dial: not an enode URL, or one that does not say where to dial
//	rlpx.ErrConnect                 Dial: no connection to the node's address
//	rlpx.ErrHandshake               Dial: the encrypted handshake failed, see package rlpx
//	DiscTooManyPeers and the like   a Disconnect with that reason was said, by either side
//	*DisconnectError                the same, with who said it
//	*UselessPeerError               no shared capability; it has the Hello of the peer
//	ErrUnexpectedIdentity, ErrSelf  Hello has another key than the handshake, or our own
//	ErrReadTimeout                  the peer is silent, and answers no Ping
//	ErrStalled                      we did not read a Channel
//	rlpx.ErrWriteTimeout            the peer takes nothing. Nobody said Disconnect, which cannot be sent
//	rlpx.ErrQueueFull               Send: the peer does not keep up. Nothing was changed
//	rlpx.ErrMessageTooBig           a message over a limit. Of our own: nothing was changed
//	ErrNotShared                    a nil Channel: the peer does not have the capability
//	net.ErrClosed                   Close, Disconnect or End was called here
//	io.EOF and errors of the net    the connection ended without a Disconnect
//
// [ReasonFor] gives the reason to send in a Disconnect for any error.
//
// # Looking inside
//
// A [SessionTrace] tells of beginnings, ends, round trips and stalls. [Session.Stats] counts
// messages of the base protocol, [Session.ConnectionState] everything beneath, and [Session.Ping]
// measures. rlpx.Config.Trace tells of frames, and its KeyLogWriter lets the command's decode read
// a capture.
//
// # Time
//
// Every bound holds on every net.Conn, also on one that has no deadlines or ignores them: a timer
// closes it.
//
//	Handshake, NewSession         the context, else what is left of rlpx.Config.HandshakeTimeout, else HelloTimeout;
//	                              then up to a second for our Disconnect
//	Dial                          the same, but that HandshakeTimeout bounds both handshakes whatever the context is
//	SessionConfig.ReadTimeout     from one message of the peer to the end of the next; a Ping is due after half of it
//	SessionConfig.WriteTimeout    each call of Write on the net.Conn
//	SessionConfig.StallTimeout    a full queue
//	Disconnect, Close, Refuse     about a second, whatever the peer or a callback does
//
// # Callbacks
//
// Every callback may end its session with End, Disconnect or Close, and so may those of
// rlpx.Config: none of these waits for callbacks, but Done does.
//
//	Capability.Handle             the session's reader; what it waits for keeps all messages waiting
//	SessionTrace.Started          the goroutine that calls NewSession
//	SessionTrace.Pong, Stalled    the session's reader
//	SessionTrace.Ended            a goroutine of its own; Done is closed after it
//
// A panic in the reader's goroutine ends the process, as it does in any goroutine that a program
// starts.
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
// # Concurrency
//
// Sessions and their channels may be used by any goroutine at any time. All other values are safe
// for concurrent use as long as nobody modifies them; nothing modifies a [Matched] after it was
// made.
package p2p
