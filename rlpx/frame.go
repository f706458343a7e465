package rlpx

import (
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/go-rlpx/transport/mac"
)

// The layout of a frame (rlpx.md, "Framing"):
//
//	header-ciphertext ‖ header-mac ‖ frame-ciphertext ‖ frame-mac
//
// where the header holds the size of the frame data, and the frame data, the message code and
// the payload, is padded with zeros to the cipher's block.
const (
	blockSize  = 16 // AES
	headerSize = blockSize

	// headerWire is a header as it travels, with its MAC.
	headerWire = headerSize + mac.Size

	// maxUint24 bounds the frame data, since its size is a 24-bit number, and the plain message
	// (EIP-706).
	maxUint24 = 1<<24 - 1
)

// headerData is rlp([capability-id, context-id]), both always zero.
var headerData = [3]byte{0xC2, 0x80, 0x80}

// putHeader makes the plaintext of the header in h, 16 bytes.
func putHeader(h []byte, size int) {
	h[0], h[1], h[2] = byte(size>>16), byte(size>>8), byte(size)
	n := 3 + copy(h[3:], headerData[:])
	clear(h[n:headerSize])
}

// frameSize is the size of the frame data that a header's plaintext declares.
// The rest of the header is ignored whatever it is: chunked frames are gone
// from the protocol, and clients differ in what they put there.
func frameSize(h []byte) int {
	return int(h[0])<<16 | int(h[1])<<8 | int(h[2])
}

// padded is the length of the frame-ciphertext for frame data of the given size.
func padded(size int) int {
	return (size + blockSize - 1) &^ (blockSize - 1)
}

// wireLen is the length of a whole frame with frame data of the given size.
func wireLen(size int) int {
	return headerWire + padded(size) + mac.Size
}

// dataSize is the size of the frame data of a message, whose code travels as an RLP integer.
func dataSize(code uint64, payload int) int {
	return rlp.IntSize(code) + payload
}
