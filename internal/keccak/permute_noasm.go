//go:build (!amd64 && !arm64) || purego

package keccak

// permuteBlocks is permuteAbsorb for at most maxBlocks blocks.
func permuteBlocks(a *[lanes]uint64, p []byte) { permuteAbsorbGeneric(a, p) }

// digest stores the digest of a, which is padded, and leaves a as it is.
func digest(out *[Size]byte, a *[lanes]uint64) { digestByPermute(out, a) }

// digest2 is digest for two states.
func digest2(outA, outB *[Size]byte, a, b *[lanes]uint64) {
	digest(outA, a)
	digest(outB, b)
}

// digestPermute is digest for a, and permutes b.
func digestPermute(out *[Size]byte, a, b *[lanes]uint64) {
	digest(out, a)
	permute(b)
}
