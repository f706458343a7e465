package main

// The kernel for arm64 processors without FEAT_SHA3, or with a slow one. All lanes stay in general
// registers.
//
// Nothing is ever rotated. An exclusive or, and an and-not, can rotate one operand for free.
// So each register has a rotation that is still due, and what two registers make is made in terms
// of one of them. The other one is rotated by the difference.
//
// The rounds are all written out. Each result of chi takes the register of the lane that is
// exclusive-ored into it, so that lanes move as pi moves them, and are back after 24 rounds.
//
// Rejected: rotating the lanes of two rows in every round. By estimate that is 23 % faster on
// Cortex-A72, and 7 to 17 % slower on Neoverse processors.

// A lazy is a register and the rotation to the left that is still due.
type lazy struct {
	reg general
	due int
}

// scalarKernel is the kernel's state while it is generated.
type scalarKernel struct {
	*arm64File
	lanes [lanes]lazy
	temps [3]general
}

// combine sets dst to what op makes of a and b, and leaves the rotation of a due.
func (k *scalarKernel) combine(op string, b, a lazy, dst general) lazy {
	k.do(op, b.reg.ror(mod64(a.due-b.due)), a.reg, dst)
	return lazy{dst, a.due}
}

func mod64(n int) int { return (n%64 + 64) % 64 }

// What is in the stack frame: two parities, where the round constants are, and the return address.
const (
	scalarFrame     = 4 * 8
	scalarConstants = "constants-24(SP)"
	scalarLink      = "link-32(SP)"
)

var scalarParity = [2]string{"c0-8(SP)", "c1-16(SP)"}

// parity sums up a column in dst.
func (k *scalarKernel) parity(x int, dst general) lazy {
	c := k.lanes[lane(x, 0)]
	for y := 1; y < 5; y++ {
		c = k.combine("EOR", k.lanes[lane(x, y)], c, dst)
	}
	return c
}

// sum sets dst to what theta adds to a column, of the parities to the left and to the right.
func (k *scalarKernel) sum(left, right lazy, dst general) lazy {
	right.due = mod64(right.due + 1)
	return k.combine("EOR", right, left, dst)
}

// add adds d to column x.
func (k *scalarKernel) add(x int, d lazy) {
	for y := range 5 {
		l := &k.lanes[lane(x, y)]
		*l = k.combine("EOR", d, *l, l.reg)
	}
}

// theta takes three registers beside the lanes. The order of the columns is such that two parities
// have to wait in memory, and no sum.
func (k *scalarKernel) theta() {
	t := k.temps
	k.comment("Theta: column 1")
	c0 := k.parity(0, t[0])
	k.do("MOVD", t[0], scalarParity[0])
	c2 := k.parity(2, t[1])
	d1 := k.sum(c0, c2, t[2])
	c1 := k.parity(1, t[0])
	k.do("MOVD", t[0], scalarParity[1])
	k.add(1, d1)

	k.comment("Theta: column 2")
	c3 := k.parity(3, t[2])
	k.add(2, k.sum(c1, c3, t[0]))

	k.comment("Theta: column 3")
	c4 := k.parity(4, t[0])
	k.add(3, k.sum(c2, c4, t[1]))

	k.comment("Theta: column 4")
	k.do("MOVD", scalarParity[0], t[1])
	c0.reg = t[1]
	k.add(4, k.sum(c3, c0, t[2]))

	k.comment("Theta: column 0")
	k.do("MOVD", scalarParity[1], t[1])
	c1.reg = t[1]
	k.add(0, k.sum(c4, c1, t[0]))
}

// rhoPi moves lanes and makes rotations due. That takes no instruction.
func (k *scalarKernel) rhoPi() {
	offsets := rho()
	before := k.lanes
	for x := range 5 {
		for y := range 5 {
			from := lane(piSource(x, y))
			l := before[from]
			l.due = mod64(l.due + offsets[from])
			k.lanes[lane(x, y)] = l
		}
	}
}

// chi works on row y. The third lane is first to be overwritten: by then the products with it
// exist.
func (k *scalarKernel) chi(y int) {
	k.comment("Row %d: chi", y)
	b := [5]lazy(k.lanes[5*y:])
	product := func(x int, dst general) lazy { return k.combine("BIC", b[(x+1)%5], b[(x+2)%5], dst) }
	result := func(x int, u lazy) { k.lanes[5*y+x] = k.combine("EOR", u, b[x], b[x].reg) }
	u0 := product(0, k.temps[0])
	u1 := product(1, k.temps[1])
	for x := 2; x < 5; x++ {
		result(x, product(x, k.temps[2]))
	}
	result(0, u0)
	result(1, u1)
}

func (k *scalarKernel) iota(round int) {
	k.comment("Iota")
	t := k.temps[0]
	k.do("MOVD", scalarConstants, t)
	k.do("MOVD", t.at(laneSize*round), t)
	l := k.lanes[0]
	k.combine("EOR", lazy{t, 0}, l, l.reg)
}

// scalar writes the kernel for one state in general registers.
func scalar(f *arm64File, table string) {
	k := &scalarKernel{arm64File: f}
	parameters := []parameter{{"a", "*[25]uint64"}, {"p", "*byte"}, {"blocks", "int"}}
	a, p, blocks := argument(parameters, 0), argument(parameters, 1), argument(parameters, 2)
	k.begin("permuteScalar", " permutes a, then absorbs blocks blocks at p.", scalarFrame, parameters...)

	// R18 is the system's, R28 and R29 are Go's. R27 is the assembler's, which uses it for nothing
	// here. R30 has the return address, which the assembler saves for who looks at the stack, but
	// does not load again since nothing is called.
	registers := []general{
		0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17,
		19, 20, 21, 22, 23, 24, 25, 26, 27, 30,
	}
	for i := range k.lanes {
		k.lanes[i] = lazy{registers[i], 0}
	}
	k.temps = [3]general(registers[lanes:])
	start, t := k.lanes, k.temps

	k.do("MOVD", general(30), scalarLink)
	k.do("MOVD", table, t[0])
	k.do("MOVD", t[0], scalarConstants)
	k.do("MOVD", a, t[0])
	k.comment("Load the state")
	for i, l := range start {
		k.do("MOVD", t[0].at(laneSize*i), l.reg)
	}
	k.label("permute")
	for r := range rounds {
		k.comment("Round %d of %d", r+1, rounds)
		k.theta()
		k.rhoPi()
		for y := range 5 {
			k.chi(y)
		}
		k.iota(r)
	}
	k.comment("Rotations that are still due")
	for i := range k.lanes {
		l := &k.lanes[i]
		if l.due != 0 {
			k.do("ROR", immediate(64-l.due), l.reg, l.reg)
			l.due = 0
		}
	}
	if k.lanes != start {
		panic("lanes are not where they were")
	}

	k.do("MOVD", blocks, t[0])
	k.do("SUBS", immediate(1), t[0], t[0])
	k.do("BLT", "done")
	k.do("MOVD", t[0], blocks)
	k.comment("Absorb a block")
	k.do("MOVD", p, t[0])
	for i, l := range start[:rate] {
		block := t[1+i%2]
		k.do("MOVD", t[0].at(laneSize*i), block)
		k.do("EOR", block, l.reg, l.reg)
	}
	k.do("ADD", immediate(laneSize*rate), t[0], t[0])
	k.do("MOVD", t[0], p)
	k.do("B", "permute")

	k.label("done")
	k.do("MOVD", a, t[0])
	for i, l := range start {
		k.do("MOVD", l.reg, t[0].at(laneSize*i))
	}
	k.do("MOVD", scalarLink, general(30))
	k.ret()
}
