// Package mac computes the message authentication codes of RLPx frames: the
// "MAC" section of the RLPx specification (devp2p, rlpx.md).
//
// Each direction of a connection keeps one running Keccak-256 state. A frame
// changes it three times, in the spec's words:
//
//	header-mac-seed = aes(mac-secret, keccak256.digest(mac)[:16]) ^ header-ciphertext
//	mac             = keccak256.update(mac, header-mac-seed)
//	header-mac      = keccak256.digest(mac)[:16]
//
//	mac             = keccak256.update(mac, frame-ciphertext)
//	frame-mac-seed  = aes(mac-secret, keccak256.digest(mac)[:16]) ^ keccak256.digest(mac)[:16]
//	mac             = keccak256.update(mac, frame-mac-seed)
//	frame-mac       = keccak256.digest(mac)[:16]
//
// Read literally that is five digests a frame. Three are enough, and a digest
// costs as much as 136 bytes of data: the first digest of a header is the one
// that was the previous frame's MAC, so [MAC] keeps it; and the two digests in
// frame-mac-seed are of the same state.
//
// Most programs want package rlpx, whose Conn computes the tags, encrypts and frames. This package
// is usable alone by those who have the secrets and the bytes of a session, such as a decoder of
// captures: it holds no connection and encrypts no data.
//
// # Fast and portable
//
// A state made by golang.org/x/crypto/sha3 or go-ethereum is taken over into a
// value-type Keccak sponge. Any other hash.Hash works through its own methods.
// Both paths give the same tags for the same hash function.
//
// # Sharing
//
// One Keccak state is a chain, but processors with AVX2 or AVX-512 advance four or eight states at
// about the cost of one or two. [Batch] does so with the frames that it is given.
//
// Long pieces of connections that are busy at the same time meet in a queue of the process and are
// absorbed side by side, if [MAC.Share] allows it, which it does not at first. A goroutine yields
// to meet others, which costs a turn of the run queue. So the queue compares the throughput with
// sharing and without, in periods of 1 ms, and keeps the better one for 64 times as long as the
// comparison cost. Connections without company are never asked to wait. [Queue] tells what was
// done.
//
// # Ownership
//
// A [MAC] is not safe for concurrent use. It takes over the hash it is made
// from: the caller must not write to that hash any more. Arguments are neither
// kept nor modified. Comparing tags in constant time is the caller's duty.
package mac
