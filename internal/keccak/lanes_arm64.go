//go:build arm64 && !purego

package keccak

// LaneWidth is how many states this machine advances together: 2, or 1 if
// nothing is gained by bringing states together.
func LaneWidth() int {
	if useSHA3 {
		return 2
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
	if useSHA3 {
		permute2SHA3(g.a, &g.p, blocks)
		return
	}
	g.advanceGeneric(n, blocks)
}
