package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A rowsKernel keeps one or two states in registers, two lanes in each 128 bits:
// pair (x, 0) is lanes (x, 1) and (x, 2), pair (x, 1) is lanes (x, 3) and (x, 4),
// and lane (x, 0) is there twice. A second state is in the upper half of YMM registers.
//
// What bounds it is the number of vector instructions, of which three start in a
// cycle. With one lane in each register there are 90 a round, here 73 to 75: pi takes both
// lanes of a pair from the same row, so it is one unpacking for two lanes, and the
// halves of the parities that have to be brought together cost less than is saved by half as
// many instructions for theta, rho and chi. The lanes that pi leaves in row 0 are
// doubled by loads where these can do it, which occupies no vector port (4 %).
//
// Rejected, for one state: one lane in a register and row 0 in general registers
// (6 % slower; without the latter 25 %); pairs, and row 0 in general registers (4 to
// 15 %: its way through memory and back is longer than the round); four lanes in a YMM
// register (20 %); bringing the halves of parities together (1 % for each column), or rotating
// them (3 %), by way of memory. For two states: one lane of both in a register (18 %).
type rowsKernel struct {
	n         int            // states
	p, next   []reg.Register // pair (x, i) at 2x+i; before and after pi
	z, nextZ  []reg.Register // lanes (x, 0); lane (0, 0) stays in z[0]
	t         []reg.Register
	rotations reg.Register // address of their table
	constants reg.Register
	locals    Mem
}

// newRowsKernel gives the registers of one width their parts.
func newRowsKernel(n int, v []reg.Register) *rowsKernel {
	return &rowsKernel{
		n: n,
		z: v[0:5], p: v[5:15], next: v[15:25],
		nextZ: append([]reg.Register{v[0]}, v[25:29]...), t: v[29:32],
		rotations: reg.R15, constants: reg.R14,
	}
}

// pair is the number of the pair that lane (x, y) is in, and whether it is the upper half.
func pair(x, y int) (n int, upper bool) { return 2*((x+5)%5) + (y-1)/2, y%2 == 0 }

// rowsRotations makes the table of rotations of n states: those of the pairs, then
// those of the two pairs that pi makes of row 0.
func rowsRotations(name string, n int) Mem {
	table := GLOBL(name, attr.RODATA|attr.NOPTR)
	at := 0
	put := func(a, b int) {
		for range n {
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
	VPROLVQ(Mem{Base: k.rotations, Disp: 2 * laneSize * k.n * i}, r, r)
}

func (k *rowsKernel) round(r int) {
	c, rolled := k.next[:5], k.next[5:] // until pi
	Comment(fmt.Sprintf("Round %d of 4, theta: column parities", r+1))
	for x := range 5 {
		VPXORQ(k.p[2*x], k.p[2*x+1], c[x])
		VPSHUFD(U8(0x4E), c[x], rolled[x])
		VPTERNLOGQ(xor3, k.z[x], rolled[x], c[x])
	}
	for x := range 5 {
		VPROLQ(U8(1), c[x], rolled[x])
	}
	theta := func(x int, r reg.Register) { VPTERNLOGQ(xor3, c[(x+4)%5], rolled[(x+1)%5], r) }

	Comment("Theta: add them to the columns beside; rho")
	for x := range 5 {
		for i := 2 * x; i < 2*x+2; i++ {
			theta(x, k.p[i])
			k.rotate(i, k.p[i])
		}
		theta(x, k.z[x])
	}

	Comment("Pi")
	for x := 1; x < 5; x++ {
		k.storeDiagonal(x)
		k.loadDiagonal(x)
	}
	for i := range 2 {
		a, _ := piSource(0, 1+2*i)
		b, _ := piSource(0, 2+2*i)
		VPUNPCKLQDQ(k.z[b], k.z[a], k.next[i])
		k.rotate(10+i, k.next[i])
	}
	for i := range 2 {
		for x := 1; x < 5; x++ {
			// Both come from row x.
			ax, y := piSource(x, 1+2*i)
			bx, _ := piSource(x, 2+2*i)
			a, upper := pair(ax, y)
			b, _ := pair(bx, y)
			k.unpack(upper, k.p[a], k.p[b], k.next[2*x+i])
		}
	}

	Comment("Chi and iota")
	k.chi(k.nextZ)
	VPXORQ_BCST(Mem{Base: k.constants, Disp: laneSize * r}, k.nextZ[0], k.nextZ[0])
	for i := range 2 {
		row := make([]reg.Register, 5)
		for x := range row {
			row[x] = k.next[2*x+i]
		}
		k.chi(row)
	}
	k.p, k.next = k.next, k.p
	k.z, k.nextZ = k.nextZ, k.z
}

func (k *rowsKernel) unpack(upper bool, a, b, dst reg.Register) {
	if upper {
		VPUNPCKHQDQ(b, a, dst)
	} else {
		VPUNPCKLQDQ(b, a, dst)
	}
}

// storeDiagonal puts lane (x, x) where loadDiagonal finds it.
func (k *rowsKernel) storeDiagonal(x int) {
	i, upper := pair(x, x)
	switch {
	case k.n == 1:
		storeHalf(upper, k.p[i], k.locals.Offset(laneSize*x))
	case !upper:
		VMOVDQA64(k.p[i], k.locals.Offset(2*laneSize*(x-1)))
	}
}

// loadDiagonal doubles lane (x, x). Of two states a load can double the lower halves only.
func (k *rowsKernel) loadDiagonal(x int) {
	i, upper := pair(x, x)
	switch {
	case k.n == 1:
		VPBROADCASTQ(k.locals.Offset(laneSize*x), k.nextZ[x])
	case upper:
		k.unpack(upper, k.p[i], k.p[i], k.nextZ[x])
	default:
		VMOVDDUP(k.locals.Offset(2*laneSize*(x-1)), k.nextZ[x])
	}
}

// chi combines a row in place.
func (k *rowsKernel) chi(b []reg.Register) {
	VMOVDQA64(b[0], k.t[0])
	VMOVDQA64(b[1], k.t[1])
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

func storeHalf(upper bool, r reg.Register, m Mem) {
	if upper {
		VMOVHPS(r, m)
	} else {
		VMOVQ(r, m)
	}
}

// loadPair sets the XMM register dst to those two of the n lanes at m that pair (x, i) holds. Lanes
// beyond n are zero. It reports whether there are any.
func loadPair(m reg.Register, n, x, i int, dst reg.Register) bool {
	a, b := lane(x, 1+2*i), lane(x, 2+2*i)
	if a >= n {
		return false
	}
	VMOVQ(Mem{Base: m, Disp: laneSize * a}, dst)
	if b < n {
		VMOVHPS(Mem{Base: m, Disp: laneSize * b}, dst, dst)
	}
	return true
}

// low is the lower half of a YMM register.
func low(r reg.Register) reg.Register { return xmms[r.(reg.Physical).PhysicalIndex()] }

// low and high give the XMM register that has a register's part of the first or of the second state.
func (k *rowsKernel) low(r reg.Register) reg.Register { return low(r) }
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

// avx512Single makes the kernels for one state.
func avx512Single(table Mem) {
	rotations := rowsRotations("rotations1", 1)
	kernel := func(name, signature, doc string) (k *rowsKernel, a reg.Register) {
		TEXT(name, NOSPLIT, signature)
		Doc(name + doc)
		Pragma("noescape")
		k = newRowsKernel(1, xmms)
		k.locals = AllocLocal(5 * laneSize)
		a = Load(Param("a"), reg.RDI)
		LEAQ(rotations, k.rotations)
		for x := range 5 {
			VPBROADCASTQ(Mem{Base: a, Disp: laneSize * x}, k.z[x])
			for i := range 2 {
				loadPair(a, lanes, x, i, k.p[2*x+i])
			}
		}
		return k, a
	}

	k, a := kernel("permuteAVX512", "func(a *[25]uint64, p *byte, blocks int)", " permutes a, then absorbs blocks blocks at p.")
	p := Load(Param("p"), reg.RSI)
	blocks := Load(Param("blocks"), reg.R8)
	Label("permute")
	k.permute(table, reg.RCX)
	DECQ(blocks)
	JL(LabelRef("done"))
	Comment("Absorb a block")
	for x := range 5 {
		VPXORQ_BCST(Mem{Base: p, Disp: laneSize * x}, k.z[x], k.z[x])
		for i := range 2 {
			if t := k.next[x]; loadPair(p, rate, x, i, t) {
				VPXORQ(t, k.p[2*x+i], k.p[2*x+i])
			}
		}
	}
	ADDQ(U32(laneSize*rate), p)
	JMP(LabelRef("permute"))
	Label("done")
	k.storeState(k.low, a)
	VZEROUPPER()
	RET()

	k, _ = kernel("digestAVX512", "func(out *[32]byte, a *[25]uint64)", " stores the digest of a, which is padded, and leaves a as it is.")
	k.permute(table, reg.RCX)
	k.storeDigest(k.low, Load(Param("out"), reg.RSI))
	VZEROUPPER()
	RET()
}

// avx512Pair makes the kernels for two states. They take little more time than one.
func avx512Pair(table Mem) {
	rotations := rowsRotations("rotations2", 2)
	kernel := func(name, signature, doc string) (k *rowsKernel, a, b reg.Register) {
		TEXT(name, NOSPLIT, signature)
		Doc(name + doc)
		Pragma("noescape")
		k = newRowsKernel(2, ymms)
		Comment("One cache line: a load that crosses lines waits for the store before it")
		area := AllocLocal(2 * 8 * laneSize)
		LEAQ(area.Offset(8*laneSize-1), reg.R13)
		ANDQ(I8(-8*laneSize), reg.R13)
		k.locals = Mem{Base: reg.R13}
		a = Load(Param("a"), reg.RDI)
		b = Load(Param("b"), reg.RSI)
		LEAQ(rotations, k.rotations)
		Comment("The second state goes to the upper halves")
		MOVL(U32(0b1100), reg.EAX)
		KMOVW(reg.EAX, reg.K1)
		t := low(k.t[0])
		for x := range 5 {
			VPBROADCASTQ(Mem{Base: a, Disp: laneSize * x}, k.z[x])
			VPBROADCASTQ(Mem{Base: b, Disp: laneSize * x}, reg.K1, k.z[x])
			for i := range 2 {
				p := k.p[2*x+i]
				loadPair(a, lanes, x, i, low(p))
				loadPair(b, lanes, x, i, t)
				VINSERTI32X4(U8(1), t, p, p)
			}
		}
		k.permute(table, reg.RCX)
		return k, a, b
	}

	k, a, b := kernel("permute2AVX512", "func(a, b *[25]uint64)", " permutes a and b.")
	k.storeState(k.low, a)
	k.storeState(k.high, b)
	VZEROUPPER()
	RET()

	k, _, _ = kernel("digest2AVX512", "func(outA, outB *[32]byte, a, b *[25]uint64)", " stores the digests of a and b, which are padded, and leaves both as they are.")
	k.storeDigest(k.low, Load(Param("outA"), reg.RDI))
	k.storeDigest(k.high, Load(Param("outB"), reg.RSI))
	VZEROUPPER()
	RET()
}
