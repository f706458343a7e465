package keccak

// The work on one or two states goes through the functions below; lanes.go has
// the same for groups. permute_generic.go is the portable code and what the
// tests compare all others with, kernels_*.s are the generated kernels, and
// permute_amd64.go and permute_arm64.go choose between them.

//go:generate go -C _asm run . -out ../kernels_amd64.s -stubs ../kernels_amd64.go -pkg keccak
//go:generate go -C _asm run . -arch arm64 -out ../kernels_arm64.s -stubs ../kernels_arm64.go -pkg keccak

// maxBlocks bounds one call of a kernel, to about a tenth of a millisecond: the
// scheduler and the garbage collector cannot interrupt assembly.
const maxBlocks = 512

// permute applies Keccak-f[1600] to a.
func permute(a *[lanes]uint64) { permuteBlocks(a, nil) }

// digestByPermute is digest for kernels that only permute.
func digestByPermute(out *[Size]byte, a *[lanes]uint64) {
	c := *a
	permute(&c)
	squeeze(out, &c)
}

// permuteAbsorb permutes a, then for each block of p xors it into a and permutes
// again. len(p) is a multiple of Rate.
//
// Kernels permute first because that is what a State asks for: its current block
// is completed byte by byte, then full blocks follow.
func permuteAbsorb(a *[lanes]uint64, p []byte) {
	for len(p) > maxBlocks*Rate {
		permuteBlocks(a, p[:maxBlocks*Rate])
		p = p[maxBlocks*Rate:]
		xorBlock(a, (*[Rate]byte)(p))
		p = p[Rate:]
	}
	permuteBlocks(a, p)
}

// absorb xors each block of p into a and permutes. len(p) is a multiple of Rate.
func absorb(a *[lanes]uint64, p []byte) {
	if len(p) > 0 {
		xorBlock(a, (*[Rate]byte)(p))
		permuteAbsorb(a, p[Rate:])
	}
}
