package main

import (
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A linesKernel keeps one state in five ZMM registers, five lanes in each.
//
// Theta wants registers aligned by columns: all of it is vertical then, but for bringing the
// parities to the columns beside. Pi permutes the lanes of each register so that they are aligned
// by rows; if a register is a line that is neither a row nor a column, then the lanes that chi
// combines are in the same slot of three registers. One more permutation of each register aligns it
// by columns again. Slots are numbered so that each time one of the registers can stay as it is.
//
// That is 29 vector instructions a round, and 11 more every third, where lanes in pairs take 73,
// but on two ports rather than three, of which only one permutes and only the other rotates. Pi
// changes the slope of lines (a, see planes) from 2 to 3, from 3 to 4, and from 4 to 1. From 1 it
// would make rows, so lanes first go to another register, at a distance in proportion to their
// column, and the slope is 2 again. This is made of three choices between two registers: one is
// part of the permutation that aligns by columns, and two are blends that theta's permutations
// leave time for.
//
// What bounds it is latency, 20 cycles a round if a port were free whenever one is needed, and how
// the instructions that both ports can do are spread: the processor decides that long before it
// executes them. So their order matters (see linesSteps), though the processor does not follow it.
//
// Rejected: two lanes in an XMM register, as rowsKernel has them (18 % slower), and what is slower
// than that by as much as is said: one lane in a register and row 0 in general registers (6 %),
// pairs and row 0 in general registers (4 to 15 %), four lanes in a YMM register (20 %). Of lines:
// one blend, and a choice with the permutation of pi, too (1 %); that choice rather than the one
// with the other permutation (as fast).
type linesKernel struct {
	layout    linesLayout
	vectors   *vectorTable
	turn      [5]reg.VecVirtual // turn[n] brings slot s+n to slot s
	constants reg.Register
	state     [5]reg.VecVirtual // layout.theta[0]
	rounds    [period]linesRound
}

// A linesRound is the registers of a round.
type linesRound struct {
	parity, rolled, left, right, iota reg.VecVirtual
	half, t                           [5]reg.VecVirtual // after one choice; before pi
	u, out                            [5]reg.VecVirtual // before and after chi
	done                              [5]bool           // chi
}

// period is the number of rounds after which lanes are where they were.
const period = 3

// linesSteps is the order of the steps of three rounds (see step). It was found by random changes,
// kept if they made both kernels faster; the natural order takes 7 % longer. The command in search
// looks for a better one in the same way. A wrong order fails the generator or the proof.
const linesSteps = `
	f03 s0 f00 a0 f02 b0 c0 z0 f04 f01 e0 g02 d0 t01 r01 g04 g01 g03 t03 t02 r02 r03 p03 g00 p02 y02 p01
	t00 t04 r04 p04 y01 y03 x02 m02 x01 m01 y04 r00 y00 x00 z1 m00 x03 s1 a1 m03 x04 b1 c1 d1 e1 t12 t11
	r11 r12 t13 p12 r13 t14 r14 t10 y12 p11 p14 r10 p13 y10 x12 x10 y11 m10 x11 y14 s2 y13 m11 m12 x13
	x14 m13 i20 a2 b2 c2 e2 d2 t22 t21 i21 r21 r22 p22 t23 t24 z2 p21 r23 p23 r24 i23 y23 t20 i22 r20
	p24 y21 y20 y22 x22 x21 y24 x23 x20 x24 m20 i24 m24 m21 m22 m23
`

// A linesLayout tells where lanes are.
type linesLayout struct {
	theta  [period]planes // before a round, aligned by columns
	choice [2]choice      // made of theta[0] before pi
	pi     [period]planes // after pi, aligned by rows
	order  [period][5]int // the registers of pi as chi takes them; the first stays in pi, the last after chi
	joined [5]int         // the registers of theta[0], each made of two of pi[2] that follow each other in order
}

func newLinesLayout() (l linesLayout) {
	ch := choices(-2, [3]int{1, 1, 2})
	l.choice = [2]choice(ch[1:])
	first := linesOf(1).align(inOrder, column).choose(ch[0])
	l.pi[0] = l.chosen(first).after().align(inOrder, row5)
	l.order[0] = l.pi[0].order(0)
	for r := 1; r < period; r++ {
		last := l.pi[r-1][l.order[r-1][4]]
		l.theta[r] = l.pi[r-1].align(slots(last, column), column)
		// Row 0 stays in slot 0, for iota and for the digest.
		moved := l.theta[r].after()
		stays := slices.IndexFunc(moved[:], func(register [5]int) bool { return row5(register[0]) == 0 })
		l.pi[r] = moved.align(slots(moved[stays], row5), row5)
		l.order[r] = l.pi[r].order(stays)
	}
	var slot [5]int
	for s, was := range l.pi[0].before()[l.order[0][0]] {
		slot[column(was)] = s
	}
	l.theta[0] = first.align(slot, column)
	for c, register := range l.theta[0] {
		from := l.pi[2].sources(register)
		for i, o := range l.order[2] {
			if slices.Contains(from, o) && slices.Contains(from, l.order[2][(i+1)%5]) {
				l.joined[i] = c
			}
		}
	}
	return l
}

// chosen makes both choices.
func (l *linesLayout) chosen(p planes) planes { return p.choose(l.choice[0]).choose(l.choice[1]) }

// step emits one step of the loop. Its name is a letter, the round, and which register it is for,
// as counted in the order of chi (but for f and g, which go by the number of the register):
//
//	s a b  copy a register; add two to get parities; add the two that are there last
//	c d e  rotate the parities; bring those of the column before; the rotated ones of the column after
//	f g    first and second choice
//	t r p  theta, rho, pi
//	z y x  load iota's constant; copy a register, with iota; chi
//	i m    load an index; align by columns
func (k *linesKernel) step(name string) {
	r, i := int(name[1]-'0'), int(name[len(name)-1]-'0')
	now, l := &k.rounds[r], &k.layout
	theta, source, ready := l.theta[r], now.t, l.joined
	if r == 0 {
		theta, source = l.chosen(theta), k.state
	} else {
		o := l.order[r-1]
		ready = [5]int{o[0], o[1], o[2], o[4], o[3]}
	}
	o := l.order[r][i]
	before := l.pi[r].before()
	c := theta.sources(before[o])[0]

	switch name[0] {
	case 's':
		now.parity = ZMM()
		VMOVDQA64(source[ready[0]], now.parity)
	case 'a':
		VPTERNLOGQ(xor3, source[ready[1]], source[ready[2]], now.parity)
	case 'b':
		VPTERNLOGQ(xor3, source[ready[3]], source[ready[4]], now.parity)
	case 'c':
		now.rolled = ZMM()
		VPROLQ(U8(1), now.parity, now.rolled)
	case 'd':
		now.left = k.beside(-1, theta, now.parity)
	case 'e':
		now.right = k.beside(1, theta, now.rolled)
	case 'f':
		now.half[i] = ZMM()
		VPBLENDMQ(source[mod5(i+l.choice[0].by)], source[i], choiceMasks[0], now.half[i])
	case 'g':
		now.t[i] = ZMM()
		VPBLENDMQ(now.half[mod5(i+l.choice[1].by)], now.half[i], choiceMasks[1], now.t[i])
	case 't':
		VPTERNLOGQ(xor3, now.left, now.right, now.t[c])
	case 'r': // and where p does not move the register, that is all before chi
		var v [8]uint64
		for s, from := range theta[c] {
			v[s] = uint64(rho()[from])
		}
		VPROLVQ(k.vectors.at(v), now.t[c], now.t[c])
		now.u[o] = now.t[c]
	case 'p':
		now.u[o] = ZMM()
		k.permute(now.t[c], theta[c], before[o], now.u[o])
	case 'z':
		now.iota = ZMM()
		VMOVQ(Mem{Base: k.constants, Disp: laneSize * r}, now.iota.AsX())
	case 'y':
		k.copy(r, o, now.done[l.order[r][(i+3)%5]] && now.done[l.order[r][(i+4)%5]])
		if r < period-1 && i == 4 {
			k.rounds[r+1].t[o] = now.out[o] // stays
		}
	case 'x':
		VPTERNLOGQ(chi3, now.u[l.order[r][(i+2)%5]], now.u[l.order[r][(i+1)%5]], now.out[o])
		now.done[o] = true
	case 'i':
		k.index(l.theta[0][l.joined[i]], l.pi[r], k.state[l.joined[i]])
	case 'm':
		if r == period-1 {
			c = l.joined[i]
			from := l.pi[r].sources(l.theta[0][c])
			VPERMI2Q(now.out[from[1]], now.out[from[0]], k.state[c])
			return
		}
		next := &k.rounds[r+1].t[o]
		*next = ZMM()
		k.permute(now.out[o], l.pi[r][o], l.theta[r+1][o], *next)
	}
}

// permute sets to to the lanes of register dst, which src has in other slots.
func (k *linesKernel) permute(from reg.VecVirtual, src, dst [5]int, to reg.VecVirtual) {
	VPERMQ(from, k.turn[turnOf(src, dst)], to)
}

// beside brings the values of the columns at distance dx to each column.
func (k *linesKernel) beside(dx int, p planes, from reg.VecVirtual) reg.VecVirtual {
	var have, want [5]int
	for s, l := range p[0] {
		have[s], want[s] = column(l), mod5(column(l)+dx)
	}
	to := ZMM()
	k.permute(from, have, want, to)
	return to
}

// index sets to to what makes the register dst of two of p.
func (k *linesKernel) index(dst [5]int, p planes, to reg.VecVirtual) {
	from := p.sources(dst)
	if len(from) != 2 {
		panic("a choice is between two")
	}
	var index [8]uint64
	for s, l := range dst {
		c, slot := p.find(l)
		index[s] = uint64(len(index)*slices.Index(from, c) + slot)
	}
	VMOVDQU64(k.vectors.at(index), to)
}

// copy prepares register o for chi, with iota. If nothing else needs it then chi can be in place.
func (k *linesKernel) copy(r, o int, last bool) {
	now := &k.rounds[r]
	zero, slot := k.layout.pi[r].find(lane(0, 0))
	switch {
	case zero == o && slot != 0:
		panic("iota is for slot 0")
	case zero == o:
		now.out[o] = now.iota
		VPXORQ(now.u[o], now.iota, now.iota)
	case last:
		now.out[o] = now.u[o]
	default:
		now.out[o] = ZMM()
		VMOVDQA64(now.u[o], now.out[o])
	}
}

// permuteAll applies all rounds. It uses the general register left.
func (k *linesKernel) permuteAll(table Mem, left reg.Register) {
	LEAQ(table, k.constants)
	MOVQ(U32(rounds/period), left)
	Label("rounds")
	for _, s := range order("lines") {
		k.step(s)
	}
	ADDQ(U8(period*laneSize), k.constants)
	DECQ(left)
	JNZ(LabelRef("rounds"))
}
