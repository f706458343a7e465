// Package rlpx is the encrypted transport under Ethereum's execution-layer peer-to-peer network:
// the EIP-8 handshake, authenticated frames, and snappy compression of messages (EIP-706). The
// specification is rlpx.md of the ethereum/devp2p repository.
//
// # Which type do I want?
//
// Most programs want package rlpx/p2p: a p2p.Session has the base protocol of RLPx (Hello,
// Disconnect, Ping, capabilities) and uses a [Conn] of this package underneath. [Conn] alone is
// for protocols of your own, and a drop-in for the type of the same name in go-ethereum's
// p2p/rlpx. Peer discovery and the eth and snap protocols live elsewhere.
//
// # One connection
//
// [Dial] and [Listen] give connections whose handshake is done. [Client] and [Server] wrap a
// net.Conn of your own, whose handshake is [Conn.HandshakeContext]. [Conn.Write] waits until its
// message is written, [Conn.WriteContext] until a context ends, and [Conn.WriteBatch] sends many
// messages with few calls. [Conn.Read] lends the next message. [Pipe] makes two connections in
// memory, for tests.
//
// # Many peers
//
// [WriteAll] and [Broadcast] send one message to many and wait; [SendAll] does not wait.
// [Compress] makes a [Payload] that is compressed once for all. A [Listener] runs the handshakes
// of its peers side by side, within bounds that Config sets, so that none of them can delay the
// others.
//
// Config.SharedHashing, off by default, lets many connections that are busy at the same time hash
// together.
//
// # Slow peers
//
// [Conn.Send] queues a message within Config.SendQueue and never waits; [ErrQueueFull] says that a
// peer does not keep up. [Conn.SetWriteTimeout] ends a connection whose peer takes nothing.
//
// # Limits
//
// Config.MaxMessageSize, Config.MessageLimit, [Conn.SetReadLimit] and [Conn.SetMessageLimit] bound
// what Read accepts. All are checked before memory is taken. Config.MaxPending,
// Config.MaxHandshakes and Config.Allow bound what strangers can make a [Listener] do.
//
// # Errors to branch on
//
// The first fatal error of a direction is permanent: later calls return it without touching the
// net.Conn. Use errors.Is for values, and errors.As for types.
//
//	io.EOF, io.ErrUnexpectedEOF   the peer closed the connection, between two frames or inside one
//	a net.Error with Timeout()    Read: the deadline expired, and the next Read goes on at the same byte
//	net.ErrClosed                 Close or CloseWrite was called here
//	ErrConnect                    Dial: no connection to that address, so nothing of a handshake yet
//	ErrHandshake                  the handshake failed. Sentinels of transport/handshake say how:
//	                              handshake.ErrRemoteClosed may be a wrong node key, or a peer that is full
//	ErrAuthentication             a frame failed its MAC. Both directions ended, the net.Conn is closed
//	ErrProtocol                   the peer broke the rules. Nothing more can be read, but Write works
//	*PayloadError                 one of these: a payload that does not decompress
//	ErrMessageTooBig, *SizeError  a message over a limit. Of Write: nothing was changed
//	ErrWriteTimeout               the peer takes nothing. Both directions ended, the net.Conn is closed
//	ErrQueueFull                  Send: the peer does not keep up. Nothing was changed
//	ErrRefused, ErrEvicted        Config.OnError: a Listener gave the connection up
//	*PanicError                   the net.Conn or a callback panicked
//
// # Looking inside
//
// [Trace] calls back for every step of a handshake, every frame, every call of Write on the
// net.Conn and the first error of each direction. [Conn.ConnectionState] counts messages, bytes,
// calls and Keccak permutations, and [SharedHashing] what connections with Config.SharedHashing
// hashed together. Config.KeyLogWriter logs what is needed to decrypt a capture, which the
// command's decode does. The module in examples/prometheus publishes what is counted for
// Prometheus.
//
// # In place of go-ethereum's p2p/rlpx
//
// [NewConn], [Conn] and [Secrets] have the names, signatures and meaning of theirs; the README has
// the commands that put them into a client. These things are different: a read deadline that
// expires loses nothing, and Read may be called again. Several goroutines may write at once.
// Errors are those above, and their texts contain theirs. A failed handshake or MAC closes the
// net.Conn. After a payload that does not decompress, Read keeps its error, while Write goes on.
//
// # One frame from Write to the wire
//
// [Conn.Write] makes an item of the message and adds it to the connection's queue. Whoever finds
// nobody at work there is the owner of the sending direction: it compresses and seals what is
// queued into one pooled buffer and writes it with one call, without holding a lock. [Conn.Read]
// takes as many bytes as are there, opens one frame in place and decompresses it.
//
// # Concurrency
//
// Write and everything else that sends may be called by several goroutines at once; messages go
// out whole, in the order of the calls, and those that meet at a busy connection share the next
// call on the net.Conn. Read is for one goroutine at a time, because it lends its buffer. Read,
// Write, Close and everything else may run side by side, and Close and the deadline setters never
// wait for a blocked Read or Write.
//
// # Ownership
//
// The data that Read returns is valid until the next Read. What sends keeps and modifies nothing,
// but for the data of a [Payload]. A connection that waits for a frame holds no buffer where it is
// a TCP or Unix socket itself, and 2 KiB elsewhere, whatever it carried before.
//
// # Time
//
// Every bound holds on every net.Conn, also on one that has no deadlines or ignores them: a timer
// closes it.
//
//	Config.HandshakeTimeout     the whole handshake; in a Listener from accept on, Allow included
//	HandshakeContext, Dial      the context bounds it, too; a Listener's Close ends it
//	SetWriteTimeout             each call of Write on the net.Conn
//	WriteContext, WriteAll ...  the context bounds the wait for what is before; what is being sent has SetWriteTimeout
//	WriteLast, Accept           until the context ends
//	SetDeadline ...             the net.Conn's own deadlines, and its error if it has none
//
// # Callbacks
//
// Every callback may end the connection or the [Listener] that it concerns, with Close: neither
// waits for callbacks.
//
//	Config.Allow                the connection's goroutine, with a place of the Listener
//	Config.VerifyPeer           the goroutine of the handshake, with a slot of the Listener
//	Config.KeyLogWriter         the same, without a slot; sessions with the same writer wait for it
//	Config.OnError              a goroutine of its own
//	Config.MessageLimit         the goroutine that calls Read
//	Trace                       see there
//
// A panic in one goes on to whoever called this package. What it was in has failed then, and
// nothing waits for it. In a goroutine of a Listener it ends the process; in one that writes for
// [Conn.Send], [PanicError] says it.
//
// # What RLPx does not give
//
// Both directions are encrypted with the same AES-CTR keystream, so whoever sees both ciphertexts
// learns the XOR of the two plaintexts where they overlap. That is the protocol, and every client
// does it. Treat RLPx as authentication of the peer and integrity of the messages, not as strong
// confidentiality.
package rlpx
