package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// avx512Single is the kernel for one state. Rows 1 to 4 are in XMM registers,
// one lane each; row 0 is computed in general registers.
//
// With all of the state in XMM registers (which is what permute2AVX512 does) the
// three vector ports have 90 instructions a round to execute, while others idle
// that can do the same to general registers. Row 0 takes 16 of these away, and
// its way through memory and back (parities out, five lanes in) is as long as
// the vector part of the round, so neither waits for the other: 12 % faster.
// Rejected: parities by VMOVQ between the register files, which competes for the
// ports (11 % slower at best); rotating them again on the general side instead
// of storing both forms (4 %); row 0 further down in the code (up to 8 %), or in
// pieces between the columns of theta (4 %).
func avx512Single(table Mem) {
	TEXT("permuteAVX512", NOSPLIT, "func(a *[25]uint64, p *byte, blocks int)")
	Doc("permuteAVX512 permutes a, then absorbs blocks blocks at p.")
	Pragma("noescape")
	h := &hybridKernel{
		ternaryKernel: ternaryKernel{v: xmms},
		b:             []reg.Register{reg.RAX, reg.RBX, reg.RCX, reg.RDX, reg.RSI},
		t:             []reg.Register{reg.R9, reg.R10},
		first:         reg.R13,
		constants:     reg.R14,
		locals:        AllocLocal(4 * 5 * laneSize),
	}
	a := Load(Param("a"), reg.R12).(reg.Register)
	p := Load(Param("p"), reg.RDI).(reg.Register)
	blocks := Load(Param("blocks"), reg.R8)
	left := reg.R11

	start := startLayout()
	for y := range 5 {
		for x := range 5 {
			if y == 0 {
				start[lane(x, y)] = nowhere
				MOVQ(Mem{Base: a, Disp: laneSize * x}, h.t[0])
				MOVQ(h.t[0], h.row0(x))
				continue
			}
			// Rows move up by one, into registers 0 to 19.
			start[lane(x, y)] = lane(x, y-1)
			VMOVQ(Mem{Base: a, Disp: laneSize * lane(x, y)}, h.v[start[lane(x, y)]])
		}
	}

	Label("permute")
	MOVQ(h.row0(0), h.first)
	h.storeDiagonal(start)
	LEAQ(table, h.constants)
	MOVQ(U32(rounds/hybridPeriod), left)
	Label("rounds")
	l := start
	for r := range hybridPeriod {
		h.round(r, &l)
	}
	l.mustEqual(start)
	ADDQ(U8(hybridPeriod*laneSize), h.constants)
	DECQ(left)
	JNZ(LabelRef("rounds"))

	DECQ(blocks)
	JL(LabelRef("done"))
	Comment("Absorb a block")
	for i := range rate {
		m := Mem{Base: p, Disp: laneSize * i}
		if i < 5 {
			t := h.t[i%len(h.t)]
			MOVQ(m, t)
			XORQ(t, h.row0(i))
			continue
		}
		// A broadcast reads eight bytes; what it puts beside the lane is idle.
		v := h.v[start[i]]
		VPXORQ_BCST(m, v, v)
	}
	ADDQ(U32(laneSize*rate), p)
	JMP(LabelRef("permute"))

	Label("done")
	for x := range 5 {
		MOVQ(h.row0(x), h.t[0])
		MOVQ(h.t[0], Mem{Base: a, Disp: laneSize * x})
	}
	for i := 5; i < lanes; i++ {
		VMOVQ(h.v[start[i]], Mem{Base: a, Disp: laneSize * i})
	}
	VZEROUPPER()
	RET()
}

// hybridPeriod is the number of rounds after which the lanes of rows 1 to 4 are
// back where they began.
const hybridPeriod = 12

type hybridKernel struct {
	ternaryKernel
	b         []reg.Register // row 0 before chi
	t         []reg.Register
	first     reg.Register // lane (0, 0), which pi leaves in row 0
	constants reg.Register
	locals    Mem
}

// What the two sides tell each other by.
func (h *hybridKernel) slot(area, x int) Mem { return h.locals.Offset(laneSize * (5*area + x)) }

func (h *hybridKernel) row0(x int) Mem     { return h.slot(0, x) } // lane (x, 0)
func (h *hybridKernel) diagonal(x int) Mem { return h.slot(1, x) } // lane (x, x), which pi moves to row 0
func (h *hybridKernel) parity(x int) Mem   { return h.slot(2, x) } // of column x
func (h *hybridKernel) rotated(x int) Mem  { return h.slot(3, x) } // parity of column x, rotated by one

func (h *hybridKernel) storeDiagonal(l layout) {
	for x := 1; x < 5; x++ {
		VMOVQ(h.v[l[lane(x, x)]], h.diagonal(x))
	}
}

func (h *hybridKernel) round(r int, l *layout) {
	c, rolled := h.v[20:25], h.v[25:30]
	t0, t1 := h.v[30], h.v[31]

	Comment(fmt.Sprintf("Round %d of %d, theta: column parities", r+1, hybridPeriod))
	for x := range 5 {
		VMOVDQA64(h.v[l[lane(x, 1)]], c[x])
		VPTERNLOGQ(xor3, h.v[l[lane(x, 2)]], h.v[l[lane(x, 3)]], c[x])
		VPTERNLOGQ_BCST(xor3, h.row0(x), h.v[l[lane(x, 4)]], c[x])
		VMOVQ(c[x], h.parity(x))
	}
	Comment("Pi: row 0 to the vector side, the diagonal to the other")
	for x := 1; x < 5; x++ {
		free := l[lane(x, x)]
		VMOVQ(h.row0(x), h.v[free])
		l[lane(x, 0)], l[lane(x, x)] = free, nowhere
	}
	Comment("Theta: add them to the columns beside")
	for x := range 5 {
		next := (x + 1) % 5
		VPROLQ(U8(1), c[next], rolled[next])
		VMOVQ(rolled[next], h.rotated(next))
		for y := range 5 {
			if place := l[lane(x, y)]; place != nowhere {
				VPTERNLOGQ(xor3, c[(x+4)%5], rolled[next], h.v[place])
			}
		}
	}
	h.generalRow(r)

	var next layout
	for _, y := range []int{1, 3, 2, 4} {
		row := l.row(y)
		Comment(fmt.Sprintf("Row %d: rho and pi", y))
		h.rhoPi(row, t0)
		Comment(fmt.Sprintf("Row %d: chi", y))
		h.chi(row, t0, t1)
		next.put(row)
	}
	for x := range 5 {
		next[lane(x, 0)] = nowhere
	}
	h.storeDiagonal(next)
	*l = next
}

// generalRow does row 0 of a round.
func (h *hybridKernel) generalRow(r int) {
	Comment("Row 0, in general registers: theta, rho and pi")
	offsets := rho()
	for x := range 5 {
		MOVQ(h.parity((x+4)%5), h.b[x])
		if x == 0 {
			XORQ(h.first, h.b[x])
		} else {
			XORQ(h.diagonal(x), h.b[x])
		}
		XORQ(h.rotated((x+1)%5), h.b[x])
		if n := offsets[lane(x, x)]; n != 0 {
			RORXQ(U8(64-n), h.b[x], h.b[x])
		}
	}
	Comment("Row 0: chi and iota")
	for x := range 5 {
		out := h.t[x%len(h.t)]
		if x == 0 {
			out = h.first
		}
		ANDNQ(h.b[(x+2)%5], h.b[(x+1)%5], out)
		XORQ(h.b[x], out)
		if x == 0 {
			XORQ(Mem{Base: h.constants, Disp: laneSize * r}, out)
		}
		MOVQ(out, h.row0(x))
	}
}
