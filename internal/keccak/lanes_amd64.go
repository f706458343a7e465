//go:build amd64 && !purego

package keccak

// LaneWidth is how many states this machine advances together: 8, 4, or 1 if
// nothing is gained by bringing states together.
func LaneWidth() int {
	if useAVX512 {
		return 8
	}
	if useAVX2 {
		return 4
	}
	return 1
}

// minLanes is the least number of states that advance faster together than one
// after the other.
func minLanes() int { return 2 }

// advance permutes the first n columns, at most LaneWidth, then absorbs blocks
// blocks of each. Other columns hold anything afterwards; the pointers of all
// LaneWidth columns must be good for as many blocks.
func (g *group) advance(n, blocks int) {
	if useAVX512 && n > 4 {
		permute8AVX512(g.a, &g.p, blocks)
		return
	}
	if useAVX512 {
		permute4AVX512(g.a, &g.p, blocks)
		return
	}
	if useAVX2 {
		permute4AVX2(g.a, &g.p, blocks)
		return
	}
	g.advanceGeneric(n, blocks)
}
