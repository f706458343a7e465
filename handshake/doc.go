// Package handshake is the RLPx handshake in its EIP-8 form: two messages, auth and ack, after
// which both ends hold the session's secrets. It implements the section "Initial Handshake" of the
// devp2p rlpx specification; the pre-EIP-8 encoding is neither sent nor accepted.
//
// [Initiator] and [Responder] are state machines without I/O:
//
//	initiator                           recipient
//	WriteAuth  ------- auth packet -->  ReadAuth
//	ReadAck    <------ ack packet ----  WriteAck
//
// [Initiate] and [Respond] drive them over an io.ReadWriter, with bounded reads and one overall
// deadline, and say how far they are to those who ask ([Steps]). Most programs want neither but
// package rlpx, whose Conn performs the handshake and goes on with frames.
//
// # What a finished handshake proves
//
// For the initiator: the holder of the remote static key took part, since nobody else can read
// auth. For the recipient: nothing yet. The signature in auth is not checked against a key; the
// initiator's ephemeral key is recovered from it. Anyone can therefore send the public key of
// somebody else with an arbitrary signature, and gets an ack for it, though one that only the real
// owner can read. The recipient knows that [Secrets.Remote] is genuine when the first frame's MAC
// verifies, and must not treat the peer as authenticated before.
//
// # Failures
//
// Every failure that a peer can cause is an [*Error] around one of the sentinels of this package.
// To the peer all of them look alike: nothing is written. Points that arrive are checked to be
// canonical and on the curve before they are multiplied by anything; a failed read leaves a state
// machine as it was.
//
// # Ownership and concurrency
//
// An Initiator or Responder serves one handshake and one goroutine. Packets handed to ReadAuth and
// ReadAck are neither modified nor kept; packets made by WriteAuth and WriteAck belong to the
// caller.
//
// Private keys, nonces, shared secrets and decrypted messages are overwritten with zeros when they
// have served: at the latest when the handshake is complete, and by the driver also when it fails.
// Out of reach are the key schedules inside crypto/aes, the copies that a Keccak state of x/crypto
// makes of itself, and what is left on stacks. [Secrets] belongs to the caller.
//
// # Randomness
//
// All randomness comes from the reader that the caller gives, in an order that does not change, so
// that recorded bytes replay to the same packet. WriteAuth and WriteAck each read: the nonce (32
// bytes), the ephemeral private key (32 bytes, again while it is zero or not below the group
// order), the padding length (2 bytes, again while they are 65526 or more), the private key of the
// ECIES ephemeral point (32 bytes, as before), the ECIES IV (16 bytes). Signatures are
// deterministic (RFC 6979).
package handshake
