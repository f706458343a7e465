package keccak

import "unsafe"

// advanceGeneric permutes the first n columns, then absorbs blocks blocks of
// each. It is what the kernels are compared with, no faster than one state at a
// time.
func (g *group) advanceGeneric(n, blocks int) {
	for i := range n {
		var a [lanes]uint64
		g.get(i, &a)
		permuteAbsorbGeneric(&a, unsafe.Slice(g.p[i], blocks*Rate))
		g.set(i, &a)
	}
}

// point makes column read blocks.
func (g *group) point(column int, blocks []byte) { g.p[column] = unsafe.SliceData(blocks) }
