// Package rlpx is the encrypted transport under Ethereum's execution-layer
// peer-to-peer network: the EIP-8 handshake, authenticated frames, and snappy
// compression of messages (EIP-706). The specification is rlpx.md of the
// ethereum/devp2p repository.
//
// [Conn] is a drop-in for the type of the same name in go-ethereum's p2p/rlpx.
// The base protocol on top of it (Hello, Disconnect, Ping, capabilities) is package
// rlpx/p2p; most programs want that one. Peer discovery and the eth and snap
// protocols live elsewhere.
//
// [Dial] and [Listen] give connections whose handshake is done. A [Listener] runs
// the handshakes of its peers side by side, within bounds that Config sets, so
// that none of them can delay the others. [Broadcast], [Conn.WriteBatch] and
// [Compress] are for many peers and many messages.
//
// # One frame from Write to the wire
//
// [Conn.Write] (write.go) compresses, seals the frame into a pooled buffer
// (half.go, frame.go, package mac) and writes it with one call. [Conn.Read]
// (read.go) takes as many bytes as are there, opens one frame in place and
// decompresses it (snappy.go).
//
// # Concurrency
//
// Write may be called by several goroutines at once; those that meet at a busy
// connection share the next call on the net.Conn. Read is for one goroutine at
// a time, because it lends its buffer. Read, Write, Close and everything else
// may run side by side, and Close and the deadline setters never wait for a
// blocked Read or Write.
//
// # Ownership
//
// The data that Read returns is valid until the next Read. Write keeps and
// modifies nothing. A connection that waits for a frame holds 2 KiB of
// buffers, whatever it carried before.
//
// # Errors
//
// The first fatal error of a direction is permanent: later calls return it
// without touching the net.Conn. A read deadline that expires is not fatal, the next Read
// goes on at the same byte. A message that is too large to be sent is refused before
// anything changes. A frame that fails authentication ends both directions and
// closes the net.Conn.
//
// # Seeing inside
//
// [Trace] calls back for every step of a handshake, every frame, every call of Write on the net.Conn and the
// first error of each direction. [Conn.ConnectionState] counts messages, bytes, calls and Keccak permutations,
// and [SharedHashing] what connections with Config.SharedHashing hashed together. Config.KeyLogWriter logs
// what is needed to decrypt a capture. The module in examples/prometheus publishes what is counted for Prometheus.
//
// # What RLPx does not give
//
// Both directions are encrypted with the same AES-CTR keystream, so whoever
// sees both ciphertexts learns the XOR of the two plaintexts where they overlap. That is the protocol, and
// every client does it. Treat RLPx as authentication of the peer and integrity
// of the messages, not as strong confidentiality.
package rlpx
