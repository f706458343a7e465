//go:build arm64 && !purego

package keccak

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// hasSHA3 says whether the processor has FEAT_SHA3. GODEBUG=cpu.sha3=off counts.
var hasSHA3 = cpu.ARM64.HasSHA3

// What is in use. SetTier may say otherwise.
var useSHA3 = hasSHA3 && fastSHA3()

// fastSHA3 reports whether the kernels for FEAT_SHA3 are the fastest of this processor, which has
// it. They are on Apple's, whose four vector units all have its instructions. Processors by Arm
// have one or two units that do.
func fastSHA3() bool {
	switch runtime.GOOS {
	case "darwin", "ios":
		return true
	case "linux":
		return cpu.ARM64.HasCPUID && byApple()
	}
	return false // how to ask is not known
}

// byApple reports whether Apple made the processor. The processor does not let programs read the
// register that says so. Linux does, where HasCPUID is set.
func byApple() bool {
	const implementer = 0x61 // in bits 31 to 24
	var midr uint64
	readMIDR(&midr)
	return midr>>24&0xff == implementer
}

// permuteBlocks is permuteAbsorb for at most maxBlocks blocks.
func permuteBlocks(a *[lanes]uint64, p []byte) {
	if useSHA3 {
		permuteSHA3(a, unsafe.SliceData(p), len(p)/Rate)
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
