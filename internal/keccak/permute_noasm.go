//go:build !amd64 || purego

package keccak

// permuteBlocks is permuteAbsorb for at most maxBlocks blocks.
func permuteBlocks(a *[lanes]uint64, p []byte) { permuteAbsorbGeneric(a, p) }

// permute2 permutes a and b.
func permute2(a, b *[lanes]uint64) {
	permute(a)
	permute(b)
}
