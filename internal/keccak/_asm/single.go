package main

import (
	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// What masks are for. The two slots below those of slotMasks are where plain loads put lanes.
var (
	choiceMasks = [2]reg.Register{reg.K1, reg.K2}
	slotMasks   = [5]reg.Register{2: reg.K3, reg.K4, reg.K5}
	blockMask   = reg.K6
	spareMask   = reg.K7
)

// A vectorTable is a table of vectors in memory, each of which is there once.
type vectorTable struct {
	base   reg.Register
	offset map[[8]uint64]int
}

// at is where v is. It puts it there if need be.
func (t *vectorTable) at(v [8]uint64) Mem {
	offset, ok := t.offset[v]
	if !ok {
		offset = len(v) * laneSize * len(t.offset)
		t.offset[v] = offset
		for i, q := range v {
			DATA(offset+laneSize*i, U64(q))
		}
	}
	return Mem{Base: t.base, Disp: offset}
}

func newLinesKernel(vectors *vectorTable) *linesKernel {
	k := &linesKernel{layout: newLinesLayout(), vectors: vectors, constants: reg.R14}
	for c := range k.state {
		k.state[c] = ZMM()
	}
	for n := 1; n < 5; n++ {
		var v [8]uint64
		for s := range 5 {
			v[s] = uint64(mod5(s + n))
		}
		k.turn[n] = ZMM()
		VMOVDQU64(k.vectors.at(v), k.turn[n])
	}
	return k
}

// load loads the state lane by lane: wider loads would wait until lanes that have just been
// stored are in the cache. It sets the masks of the loop.
func (k *linesKernel) load(a reg.Register) {
	first := k.layout.theta[0]
	for s, mask := range slotMasks {
		if mask != nil {
			setMask(1<<s, mask)
		}
		for c, r := range k.state {
			m := Mem{Base: a, Disp: laneSize * first[c][s]}
			switch s {
			case 0:
				VMOVQ(m, r.AsX())
			case 1:
				VMOVHPS(m, r.AsX(), r.AsX())
			default:
				VPBROADCASTQ(m, mask, r)
			}
		}
	}
	for i, ch := range k.layout.choice {
		bits := 0
		for s, l := range first[0] {
			if ch.columns[column(l)] {
				bits |= 1 << s
			}
		}
		setMask(bits, choiceMasks[i])
	}
}

// absorb xors the block at p into the state.
func (k *linesKernel) absorb(p reg.Register) {
	const none = 15 // zero in the second register
	low, high := ZMM(), ZMM()
	VMOVDQU64(Mem{Base: p}, low)
	VMOVDQU64_Z(Mem{Base: p, Disp: 8 * laneSize}, blockMask, high)
	for _, c := range k.layout.joined {
		register := k.layout.theta[0][c]
		var index [8]uint64
		for s, l := range register {
			index[s] = uint64(min(l, none))
		}
		block := ZMM()
		VMOVDQU64(k.vectors.at(index), block)
		VPERMI2Q(high, low, block)
		for s, l := range register {
			if l < none || l >= rate {
				continue
			}
			mask := slotMasks[s]
			if mask == nil {
				mask = spareMask
				setMask(1<<s, mask)
			}
			VPBROADCASTQ(Mem{Base: p, Disp: laneSize * l}, mask, block)
		}
		VPXORQ(block, k.state[c], k.state[c])
	}
	ADDQ(U32(laneSize*rate), p)
}

// store stores the result of the last chi.
func (k *linesKernel) store(a reg.Register) {
	for c, r := range k.rounds[period-1].out {
		var part reg.Register = r.AsX()
		for s, l := range k.layout.pi[period-1][c] {
			if s >= 2 && s%2 == 0 {
				part = XMM()
				VEXTRACTI32X4(U8(s/2), r, part)
			}
			storeHalf(s%2 == 1, part, Mem{Base: a, Disp: laneSize * l})
		}
	}
}

// storeDigest stores the first 32 bytes of the result of the last chi.
func (k *linesKernel) storeDigest(m reg.Register) {
	for x := range 4 {
		c, s := k.layout.pi[period-1].find(lane(x, 0))
		if s != 0 {
			panic("row 0 is not in slot 0")
		}
		VMOVQ(k.rounds[period-1].out[c].AsX(), Mem{Base: m, Disp: laneSize * x})
	}
}

// avx512Single makes the kernels for one state.
func avx512Single(table Mem) {
	vectors := &vectorTable{base: reg.R15, offset: map[[8]uint64]int{}}
	start := GLOBL("lineVectors", attr.RODATA|attr.NOPTR)
	kernel := func(name, signature, doc string) (k *linesKernel, a reg.Register) {
		TEXT(name, NOSPLIT, signature)
		Doc(name + doc)
		Pragma("noescape")
		a = Load(Param("a"), reg.RDI)
		LEAQ(start, vectors.base)
		k = newLinesKernel(vectors)
		k.load(a)
		return k, a
	}

	k, a := kernel("permuteAVX512", "func(a *[25]uint64, p *byte, blocks int)", " permutes a, then absorbs blocks blocks at p.")
	p := Load(Param("p"), reg.RSI)
	blocks := Load(Param("blocks"), reg.R8)
	setMask(1<<7-1, blockMask)
	Label("permute")
	k.permuteAll(table, reg.RCX)
	DECQ(blocks)
	JL(LabelRef("done"))
	Comment("Absorb a block")
	k.absorb(p)
	JMP(LabelRef("permute"))
	Label("done")
	k.store(a)
	VZEROUPPER()
	RET()

	k, _ = kernel("digestAVX512", "func(out *[32]byte, a *[25]uint64)", " stores the digest of a, which is padded, and leaves a as it is.")
	k.permuteAll(table, reg.RCX)
	k.storeDigest(Load(Param("out"), reg.RSI))
	VZEROUPPER()
	RET()
}
