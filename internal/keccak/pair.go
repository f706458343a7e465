package keccak

// Two digests, or a digest and the bytes that follow it, do not depend on each
// other. Where there is a kernel for two states they cost one permutation time.

// Sum2 stores the digests of a and b and leaves both states as they were.
func Sum2(a, b *State, outA, outB *[Size]byte) {
	c, d := *a, *b
	c.pad()
	d.pad()
	permute2(&c.a, &d.a)
	c.squeeze(outA)
	d.squeeze(outB)
}

// SumWrite stores the digest of s in before and then absorbs p. It is Sum and
// Write, but the digest's permutation and the first one of p run side by side.
func (s *State) SumWrite(before *[Size]byte, p []byte) {
	if len(p) < Rate-s.n {
		s.Sum(before)
		s.xor(p)
		return
	}
	s.sumAbsorb(before, p)
}

// SumWriteSum stores the digest of s in before, absorbs p, and stores the
// digest of that in after. It is Sum, Write and Sum, but the first digest's
// permutation and the one that follows it run side by side.
//
// This is the shape of a frame's MAC: the header's tag, the frame data, the
// frame's seed. For a frame that does not fill a block, both digests cost one
// permutation time.
func (s *State) SumWriteSum(before *[Size]byte, p []byte, after *[Size]byte) {
	if len(p) < Rate-s.n {
		c := *s
		s.xor(p)
		Sum2(&c, s, before, after)
		return
	}
	s.sumAbsorb(before, p)
	s.Sum(after)
}

// sumAbsorb is SumWrite for a p that completes the block.
func (s *State) sumAbsorb(before *[Size]byte, p []byte) {
	c := *s
	c.pad()
	blocks, tail, _ := s.begin(p)
	permute2(&c.a, &s.a)
	c.squeeze(before)
	absorb(&s.a, blocks)
	s.end(tail)
}
