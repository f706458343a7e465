//go:build (!amd64 && !arm64) || purego

package keccak

// LaneWidth is how many states this machine advances together: 8, 4, or 1 if
// nothing is gained by bringing states together.
func LaneWidth() int { return 1 }

// minLanes is the least number of states that advance faster together than one
// after the other. There is none here.
func minLanes() int { return Lanes + 1 }

// advance permutes the first n columns, at most LaneWidth, then absorbs blocks
// blocks of each.
func (g *group) advance(n, blocks int) { g.advanceGeneric(n, blocks) }
