package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A rowsKernel keeps two states in YMM registers, each in 128 bits, and there two lanes:
// pair (x, 0) is lanes (x, 1) and (x, 2), pair (x, 1) is lanes (x, 3) and (x, 4),
// and lane (x, 0) is there twice.
//
// What bounds it is the number of vector instructions, of which three start in a
// cycle. With one lane of a state in each register there are 90 a round, here 75: pi takes both
// lanes of a pair from the same row, so it is one unpacking for two lanes, and the
// halves of the parities that have to be brought together cost less than is saved by half as
// many instructions for theta, rho and chi. The lanes that pi leaves in row 0 are
// doubled by loads where these can do it, which occupies no vector port.
//
// These instructions have different ports: rotations two of the three, unpacking and VPSHUFD
// another two. The processor gives an instruction its port long before it executes, so their
// order matters. A permutation is 25 cycles a round at best, and 650 with loads and stores.
// Slower: parities rotated after all of them (14 cycles), or in natural order (10); row 0
// before the pairs in chi, and iota last (7 and 4); each pair's rho right after its theta (4,
// if all lanes are stored). Columns of theta in natural order, or lanes doubled before or
// after all other pi, take up to 3 more. The best of 55,000 orders from two random searches
// takes 17 more, for it needs more moves between registers.
//
// Rejected: a lane of both states in each half of a register, which needs two instructions
// fewer, but permutations that cross halves (no faster than this was in natural order). One
// lane of both states in a register (18 % slower). For one state linesKernel is faster.
type rowsKernel struct {
	p, next   []reg.Register // pair (x, i) at 2x+i; before and after pi
	z, nextZ  []reg.Register // lanes (x, 0); lane (0, 0) stays in z[0]
	t         []reg.Register
	rotations reg.Register // address of their table
	constants reg.Register
	locals    Mem
}

// newRowsKernel gives the registers their parts.
func newRowsKernel() *rowsKernel {
	v := ymms
	return &rowsKernel{
		z: v[0:5], p: v[5:15], next: v[15:25],
		nextZ: append([]reg.Register{v[0]}, v[25:29]...), t: v[29:32],
		rotations: reg.R15, constants: reg.R14,
	}
}

// pair is the number of the pair that lane (x, y) is in, and whether it is the upper half.
func pair(x, y int) (n int, upper bool) { return 2*((x+5)%5) + (y-1)/2, y%2 == 0 }

// rowsRotations makes the table of rotations of two states: those of the pairs, then
// those of the two pairs that pi makes of row 0.
func rowsRotations() Mem {
	table := GLOBL("rotations2", attr.RODATA|attr.NOPTR)
	at := 0
	put := func(a, b int) {
		for range 2 {
			DATA(at, U64(rho()[a]))
			DATA(at+laneSize, U64(rho()[b]))
			at += 2 * laneSize
		}
	}
	for x := range 5 {
		for i := range 2 {
			put(lane(x, 1+2*i), lane(x, 2+2*i))
		}
	}
	for i := range 2 {
		a, _ := piSource(0, 1+2*i)
		b, _ := piSource(0, 2+2*i)
		put(lane(a, 0), lane(b, 0))
	}
	return table
}

func (k *rowsKernel) rotate(i int, r reg.Register) {
	VPROLVQ(Mem{Base: k.rotations, Disp: 4 * laneSize * i}, r, r)
}

func (k *rowsKernel) round(r int) {
	c, rolled := k.next[:5], k.next[5:] // until pi
	Comment(fmt.Sprintf("Round %d of 4, theta: column parities", r+1))
	for _, x := range [5]int{1, 4, 2, 0, 3} {
		VPXORQ(k.p[2*x], k.p[2*x+1], c[x])
		VPSHUFD(U8(0x4E), c[x], rolled[x])
		VPTERNLOGQ(xor3, k.z[x], rolled[x], c[x])
		VPROLQ(U8(1), c[x], rolled[x])
	}

	Comment("Theta: add them to the columns beside; rho")
	for _, x := range [5]int{0, 3, 1, 4, 2} {
		theta := func(r reg.Register) { VPTERNLOGQ(xor3, c[(x+4)%5], rolled[(x+1)%5], r) }
		theta(k.p[2*x])
		theta(k.p[2*x+1])
		k.rotate(2*x, k.p[2*x])
		k.rotate(2*x+1, k.p[2*x+1])
		theta(k.z[x])
	}

	Comment("Pi")
	for i := range 2 {
		a, _ := piSource(0, 1+2*i)
		b, _ := piSource(0, 2+2*i)
		VPUNPCKLQDQ(k.z[b], k.z[a], k.next[i])
	}
	for i := range 2 {
		k.rotate(10+i, k.next[i])
	}
	k.piPairs(0)
	k.piDoubled()
	k.piPairs(1)

	Comment("Chi and iota")
	for i := range 2 {
		row := make([]reg.Register, 5)
		for x := range row {
			row[x] = k.next[2*x+i]
		}
		k.chi(row, nil)
	}
	k.chi(k.nextZ, Mem{Base: k.constants, Disp: laneSize * r})
	k.p, k.next = k.next, k.p
	k.z, k.nextZ = k.nextZ, k.z
}

// piPairs makes the pairs (x, i) but for column 0. Both lanes come from row x.
func (k *rowsKernel) piPairs(i int) {
	for x := 1; x < 5; x++ {
		ax, y := piSource(x, 1+2*i)
		bx, _ := piSource(x, 2+2*i)
		a, upper := pair(ax, y)
		b, _ := pair(bx, y)
		k.unpack(upper, k.p[a], k.p[b], k.next[2*x+i])
	}
}

// piDoubled doubles the lanes (x, x). A load can double the lower halves only.
func (k *rowsKernel) piDoubled() {
	stored := func(x int) Mem { return k.locals.Offset(2 * laneSize * (x - 1)) }
	for x := 1; x < 5; x++ {
		if i, upper := pair(x, x); upper {
			k.unpack(upper, k.p[i], k.p[i], k.nextZ[x])
		} else {
			VMOVDQA64(k.p[i], stored(x))
		}
	}
	for x := 1; x < 5; x++ {
		if _, upper := pair(x, x); !upper {
			VMOVDDUP(stored(x), k.nextZ[x])
		}
	}
}

func (k *rowsKernel) unpack(upper bool, a, b, dst reg.Register) {
	if upper {
		VPUNPCKHQDQ(b, a, dst)
	} else {
		VPUNPCKLQDQ(b, a, dst)
	}
}

// chi combines a row in place, with iota for its first lane if there is any.
func (k *rowsKernel) chi(b []reg.Register, iota Op) {
	VMOVDQA64(b[0], k.t[0])
	VMOVDQA64(b[1], k.t[1])
	if iota != nil {
		VPXORQ_BCST(iota, b[0], b[0])
	}
	VPTERNLOGQ(chi3, b[2], b[1], b[0])
	VPTERNLOGQ(chi3, b[3], b[2], b[1])
	VPTERNLOGQ(chi3, b[4], b[3], b[2])
	VPTERNLOGQ(chi3, k.t[0], b[4], b[3])
	VPTERNLOGQ(chi3, k.t[1], k.t[0], b[4])
}

// permute applies all rounds. It uses the general register left. Pairs and their
// successors change places every round, so that an even number of rounds can be a loop.
func (k *rowsKernel) permute(table Mem, left reg.Register) {
	LEAQ(table, k.constants)
	MOVQ(U32(rounds/4), left)
	Label("rounds")
	for r := range 4 {
		k.round(r)
	}
	ADDQ(U8(4*laneSize), k.constants)
	DECQ(left)
	JNZ(LabelRef("rounds"))
}

// low is the lower half of a YMM register.
func low(r reg.Register) reg.Register { return xmms[r.(reg.Physical).PhysicalIndex()] }

// low and high give the XMM register that has a register's part of the first or of the second
// state.
func (k *rowsKernel) high(r reg.Register) reg.Register {
	t := low(k.t[0])
	VEXTRACTI32X4(U8(1), r, t)
	return t
}

// storeState stores the state that part gives.
func (k *rowsKernel) storeState(part func(reg.Register) reg.Register, m reg.Register) {
	for x := range 5 {
		VMOVQ(part(k.z[x]), Mem{Base: m, Disp: laneSize * x})
		for i := range 2 {
			r := part(k.p[2*x+i])
			storeHalf(false, r, Mem{Base: m, Disp: laneSize * lane(x, 1+2*i)})
			storeHalf(true, r, Mem{Base: m, Disp: laneSize * lane(x, 2+2*i)})
		}
	}
}

// storeDigest stores the first 32 bytes of the state that part gives.
func (k *rowsKernel) storeDigest(part func(reg.Register) reg.Register, m reg.Register) {
	for x := range 4 {
		VMOVQ(part(k.z[x]), Mem{Base: m, Disp: laneSize * x})
	}
}

// avx512Pair makes the kernels for two states.
func avx512Pair(table Mem) {
	rotations := rowsRotations()
	kernel := func(name, signature, doc string) (k *rowsKernel, b reg.Register) {
		TEXT(name, NOSPLIT, signature)
		Doc(name + doc)
		Pragma("noescape")
		k = newRowsKernel()
		Comment("One cache line: a load that crosses lines waits for the store before it")
		area := AllocLocal(2 * 8 * laneSize)
		LEAQ(area.Offset(8*laneSize-1), reg.R13)
		ANDQ(I8(-8*laneSize), reg.R13)
		k.locals = Mem{Base: reg.R13}
		a := Load(Param("a"), reg.RDI)
		b = Load(Param("b"), reg.RSI)
		LEAQ(rotations, k.rotations)
		Comment("Loads with masks bring lanes to their places")
		// Any port will do for these. Insertions and VMOVHPS have one (9 to 38 cycles slower).
		upper, second, last := reg.K1, reg.K2, reg.K3
		setMask(0b0010, upper)
		setMask(0b1100, second)
		setMask(0b1000, last)
		for x := range 5 {
			at := func(m reg.Register, y int) Mem { return Mem{Base: m, Disp: laneSize * lane(x, y)} }
			VPBROADCASTQ(at(a, 0), k.z[x])
			VPBROADCASTQ(at(b, 0), second, k.z[x])
			for i := range 2 {
				p := k.p[2*x+i]
				VMOVQ(at(a, 1+2*i), low(p))
				VPBROADCASTQ(at(a, 2+2*i), upper, p)
				VPBROADCASTQ(at(b, 1+2*i), second, p)
				VPBROADCASTQ(at(b, 2+2*i), last, p)
			}
		}
		k.permute(table, reg.RCX)
		return k, b
	}

	k, b := kernel("digestPermuteAVX512", "func(out *[32]byte, a, b *[25]uint64)", " stores the digest of a, which is padded, leaves a as it is, and permutes b.")
	k.storeDigest(low, Load(Param("out"), reg.RDI))
	k.storeState(k.high, b)
	VZEROUPPER()
	RET()

	k, _ = kernel("digest2AVX512", "func(outA, outB *[32]byte, a, b *[25]uint64)", " stores the digests of a and b, which are padded, and leaves both as they are.")
	k.storeDigest(low, Load(Param("outA"), reg.RDI))
	k.storeDigest(k.high, Load(Param("outB"), reg.RSI))
	VZEROUPPER()
	RET()
}
