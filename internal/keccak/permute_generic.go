package keccak

import (
	"encoding/binary"
	"math/bits"
)

// rounds is the number of rounds of Keccak-f[1600].
const rounds = 24

// roundConstants are the values that iota adds to lane (0, 0).
var roundConstants = [rounds]uint64{
	0x0000000000000001, 0x0000000000008082, 0x800000000000808a, 0x8000000080008000,
	0x000000000000808b, 0x0000000080000001, 0x8000000080008081, 0x8000000000008009,
	0x000000000000008a, 0x0000000000000088, 0x0000000080008009, 0x000000008000000a,
	0x000000008000808b, 0x800000000000008b, 0x8000000000008089, 0x8000000000008003,
	0x8000000000008002, 0x8000000000000080, 0x000000000000800a, 0x800000008000000a,
	0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008,
}

// xorBlock adds a block to a.
func xorBlock(a *[lanes]uint64, block *[Rate]byte) {
	for i := range rateLanes {
		a[i] ^= binary.LittleEndian.Uint64(block[i*laneSize:])
	}
}

// permuteAbsorbGeneric permutes a, then for each block of p xors it into a and
// permutes again. len(p) is a multiple of Rate.
func permuteAbsorbGeneric(a *[lanes]uint64, p []byte) {
	permuteGeneric(a)
	for len(p) >= Rate {
		xorBlock(a, (*[Rate]byte)(p))
		permuteGeneric(a)
		p = p[Rate:]
	}
}

// permuteGeneric applies Keccak-f[1600] to a.
//
// Four rounds are written out, after which every lane is at its place again:
// the five lanes of a row are written where the five were that it is made from,
// each into its own column, so that pi moves nothing. Lanes in local variables
// (7 % slower), parities summed up as rows are made (7 % slower) and
// complemented lanes (3 % faster, but 12 % slower where there is an and-not
// instruction) were tried.
func permuteGeneric(a *[lanes]uint64) {
	var b0, b1, b2, b3, b4, d0, d1, d2, d3, d4 uint64
	for i := 0; i < 24; i += 4 {
		// round 1 of 4
		b0 = a[0] ^ a[5] ^ a[10] ^ a[15] ^ a[20]
		b1 = a[1] ^ a[6] ^ a[11] ^ a[16] ^ a[21]
		b2 = a[2] ^ a[7] ^ a[12] ^ a[17] ^ a[22]
		b3 = a[3] ^ a[8] ^ a[13] ^ a[18] ^ a[23]
		b4 = a[4] ^ a[9] ^ a[14] ^ a[19] ^ a[24]
		d0 = b4 ^ bits.RotateLeft64(b1, 1)
		d1 = b0 ^ bits.RotateLeft64(b2, 1)
		d2 = b1 ^ bits.RotateLeft64(b3, 1)
		d3 = b2 ^ bits.RotateLeft64(b4, 1)
		d4 = b3 ^ bits.RotateLeft64(b0, 1)
		b0 = a[0] ^ d0
		b1 = bits.RotateLeft64(a[6]^d1, 44)
		b2 = bits.RotateLeft64(a[12]^d2, 43)
		b3 = bits.RotateLeft64(a[18]^d3, 21)
		b4 = bits.RotateLeft64(a[24]^d4, 14)
		a[0] = b0 ^ (b2 &^ b1) ^ roundConstants[i]
		a[6] = b1 ^ (b3 &^ b2)
		a[12] = b2 ^ (b4 &^ b3)
		a[18] = b3 ^ (b0 &^ b4)
		a[24] = b4 ^ (b1 &^ b0)
		b0 = bits.RotateLeft64(a[3]^d3, 28)
		b1 = bits.RotateLeft64(a[9]^d4, 20)
		b2 = bits.RotateLeft64(a[10]^d0, 3)
		b3 = bits.RotateLeft64(a[16]^d1, 45)
		b4 = bits.RotateLeft64(a[22]^d2, 61)
		a[10] = b0 ^ (b2 &^ b1)
		a[16] = b1 ^ (b3 &^ b2)
		a[22] = b2 ^ (b4 &^ b3)
		a[3] = b3 ^ (b0 &^ b4)
		a[9] = b4 ^ (b1 &^ b0)
		b0 = bits.RotateLeft64(a[1]^d1, 1)
		b1 = bits.RotateLeft64(a[7]^d2, 6)
		b2 = bits.RotateLeft64(a[13]^d3, 25)
		b3 = bits.RotateLeft64(a[19]^d4, 8)
		b4 = bits.RotateLeft64(a[20]^d0, 18)
		a[20] = b0 ^ (b2 &^ b1)
		a[1] = b1 ^ (b3 &^ b2)
		a[7] = b2 ^ (b4 &^ b3)
		a[13] = b3 ^ (b0 &^ b4)
		a[19] = b4 ^ (b1 &^ b0)
		b0 = bits.RotateLeft64(a[4]^d4, 27)
		b1 = bits.RotateLeft64(a[5]^d0, 36)
		b2 = bits.RotateLeft64(a[11]^d1, 10)
		b3 = bits.RotateLeft64(a[17]^d2, 15)
		b4 = bits.RotateLeft64(a[23]^d3, 56)
		a[5] = b0 ^ (b2 &^ b1)
		a[11] = b1 ^ (b3 &^ b2)
		a[17] = b2 ^ (b4 &^ b3)
		a[23] = b3 ^ (b0 &^ b4)
		a[4] = b4 ^ (b1 &^ b0)
		b0 = bits.RotateLeft64(a[2]^d2, 62)
		b1 = bits.RotateLeft64(a[8]^d3, 55)
		b2 = bits.RotateLeft64(a[14]^d4, 39)
		b3 = bits.RotateLeft64(a[15]^d0, 41)
		b4 = bits.RotateLeft64(a[21]^d1, 2)
		a[15] = b0 ^ (b2 &^ b1)
		a[21] = b1 ^ (b3 &^ b2)
		a[2] = b2 ^ (b4 &^ b3)
		a[8] = b3 ^ (b0 &^ b4)
		a[14] = b4 ^ (b1 &^ b0)
		// round 2 of 4
		b0 = a[0] ^ a[10] ^ a[20] ^ a[5] ^ a[15]
		b1 = a[6] ^ a[16] ^ a[1] ^ a[11] ^ a[21]
		b2 = a[12] ^ a[22] ^ a[7] ^ a[17] ^ a[2]
		b3 = a[18] ^ a[3] ^ a[13] ^ a[23] ^ a[8]
		b4 = a[24] ^ a[9] ^ a[19] ^ a[4] ^ a[14]
		d0 = b4 ^ bits.RotateLeft64(b1, 1)
		d1 = b0 ^ bits.RotateLeft64(b2, 1)
		d2 = b1 ^ bits.RotateLeft64(b3, 1)
		d3 = b2 ^ bits.RotateLeft64(b4, 1)
		d4 = b3 ^ bits.RotateLeft64(b0, 1)
		b0 = a[0] ^ d0
		b1 = bits.RotateLeft64(a[16]^d1, 44)
		b2 = bits.RotateLeft64(a[7]^d2, 43)
		b3 = bits.RotateLeft64(a[23]^d3, 21)
		b4 = bits.RotateLeft64(a[14]^d4, 14)
		a[0] = b0 ^ (b2 &^ b1) ^ roundConstants[i+1]
		a[16] = b1 ^ (b3 &^ b2)
		a[7] = b2 ^ (b4 &^ b3)
		a[23] = b3 ^ (b0 &^ b4)
		a[14] = b4 ^ (b1 &^ b0)
		b0 = bits.RotateLeft64(a[18]^d3, 28)
		b1 = bits.RotateLeft64(a[9]^d4, 20)
		b2 = bits.RotateLeft64(a[20]^d0, 3)
		b3 = bits.RotateLeft64(a[11]^d1, 45)
		b4 = bits.RotateLeft64(a[2]^d2, 61)
		a[20] = b0 ^ (b2 &^ b1)
		a[11] = b1 ^ (b3 &^ b2)
		a[2] = b2 ^ (b4 &^ b3)
		a[18] = b3 ^ (b0 &^ b4)
		a[9] = b4 ^ (b1 &^ b0)
		b0 = bits.RotateLeft64(a[6]^d1, 1)
		b1 = bits.RotateLeft64(a[22]^d2, 6)
		b2 = bits.RotateLeft64(a[13]^d3, 25)
		b3 = bits.RotateLeft64(a[4]^d4, 8)
		b4 = bits.RotateLeft64(a[15]^d0, 18)
		a[15] = b0 ^ (b2 &^ b1)
		a[6] = b1 ^ (b3 &^ b2)
		a[22] = b2 ^ (b4 &^ b3)
		a[13] = b3 ^ (b0 &^ b4)
		a[4] = b4 ^ (b1 &^ b0)
		b0 = bits.RotateLeft64(a[24]^d4, 27)
		b1 = bits.RotateLeft64(a[10]^d0, 36)
		b2 = bits.RotateLeft64(a[1]^d1, 10)
		b3 = bits.RotateLeft64(a[17]^d2, 15)
		b4 = bits.RotateLeft64(a[8]^d3, 56)
		a[10] = b0 ^ (b2 &^ b1)
		a[1] = b1 ^ (b3 &^ b2)
		a[17] = b2 ^ (b4 &^ b3)
		a[8] = b3 ^ (b0 &^ b4)
		a[24] = b4 ^ (b1 &^ b0)
		b0 = bits.RotateLeft64(a[12]^d2, 62)
		b1 = bits.RotateLeft64(a[3]^d3, 55)
		b2 = bits.RotateLeft64(a[19]^d4, 39)
		b3 = bits.RotateLeft64(a[5]^d0, 41)
		b4 = bits.RotateLeft64(a[21]^d1, 2)
		a[5] = b0 ^ (b2 &^ b1)
		a[21] = b1 ^ (b3 &^ b2)
		a[12] = b2 ^ (b4 &^ b3)
		a[3] = b3 ^ (b0 &^ b4)
		a[19] = b4 ^ (b1 &^ b0)
		// round 3 of 4
		b0 = a[0] ^ a[20] ^ a[15] ^ a[10] ^ a[5]
		b1 = a[16] ^ a[11] ^ a[6] ^ a[1] ^ a[21]
		b2 = a[7] ^ a[2] ^ a[22] ^ a[17] ^ a[12]
		b3 = a[23] ^ a[18] ^ a[13] ^ a[8] ^ a[3]
		b4 = a[14] ^ a[9] ^ a[4] ^ a[24] ^ a[19]
		d0 = b4 ^ bits.RotateLeft64(b1, 1)
		d1 = b0 ^ bits.RotateLeft64(b2, 1)
		d2 = b1 ^ bits.RotateLeft64(b3, 1)
		d3 = b2 ^ bits.RotateLeft64(b4, 1)
		d4 = b3 ^ bits.RotateLeft64(b0, 1)
		b0 = a[0] ^ d0
		b1 = bits.RotateLeft64(a[11]^d1, 44)
		b2 = bits.RotateLeft64(a[22]^d2, 43)
		b3 = bits.RotateLeft64(a[8]^d3, 21)
		b4 = bits.RotateLeft64(a[19]^d4, 14)
		a[0] = b0 ^ (b2 &^ b1) ^ roundConstants[i+2]
		a[11] = b1 ^ (b3 &^ b2)
		a[22] = b2 ^ (b4 &^ b3)
		a[8] = b3 ^ (b0 &^ b4)
		a[19] = b4 ^ (b1 &^ b0)
		b0 = bits.RotateLeft64(a[23]^d3, 28)
		b1 = bits.RotateLeft64(a[9]^d4, 20)
		b2 = bits.RotateLeft64(a[15]^d0, 3)
		b3 = bits.RotateLeft64(a[1]^d1, 45)
		b4 = bits.RotateLeft64(a[12]^d2, 61)
		a[15] = b0 ^ (b2 &^ b1)
		a[1] = b1 ^ (b3 &^ b2)
		a[12] = b2 ^ (b4 &^ b3)
		a[23] = b3 ^ (b0 &^ b4)
		a[9] = b4 ^ (b1 &^ b0)
		b0 = bits.RotateLeft64(a[16]^d1, 1)
		b1 = bits.RotateLeft64(a[2]^d2, 6)
		b2 = bits.RotateLeft64(a[13]^d3, 25)
		b3 = bits.RotateLeft64(a[24]^d4, 8)
		b4 = bits.RotateLeft64(a[5]^d0, 18)
		a[5] = b0 ^ (b2 &^ b1)
		a[16] = b1 ^ (b3 &^ b2)
		a[2] = b2 ^ (b4 &^ b3)
		a[13] = b3 ^ (b0 &^ b4)
		a[24] = b4 ^ (b1 &^ b0)
		b0 = bits.RotateLeft64(a[14]^d4, 27)
		b1 = bits.RotateLeft64(a[20]^d0, 36)
		b2 = bits.RotateLeft64(a[6]^d1, 10)
		b3 = bits.RotateLeft64(a[17]^d2, 15)
		b4 = bits.RotateLeft64(a[3]^d3, 56)
		a[20] = b0 ^ (b2 &^ b1)
		a[6] = b1 ^ (b3 &^ b2)
		a[17] = b2 ^ (b4 &^ b3)
		a[3] = b3 ^ (b0 &^ b4)
		a[14] = b4 ^ (b1 &^ b0)
		b0 = bits.RotateLeft64(a[7]^d2, 62)
		b1 = bits.RotateLeft64(a[18]^d3, 55)
		b2 = bits.RotateLeft64(a[4]^d4, 39)
		b3 = bits.RotateLeft64(a[10]^d0, 41)
		b4 = bits.RotateLeft64(a[21]^d1, 2)
		a[10] = b0 ^ (b2 &^ b1)
		a[21] = b1 ^ (b3 &^ b2)
		a[7] = b2 ^ (b4 &^ b3)
		a[18] = b3 ^ (b0 &^ b4)
		a[4] = b4 ^ (b1 &^ b0)
		// round 4 of 4
		b0 = a[0] ^ a[15] ^ a[5] ^ a[20] ^ a[10]
		b1 = a[11] ^ a[1] ^ a[16] ^ a[6] ^ a[21]
		b2 = a[22] ^ a[12] ^ a[2] ^ a[17] ^ a[7]
		b3 = a[8] ^ a[23] ^ a[13] ^ a[3] ^ a[18]
		b4 = a[19] ^ a[9] ^ a[24] ^ a[14] ^ a[4]
		d0 = b4 ^ bits.RotateLeft64(b1, 1)
		d1 = b0 ^ bits.RotateLeft64(b2, 1)
		d2 = b1 ^ bits.RotateLeft64(b3, 1)
		d3 = b2 ^ bits.RotateLeft64(b4, 1)
		d4 = b3 ^ bits.RotateLeft64(b0, 1)
		b0 = a[0] ^ d0
		b1 = bits.RotateLeft64(a[1]^d1, 44)
		b2 = bits.RotateLeft64(a[2]^d2, 43)
		b3 = bits.RotateLeft64(a[3]^d3, 21)
		b4 = bits.RotateLeft64(a[4]^d4, 14)
		a[0] = b0 ^ (b2 &^ b1) ^ roundConstants[i+3]
		a[1] = b1 ^ (b3 &^ b2)
		a[2] = b2 ^ (b4 &^ b3)
		a[3] = b3 ^ (b0 &^ b4)
		a[4] = b4 ^ (b1 &^ b0)
		b0 = bits.RotateLeft64(a[8]^d3, 28)
		b1 = bits.RotateLeft64(a[9]^d4, 20)
		b2 = bits.RotateLeft64(a[5]^d0, 3)
		b3 = bits.RotateLeft64(a[6]^d1, 45)
		b4 = bits.RotateLeft64(a[7]^d2, 61)
		a[5] = b0 ^ (b2 &^ b1)
		a[6] = b1 ^ (b3 &^ b2)
		a[7] = b2 ^ (b4 &^ b3)
		a[8] = b3 ^ (b0 &^ b4)
		a[9] = b4 ^ (b1 &^ b0)
		b0 = bits.RotateLeft64(a[11]^d1, 1)
		b1 = bits.RotateLeft64(a[12]^d2, 6)
		b2 = bits.RotateLeft64(a[13]^d3, 25)
		b3 = bits.RotateLeft64(a[14]^d4, 8)
		b4 = bits.RotateLeft64(a[10]^d0, 18)
		a[10] = b0 ^ (b2 &^ b1)
		a[11] = b1 ^ (b3 &^ b2)
		a[12] = b2 ^ (b4 &^ b3)
		a[13] = b3 ^ (b0 &^ b4)
		a[14] = b4 ^ (b1 &^ b0)
		b0 = bits.RotateLeft64(a[19]^d4, 27)
		b1 = bits.RotateLeft64(a[15]^d0, 36)
		b2 = bits.RotateLeft64(a[16]^d1, 10)
		b3 = bits.RotateLeft64(a[17]^d2, 15)
		b4 = bits.RotateLeft64(a[18]^d3, 56)
		a[15] = b0 ^ (b2 &^ b1)
		a[16] = b1 ^ (b3 &^ b2)
		a[17] = b2 ^ (b4 &^ b3)
		a[18] = b3 ^ (b0 &^ b4)
		a[19] = b4 ^ (b1 &^ b0)
		b0 = bits.RotateLeft64(a[22]^d2, 62)
		b1 = bits.RotateLeft64(a[23]^d3, 55)
		b2 = bits.RotateLeft64(a[24]^d4, 39)
		b3 = bits.RotateLeft64(a[20]^d0, 41)
		b4 = bits.RotateLeft64(a[21]^d1, 2)
		a[20] = b0 ^ (b2 &^ b1)
		a[21] = b1 ^ (b3 &^ b2)
		a[22] = b2 ^ (b4 &^ b3)
		a[23] = b3 ^ (b0 &^ b4)
		a[24] = b4 ^ (b1 &^ b0)
	}
}
