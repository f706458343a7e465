// Package rlpxtest helps to test RLPx connections: a peer that can say what no
// honest peer says, net.Conns that misbehave in one chosen way, and checks for
// what must not be left behind.
//
// # The raw peer
//
// A [Session] is one end of an RLPx session that owns its secrets. Its framing
// is written word by word after the "Framing" and "MAC" sections of the RLPx
// specification (devp2p, rlpx.md), five digests a frame, over x/crypto's Keccak. It shares no
// code with the packages under test, so it is an oracle for them. A [RawPeer] is a Session over
// a net.Conn: it sends any header and any frame data with correct MACs, damages and
// cuts what it sends, stalls and resets, and shows what it receives as it was on the wire.
//
// # Recorded sessions
//
// A [Recorder] takes down a live session below the connection under test, as a [Transcript]: a text
// file that can be replayed without the peer. A Session opens its frames.
//
// # Imports
//
// Nothing here imports package rlpx, so that its own tests can use this. Secrets
// come as plain values, for rlpx.Conn.InitWithSecrets, or out of a real handshake.
//
// Nothing here is safe for concurrent use unless it says so.
package rlpxtest
