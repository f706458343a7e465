package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Truth tables for VPTERNLOGQ, whose destination is the first input.
const (
	xor3 = U8(0x96) // dst ^ a ^ b
	chi3 = U8(0xD2) // dst ^ (^a & b)
)

// A ternaryKernel keeps all lanes of its states in registers, lane (x, y) in
// register 5y+x at the start, one quadword for each state.
//
// What bounds it is the number of logic instructions, 90 a round. So theta takes
// two ternary xors for a parity, after a move that costs no execution (a plain
// xor in the move's place: 5 to 7 % slower), and adds to each lane the parity of
// one neighbour and the rotated parity of the other in one ternary xor (adding
// them up first: 3 to 8 % slower; that, and a row at a time: 4 %). Rotating into another register saves the
// moves that bring the lanes of a row to their columns.
type ternaryKernel struct {
	v []reg.Register // the 32 registers of one width
}

func (k ternaryKernel) round(r int, l *layout, constants reg.Register) {
	c := k.v[25:30]
	t0, t1 := k.v[30], k.v[31]

	Comment(fmt.Sprintf("Round %d of 4, theta: column parities", r+1))
	for x := range 5 {
		VMOVDQA64(k.v[l[lane(x, 0)]], c[x])
		VPTERNLOGQ(xor3, k.v[l[lane(x, 1)]], k.v[l[lane(x, 2)]], c[x])
		VPTERNLOGQ(xor3, k.v[l[lane(x, 3)]], k.v[l[lane(x, 4)]], c[x])
	}
	Comment("Theta: add them to the columns beside")
	for x := range 5 {
		t := k.v[30+x%2]
		VPROLQ(U8(1), c[(x+1)%5], t)
		for y := range 5 {
			VPTERNLOGQ(xor3, c[(x+4)%5], t, k.v[l[lane(x, y)]])
		}
	}
	next := *l
	for y := range 5 {
		row := l.row(y)
		Comment(fmt.Sprintf("Row %d: rho and pi", y))
		k.rhoPi(row, t0)
		Comment(fmt.Sprintf("Row %d: chi", y))
		k.chi(row, t0, t1)
		if y == 0 {
			Comment("Iota")
			b0 := k.v[row.dst[0]]
			VPXORQ_BCST(Mem{Base: constants, Disp: laneSize * r}, b0, b0)
		}
		next.put(row)
	}
	*l = next
}

// rhoPi rotates the sources of a row and brings each to the place of its result.
// It leaves a copy of the first in t0.
func (k ternaryKernel) rhoPi(r row, t0 reg.Register) {
	if r.src == r.dst {
		for x := range 5 {
			if r.rotate[x] != 0 {
				VPROLQ(U8(r.rotate[x]), k.v[r.src[x]], k.v[r.src[x]])
			}
		}
		VMOVDQA64(k.v[r.dst[0]], t0)
		return
	}
	// One cycle of five: with the first out of the way, each of the others has a
	// free register to go to.
	VPROLQ(U8(r.rotate[0]), k.v[r.src[0]], t0)
	free, moved := r.src[0], 1
	for free != r.dst[0] {
		for x := 1; x < 5; x++ {
			if r.dst[x] == free {
				VPROLQ(U8(r.rotate[x]), k.v[r.src[x]], k.v[free])
				free = r.src[x]
				moved++
				break
			}
		}
	}
	if moved != 5 {
		panic("the places of a row are not one cycle")
	}
	VMOVDQA64(t0, k.v[r.dst[0]])
}

// chi combines a row in place. t0 is a copy of its first lane.
func (k ternaryKernel) chi(r row, t0, t1 reg.Register) {
	b := func(x int) reg.Register { return k.v[r.dst[x]] }
	VMOVDQA64(b(1), t1)
	VPTERNLOGQ(chi3, b(2), b(1), b(0))
	VPTERNLOGQ(chi3, b(3), b(2), b(1))
	VPTERNLOGQ(chi3, b(4), b(3), b(2))
	VPTERNLOGQ(chi3, t0, b(4), b(3))
	VPTERNLOGQ(chi3, t1, t0, b(4))
}

// permute applies all rounds. It uses two general registers.
func (k ternaryKernel) permute(table Mem, constants, left reg.Register) {
	l := startLayout()
	LEAQ(table, constants)
	MOVQ(U32(rounds/4), left)
	Label("rounds")
	for r := range 4 {
		k.round(r, &l, constants)
	}
	l.mustEqual(startLayout())
	ADDQ(U8(4*laneSize), constants)
	DECQ(left)
	JNZ(LabelRef("rounds"))
}

// avx512Lanes is the kernel for n states. Where 512-bit instructions have two
// ports and narrower ones three, four states are done a third faster than eight.
func avx512Lanes(name, word string, table Mem, n int) {
	TEXT(name, NOSPLIT, "func(states *[25][8]uint64, p *[8]*byte, blocks int)")
	which, pointers := "all eight states", "p"
	k := ternaryKernel{v: zmms}
	if n == 4 {
		which, pointers = "the first four states", "the first four of p"
		k.v = ymms
	}
	Doc(fmt.Sprintf("%s permutes %s, then absorbs blocks blocks at %s.", name, which, pointers))
	Pragma("noescape")
	g := Load(Param("states"), reg.RDI)
	data := []reg.Register{reg.RAX, reg.RBX, reg.RCX, reg.RDX, reg.RSI, reg.R8, reg.R9, reg.R10}[:n]
	loadPointers(data, reg.R11)
	blocks := Load(Param("blocks"), reg.R11)
	for i := range lanes {
		VMOVDQU64(Mem{Base: g, Disp: groupStride * i}, k.v[i])
	}

	Label("permute")
	k.permute(table, reg.R12, reg.R13)
	DECQ(blocks)
	JL(LabelRef("done"))
	absorbLanes(data, [4]int{25, 26, 27, 28}, func(lane int, v reg.Register) {
		VPXORQ(v, k.v[lane], k.v[lane])
	})
	JMP(LabelRef("permute"))

	Label("done")
	for i := range lanes {
		VMOVDQU64(k.v[i], Mem{Base: g, Disp: groupStride * i})
	}
	VZEROUPPER()
	RET()
}
