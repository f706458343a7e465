//go:build arm64 && !purego

package keccak

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// hasSHA3 says whether the processor has FEAT_SHA3. GODEBUG=cpu.sha3=off counts.
var hasSHA3 = cpu.ARM64.HasSHA3

// What is in use. SetTier may say otherwise. Without either it is the portable code.
var (
	useSHA3   = hasSHA3 && thisProcessor().fastSHA3()
	useScalar = thisProcessor().fastRotations()
)

// permuteBlocks is permuteAbsorb for at most maxBlocks blocks.
func permuteBlocks(a *[lanes]uint64, p []byte) {
	if useSHA3 {
		permuteSHA3(a, unsafe.SliceData(p), len(p)/Rate)
		return
	}
	if useScalar {
		permuteScalar(a, unsafe.SliceData(p), len(p)/Rate)
		return
	}
	permuteAbsorbGeneric(a, p)
}

// digest stores the digest of a, which is padded, and leaves a as it is.
func digest(out *[Size]byte, a *[lanes]uint64) {
	if useSHA3 {
		digestSHA3(out, a)
		return
	}
	digestByPermute(out, a)
}

// digest2 is digest for two states.
func digest2(outA, outB *[Size]byte, a, b *[lanes]uint64) {
	if useSHA3 {
		digest2SHA3(outA, outB, a, b)
		return
	}
	digest(outA, a)
	digest(outB, b)
}

// digestPermute is digest for a, and permutes b.
func digestPermute(out *[Size]byte, a, b *[lanes]uint64) {
	if useSHA3 {
		digestPermuteSHA3(out, a, b)
		return
	}
	digest(out, a)
	permute(b)
}
