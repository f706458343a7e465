//go:build amd64 && !purego

package keccak

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// What the kernels need of the processor and the operating system, bit by bit,
// so that switching off any of it (GODEBUG=cpu.avx512f=off) counts.
var (
	hasBMI2   = cpu.X86.HasBMI1 && cpu.X86.HasBMI2
	hasAVX2   = hasBMI2 && cpu.X86.HasAVX2
	hasAVX512 = hasBMI2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL
)

// What is in use. SetTier may say less than the machine can.
var (
	useBMI2   = hasBMI2
	useAVX2   = hasAVX2
	useAVX512 = hasAVX512
)

// permuteBlocks is permuteAbsorb for at most maxBlocks blocks.
func permuteBlocks(a *[lanes]uint64, p []byte) {
	if useAVX512 {
		permuteAVX512(a, unsafe.SliceData(p), len(p)/Rate)
		return
	}
	if useBMI2 {
		permuteBMI2(a, unsafe.SliceData(p), len(p)/Rate)
		return
	}
	permuteAbsorbGeneric(a, p)
}

// digest stores the digest of a, which is padded, and leaves a as it is.
func digest(out *[Size]byte, a *[lanes]uint64) {
	if useAVX512 {
		digestAVX512(out, a)
		return
	}
	digestByPermute(out, a)
}

// digest2 is digest for two states.
func digest2(outA, outB *[Size]byte, a, b *[lanes]uint64) {
	if useAVX512 {
		digest2AVX512(outA, outB, a, b)
		return
	}
	if useAVX2 {
		digest2AVX2(outA, outB, a, b)
		return
	}
	digest(outA, a)
	digest(outB, b)
}

// digestPermute is digest for a, and permutes b.
func digestPermute(out *[Size]byte, a, b *[lanes]uint64) {
	if useAVX512 {
		digestPermuteAVX512(out, a, b)
		return
	}
	if useAVX2 {
		digestPermuteAVX2(out, a, b)
		return
	}
	digest(out, a)
	permute(b)
}

// digest2AVX2 and digestPermuteAVX2 are apart from their callers, for the room for a group makes
// the stacks of goroutines grow from 4 to 8 KiB, and those of processors without AVX2 need not.
//
//go:noinline
func digest2AVX2(outA, outB *[Size]byte, a, b *[lanes]uint64) {
	var room groupRoom
	g := group{a: room.aligned()}
	g.permutePair(a, b)
	g.digest(0, outA)
	g.digest(1, outB)
}

//go:noinline
func digestPermuteAVX2(out *[Size]byte, a, b *[lanes]uint64) {
	var room groupRoom
	g := group{a: room.aligned()}
	g.permutePair(a, b)
	g.digest(0, out)
	g.get(1, b)
}

// permutePair sets the first two columns to a and b permuted. The AVX2 kernel for four states takes
// a third less time than two permutations of one state.
func (g *group) permutePair(a, b *[lanes]uint64) {
	for i := range g.a {
		g.a[i][0], g.a[i][1] = a[i], b[i]
	}
	permute4AVX2(g.a, &g.p, 0)
}
