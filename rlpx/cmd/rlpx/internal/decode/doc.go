// Package decode decrypts the RLPx sessions of a packet capture whose secrets are in a key log.
//
// A [Decoder] is the capture.Handler of a capture. It takes the TCP connections that begin with an
// auth packet, finds their secrets by the X coordinate of that packet's ephemeral point, seeds the
// MAC states of both directions as the specification has it (rlpx.md, "MAC"), and verifies and
// decrypts each frame. What it finds goes to a [Sink]: sessions, handshake packets, messages, and
// notes about what could not be decoded.
//
// Nothing of a frame is given out before its MAC was verified. Where a MAC is wrong or bytes are
// missing, the direction ends, since each MAC covers everything before it; the other direction goes
// on.
//
// # Codes
//
// Which capability a message belongs to follows from the two Hellos of the session, and so does
// compression. A message that was captured before the other side's Hello waits for it, within
// bounds.
//
// # Bounds
//
// Sizes that a frame announces cost nothing: buffers grow with what came. The payloads of frames
// under way take maxHeld bytes together. A frame that finds no room is verified all the same, but
// its payload is not there.
//
// # Ownership and concurrency
//
// What a Sink gets is valid during the call, but for *Session, which stays. Nothing here may be
// used by several goroutines at once. Texts in notes and in the String methods of package p2p are
// safe to print; the fields of a Hello and payloads are as a peer chose them.
package decode
