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
// them up first: 3 to 8 % slower). Rotating into another register saves the
// moves that bring the lanes of a row to their columns.
//
// All of these have the same ports, two with 512 bits and three with 256, but for
// rotations, which have one and two of them. The processor gives an instruction its
// port long before it executes, so each port must always have been given some whose
// inputs are there: parities are rotated as soon as they are known, and all lanes
// before any chi. A round takes 45.8 cycles of the ideal 45 (256 bits: 31.1 of 30).
// Slower: all parities first (2.5 %, 256 bits 1 %), theta of all columns before any
// rho (2.6 and 2.4 %), chi of each row after its rho (2.2 and 2.9 %), all three (7
// and 8 %). No better: rho of each lane after its theta (0 and 1 %). The best of
// 32,000 orders from two random searches is 0.7 % faster (256 bits: 0), and has no
// rule.
type ternaryKernel struct {
	v []reg.Register // the 32 registers of one width
}

func (k ternaryKernel) round(r int, l *layout, constants reg.Register) {
	free := append([]reg.Register(nil), k.v[lanes:]...)
	take := func() (t reg.Register) {
		t, free = free[0], free[1:]
		return t
	}
	var c, rolled [5]reg.Register
	parity := func(x int) {
		c[x] = take()
		VMOVDQA64(k.v[l[lane(x, 0)]], c[x])
		VPTERNLOGQ(xor3, k.v[l[lane(x, 1)]], k.v[l[lane(x, 2)]], c[x])
		VPTERNLOGQ(xor3, k.v[l[lane(x, 3)]], k.v[l[lane(x, 4)]], c[x])
	}
	roll := func(x int) {
		rolled[x] = take()
		VPROLQ(U8(1), c[x], rolled[x])
	}
	theta := func(x, place int) {
		VPTERNLOGQ(xor3, c[(x+4)%5], rolled[(x+1)%5], k.v[place])
	}
	column := func(x int) {
		for y := range 5 {
			theta(x, l[lane(x, y)])
		}
		free = append(free, c[(x+4)%5], rolled[(x+1)%5])
	}

	Comment(fmt.Sprintf("Round %d of 4, theta: column parities, rotated; columns 1, 3 and 0", r+1))
	parity(0)
	roll(0)
	parity(2)
	roll(2)
	parity(1)
	roll(1)
	column(1)
	parity(4)
	roll(4)
	parity(3)
	column(3)
	roll(3)
	column(0)

	var rows [5]row
	next := *l
	for y := range rows {
		row := l.row(y)
		Comment(fmt.Sprintf("Row %d: theta of columns 2 and 4, rho and pi", y))
		for x, from := range row.from {
			if from == 2 || from == 4 {
				theta(from, row.src[x])
			}
		}
		k.rhoPi(row, free[0])
		next.put(row)
		rows[y] = row
	}
	*l = next
	for y, row := range rows {
		Comment(fmt.Sprintf("Row %d: chi", y))
		k.chi(row, free[0], free[1])
		if y == 0 {
			Comment("Iota")
			b0 := k.v[row.dst[0]]
			VPXORQ_BCST(Mem{Base: constants, Disp: laneSize * r}, b0, b0)
		}
	}
}

// rhoPi rotates the sources of a row and brings each to the place of its result.
func (k ternaryKernel) rhoPi(r row, t reg.Register) {
	if r.src == r.dst {
		for x := range 5 {
			if r.rotate[x] != 0 {
				VPROLQ(U8(r.rotate[x]), k.v[r.src[x]], k.v[r.src[x]])
			}
		}
		return
	}
	// One cycle of five: with the first out of the way, each of the others has a
	// free register to go to.
	VPROLQ(U8(r.rotate[0]), k.v[r.src[0]], t)
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
	VMOVDQA64(t, k.v[r.dst[0]])
}

// chi combines a row in place.
func (k ternaryKernel) chi(r row, t0, t1 reg.Register) {
	b := func(x int) reg.Register { return k.v[r.dst[x]] }
	VMOVDQA64(b(0), t0)
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
