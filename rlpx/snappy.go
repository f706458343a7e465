package rlpx

import (
	"errors"
	"math"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/bufpool"
)

// Compression of message payloads (EIP-706): the snappy block format, whose
// first bytes declare the length after decompression.

// A snappy element of three bytes copies at most 64, and no other gives more
// for less. What declares a larger expansion is corrupt, and refused before
// memory is found for it.
const (
	maxCopy     = 64
	maxCopyCost = 3
)

// encodeOverrun is how far behind the end of a block the encoder may leave bytes of
// the message: its assembly copies literals 16 bytes at a time. Who releases
// the buffer clears the block alone.
const encodeOverrun = 16

// maxCodeLen is the longest message code: a 64-bit RLP integer.
const maxCodeLen = 9

// encode writes the block for data to dst, which is at least snappy.MaxEncodedLen long, and returns
// its length.
func encode(dst, data []byte) int { return len(snappy.Encode(dst, data)) }

// compress returns the block for data as the first n bytes of a buffer that
// the caller releases.
func compress(data []byte) (block bufpool.Buffer, n int) {
	block = bufpool.Get(snappy.MaxEncodedLen(len(data)))
	n = encode(block.B, data)
	clear(block.B[n:min(n+encodeOverrun, len(block.B))])
	return block, n
}

// decodedLen is the length that a block declares.
func decodedLen(block []byte) (int, error) {
	n, err := snappy.DecodedLen(block)
	if errors.Is(err, snappy.ErrTooLarge) {
		// Where int has 32 bits. The caller's limit says the same in better words.
		return math.MaxInt, nil
	}
	return n, err
}

// plausible reports whether a block of the given length can expand to size bytes.
func plausible(size, block int) bool {
	return size <= block*maxCopy/maxCopyCost
}

// decompress decodes block into dst, which must have the length that it declares.
func decompress(dst, block []byte) ([]byte, error) {
	data, err := snappy.Decode(dst, block)
	if err != nil {
		return nil, err
	}
	return data[:len(data):len(data)], nil
}

// maxFrameFor is the largest frame data that can carry a message of the given plain size.
func maxFrameFor(plain int, compressed bool) int {
	if compressed {
		plain = snappy.MaxEncodedLen(plain)
	}
	return maxCodeLen + plain
}
