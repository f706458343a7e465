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
	v         []reg.Register // the 32 registers of one width
	states    reg.Register   // address of the states
	data      []reg.Register // address of each state's next block
	at        reg.Register   // offset in the block of the lanes to copy next
	constants reg.Register
	left      reg.Register
	t         reg.Register
}

// copied is how many lanes of the next block four rounds copy.
const copied = 3

// copyLanes copies lane i after k.at of the next block, for the y-th fifth of the states, to
// where it is stored. Loads and stores take nothing from the vector instructions,
// and early ones can wait for memory.
//
// Slower: a transposition of each block when it is due, by insertions straight from
// memory and unpacking (eight states 3 to 4 %, and 10 % if the blocks come from
// beyond the caches; four states 1 to 4 %).
func (k *ternaryKernel) copyLanes(i, y int) {
	n := len(k.data)
	for state := n * y / 5; state < n*(y+1)/5; state++ {
		MOVQ(Mem{Base: k.data[state], Index: k.at, Scale: 1, Disp: laneSize * i}, k.t)
		MOVQ(k.t, Mem{Base: k.states, Index: k.at, Scale: groupStride / laneSize, Disp: groupStride*i + laneSize*state})
	}
}

// stored is where lane i of all states is when it is not in a register.
func (k *ternaryKernel) stored(i int) Mem {
	return Mem{Base: k.states, Disp: groupStride * i}
}

func (k *ternaryKernel) round(r int, l *layout) {
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

	Comment(fmt.Sprintf("Round %d of 4, theta: column parities, and columns 1, 3 and 0", r+1))
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
	roll(3) // no register was free before
	column(0)

	next := *l
	var rows [5]row
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
			VPXORQ_BCST(Mem{Base: k.constants, Disp: laneSize * r}, b0, b0)
		}
		if r < copied {
			k.copyLanes(r, y)
		}
	}
}

// rhoPi rotates the sources of a row and brings each to the place of its result.
func (k *ternaryKernel) rhoPi(r row, t reg.Register) {
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
func (k *ternaryKernel) chi(r row, t0, t1 reg.Register) {
	b := func(x int) reg.Register { return k.v[r.dst[x]] }
	VMOVDQA64(b(0), t0)
	VMOVDQA64(b(1), t1)
	VPTERNLOGQ(chi3, b(2), b(1), b(0))
	VPTERNLOGQ(chi3, b(3), b(2), b(1))
	VPTERNLOGQ(chi3, b(4), b(3), b(2))
	VPTERNLOGQ(chi3, t0, b(4), b(3))
	VPTERNLOGQ(chi3, t1, t0, b(4))
}

// permute applies all rounds, and copies a block of each state to where lanes are stored: three
// lanes every four rounds, the last time lane 14 again, since 17 is no multiple of three.
func (k *ternaryKernel) permute() {
	l := startLayout()
	MOVQ(U32(rounds/4), k.left)
	XORL(low32(k.at), low32(k.at))
	Label("rounds")
	for r := range 4 {
		k.round(r, &l)
	}
	l.mustEqual(startLayout())
	ADDQ(U8(4*laneSize), k.constants)
	ADDQ(U8(copied*laneSize), k.at)
	MOVL(U32((rate-copied)*laneSize), low32(k.t))
	CMPQ(k.at, k.t)
	CMOVQHI(k.t, k.at)
	DECQ(k.left)
	JNZ(LabelRef("rounds"))
}

func low32(r reg.Register) reg.Register { return r.(reg.GP).As32() }

// avx512Lanes is the kernel for n states. Where 512-bit instructions have two
// ports and narrower ones three, four states are done a third faster than eight.
func avx512Lanes(name, word string, table Mem, n int) {
	TEXT(name, NOSPLIT, "func(states *[25][8]uint64, p *[8]*byte, blocks int)")
	which, pointers := "all eight states", "p"
	k := &ternaryKernel{
		v:         zmms,
		states:    reg.RDI,
		data:      []reg.Register{reg.RAX, reg.RBX, reg.RCX, reg.RDX, reg.RSI, reg.R8, reg.R9, reg.R10}[:n],
		constants: reg.R12, left: reg.R13, t: reg.R14, at: reg.R15,
	}
	if n == 4 {
		which, pointers = "the first four states", "the first four of p"
		k.v = ymms
	}
	Doc(fmt.Sprintf("%s permutes %s, then absorbs blocks blocks at %s.", name, which, pointers))
	Pragma("noescape")
	Load(Param("states"), k.states)
	loadPointers(k.data, reg.R11)
	blocks := Load(Param("blocks"), reg.R11)
	for i := range lanes {
		VMOVDQU64(k.stored(i), k.v[i])
	}

	Label("permute")
	LEAQ(table, k.constants)
	TESTQ(blocks, blocks)
	JNZ(LabelRef("more"))
	Comment("No further block: copy anything")
	for _, p := range k.data {
		MOVQ(k.constants, p)
	}
	Label("more")
	k.permute()
	DECQ(blocks)
	JL(LabelRef("done"))
	Comment("Absorb a block")
	for i := range rate {
		VPXORQ(k.stored(i), k.v[i], k.v[i])
	}
	for _, p := range k.data {
		ADDQ(U32(laneSize*rate), p)
	}
	JMP(LabelRef("permute"))

	Label("done")
	for i := range lanes {
		VMOVDQU64(k.v[i], k.stored(i))
	}
	VZEROUPPER()
	RET()
}
