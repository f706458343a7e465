package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var (
	xmms = registers(reg.S128)
	ymms = registers(reg.S256)
	zmms = registers(reg.S512)
)

// registers lists the 32 vector registers of one width.
func registers(width reg.Spec) []reg.Register {
	all := make([]reg.Register, 32)
	for i := range all {
		all[i] = reg.Vector.Lookup(reg.Index(i), width)
	}
	return all
}

// loadPointers loads the first of the pointers at the parameter p.
func loadPointers(dst []reg.Register, via reg.Register) {
	p := Load(Param("p"), via)
	for i, r := range dst {
		MOVQ(Mem{Base: p, Disp: 8 * i}, r)
	}
}

// absorbLanes reads a block at each of four pointers, gives it to add lane by lane, state
// i of the group in quadword i, and moves the pointers on.
//
// Sixteen bytes at a time, the even pointers are gathered in one register and
// the odd ones in another, by insertions that come straight from memory; the low
// and the high halves unpacked are two lanes. A transposition of full registers
// takes as many shuffles and four times the registers; masked broadcasts and
// gathers take more of either.
//
// tmp are four registers' numbers below 16: the instructions are AVX2's.
func absorbLanes(p []reg.Register, tmp [4]int, add func(lane int, v reg.Register)) {
	Comment("Absorb a block")
	gathered, low, high := tmp[:2], ymms[tmp[2]], ymms[tmp[3]]
	even, odd := ymms[gathered[0]], ymms[gathered[1]]
	for pair := range rate / 2 {
		at := 2 * laneSize * pair
		for i, r := range gathered {
			VMOVDQU(Mem{Base: p[i], Disp: at}, xmms[r])
			VINSERTI128(U8(1), Mem{Base: p[2+i], Disp: at}, ymms[r], ymms[r])
		}
		VPUNPCKLQDQ(odd, even, low)
		VPUNPCKHQDQ(odd, even, high)
		add(2*pair, low)
		add(2*pair+1, high)
	}
	// The last lane alone: eight bytes of each block, and nothing beyond.
	last := laneSize * (rate - 1)
	for chunk, r := range gathered {
		VMOVQ(Mem{Base: p[2*chunk], Disp: last}, xmms[r])
		VMOVHPS(Mem{Base: p[2*chunk+1], Disp: last}, xmms[r], xmms[r])
	}
	VINSERTI128(U8(1), xmms[gathered[1]], even, even)
	add(rate-1, even)
	for _, r := range p {
		ADDQ(U32(laneSize*rate), r)
	}
}
