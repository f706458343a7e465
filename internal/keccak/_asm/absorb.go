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

// absorbLanes reads a block at each pointer, gives it to add lane by lane, state
// i of the group in quadword i, and moves the pointers on.
//
// Sixteen bytes at a time, the even pointers are gathered in one register and
// the odd ones in another, by insertions that come straight from memory; the low
// and the high halves unpacked are two lanes. A transposition of full registers
// takes as many shuffles and four times the registers; masked broadcasts and
// gathers take more of either.
//
// tmp are four registers' numbers; those above 15 need AVX-512.
func absorbLanes(p []reg.Register, tmp [4]int, add func(lane int, v reg.Register)) {
	Comment("Absorb a block")
	x, wide := xmms, ymms
	move := func(src, dst Op) { VMOVDQU(src, dst) }
	insert := VINSERTI128
	if len(p) == 8 {
		wide = zmms
	}
	if tmp[0] > 15 {
		move = func(src, dst Op) { VMOVDQU64(src, dst) }
		insert = func(i, src, in, dst Op) { VINSERTI32X4(i, src, in, dst) }
	}
	gathered, low, high := tmp[:2], wide[tmp[2]], wide[tmp[3]]
	for pair := range rate / 2 {
		at := 2 * laneSize * pair
		for odd, r := range gathered {
			move(Mem{Base: p[odd], Disp: at}, x[r])
			for chunk := 1; chunk < len(p)/2; chunk++ {
				insert(U8(chunk), Mem{Base: p[2*chunk+odd], Disp: at}, wide[r], wide[r])
			}
		}
		even, odd := wide[gathered[0]], wide[gathered[1]]
		VPUNPCKLQDQ(odd, even, low)
		VPUNPCKHQDQ(odd, even, high)
		add(2*pair, low)
		add(2*pair+1, high)
	}
	// The last lane alone: eight bytes of each block, and nothing beyond.
	last := laneSize * (rate - 1)
	for chunk := range len(p) / 2 {
		r := gathered[min(chunk, 1)]
		VMOVQ(Mem{Base: p[2*chunk], Disp: last}, x[r])
		VMOVHPS(Mem{Base: p[2*chunk+1], Disp: last}, x[r], x[r])
		if chunk > 0 {
			all := wide[gathered[0]]
			insert(U8(chunk), x[r], all, all)
		}
	}
	add(rate-1, wide[gathered[0]])
	for _, r := range p {
		ADDQ(U32(laneSize*rate), r)
	}
}
