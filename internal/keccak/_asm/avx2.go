package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// groupStride is the distance of one lane of a group from the next: a group has
// room for eight states, whichever kernel works on it.
const groupStride = 64

// avx2 is the kernel for four states on machines without AVX-512: no rotation, no ternary logic,
// and 16 registers. Lanes live in memory, which costs nothing here: loads are part of an xor, and
// loads and stores take no vector port.
//
// What bounds it is 184 vector instructions a round, on four ports (AMD since Zen 2) or three
// (Intel): 46 or 61 cycles, which is 276 or 368 for a permutation of one state. The order decides
// how near it comes, see quadNames.
func avx2(table Mem) {
	// A rotation by whole bytes is a shuffle: one instruction, not three.
	rol8 := shuffle("rol8", 1)
	rol56 := shuffle("rol56", 7)

	TEXT("permute4AVX2", NOSPLIT, "func(states *[25][8]uint64, p *[8]*byte, blocks int)")
	Doc("permute4AVX2 permutes the first four states, then absorbs blocks blocks at the first four of p.")
	Pragma("noescape")
	g := Load(Param("states"), reg.RDI)
	data := []reg.Register{reg.RAX, reg.RBX, reg.RCX, reg.RDX}
	loadPointers(data, reg.RSI)
	blocks := Load(Param("blocks"), reg.R11)
	constants, left := reg.R12, reg.R13

	order, err := newQuadOrder(order("quad"))
	if err != nil {
		panic(err)
	}
	k := &quadKernel{
		order:     order,
		at:        func(place int) Mem { return Mem{Base: g, Disp: groupStride * place} },
		constants: constants, rol8: rol8, rol56: rol56,
	}
	l := startLayout()

	Comment("Parities of the columns")
	for y := range 5 {
		for x := range 5 {
			if y == 0 {
				VMOVDQU(k.at(lane(x, y)), ymms[x])
			} else {
				VPXOR(k.at(lane(x, y)), ymms[x], ymms[x])
			}
		}
	}

	Label("permute")
	LEAQ(table, constants)
	MOVQ(U32(rounds/4), left)
	Label("rounds")
	for r := range 4 {
		Comment(fmt.Sprintf("Round %d of 4", r+1))
		k.round(r, &l)
	}
	l.mustEqual(startLayout())
	ADDQ(U8(4*laneSize), constants)
	DECQ(left)
	JNZ(LabelRef("rounds"))

	DECQ(blocks)
	JL(LabelRef("done"))
	absorbLanes(data, [4]int{10, 11, 12, 13}, func(lane int, v reg.Register) {
		VPXOR(v, ymms[column(lane)], ymms[column(lane)])
		VPXOR(k.at(lane), v, v)
		VMOVDQU(v, k.at(lane))
	})
	JMP(LabelRef("permute"))

	Label("done")
	VZEROUPPER()
	RET()
}

// shuffle is the VPSHUFB table that turns each quadword left by n bytes.
func shuffle(name string, n int) Mem {
	m := GLOBL(name, attr.RODATA|attr.NOPTR)
	for i := range 4 {
		var v uint64
		for b := range 8 {
			from := i%2*8 + (b-n+8)%8
			v |= uint64(from) << (8 * b)
		}
		DATA(8*i, U64(v))
	}
	return m
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
