package main

// The kernels for arm64 processors with FEAT_SHA3. A lane of the state is in the low half of a
// vector register. The high half costs nothing, so it has the same lane of a second state.
//
// 25 of the 32 registers hold the state. That leaves seven: five for the parities, two of which
// are free again once theta's sums are known. With these two, chi needs no moves, and each row of a
// round's result takes the registers of the row that it is made from, as type layout has it.

// sha3Spare are the registers that do not hold lanes.
var sha3Spare = [7]vector{25, 26, 27, 28, 29, 30, 31}

// sha3File is an arm64File with what the kernels have in common.
type sha3File struct {
	*arm64File
	table string
}

// lanesOf are the registers of the lanes, before and after a permutation.
func lanesOf(n int) (v []vector) {
	for i := range n {
		v = append(v, vector(i))
	}
	return v
}

// permute is the permutation, for whatever the lanes hold. It uses the registers constants and
// left.
func (f sha3File) permute(constants, left general) {
	f.label("permute")
	f.do("MOVD", f.table, constants)
	f.do("MOVD", immediate(rounds/4), left)
	f.label("rounds")
	l := startLayout()
	for r := range 4 {
		f.round(r, &l, constants)
	}
	l.mustEqual(startLayout())
	f.do("SUBS", immediate(1), left, left)
	f.do("BNE", "rounds")
}

func (f sha3File) round(r int, l *layout, constants general) {
	f.comment("Round %d of 4, theta: column parities", r+1)
	c := sha3Spare[:5]
	for x := range 5 {
		at := func(y int) string { return vector(l[lane(x, y)]).bytes() }
		f.do("VEOR3", at(2), at(1), at(0), c[x].bytes())
		f.do("VEOR3", at(4), at(3), c[x].bytes(), c[x].bytes())
	}
	f.comment("What theta adds to each column")
	// The first two sums are apart. After them, the parity that a sum begins with is needed no
	// more.
	d := [5]vector{sha3Spare[5], sha3Spare[6], c[1], c[2], c[3]}
	for x := range 5 {
		f.do("VRAX1", c[(x+1)%5].words(), c[(x+4)%5].words(), d[x].words())
	}
	free := [2]vector{c[0], c[4]}

	next := *l
	for y := range 5 {
		row := l.row(y)
		f.comment("Row %d: theta, rho and pi", y)
		b := f.moveRow(row, d, free)
		f.comment("Row %d: chi", y)
		for x := range 5 {
			f.do("VBCAX", b[(x+1)%5].bytes(), b[(x+2)%5].bytes(), b[x].bytes(), vector(row.dst[x]).bytes())
		}
		if y == 0 {
			f.comment("Iota")
			f.do("VLD1R.P", constants.at(laneSize), free[0].list())
			out := vector(row.dst[0]).bytes()
			f.do("VEOR", free[0].bytes(), out, out)
		}
		next.put(row)
	}
	*l = next
}

// moveRow adds d to a row's sources, rotates them and says where they are then: the first two in
// free, the others where the results of the same x will be. So each result of chi goes to a
// register that is free, or that holds the source that it needs last.
func (f sha3File) moveRow(row row, d [5]vector, free [2]vector) (b [5]vector) {
	taken := map[vector]bool{}
	for x := range 5 {
		taken[vector(row.src[x])] = true
		b[x] = vector(row.dst[x])
	}
	b[0], b[1] = free[0], free[1]
	done := [5]bool{}
	for left := 5; left > 0; {
		before := left
		for x := range 5 {
			src := vector(row.src[x])
			if done[x] || taken[b[x]] && b[x] != src {
				continue
			}
			if row.rotate[x] == 0 {
				f.do("VEOR", d[row.from[x]].bytes(), src.bytes(), b[x].bytes())
			} else {
				f.do("VXAR", immediate(64-row.rotate[x]), d[row.from[x]].words(), src.words(), b[x].words())
			}
			taken[src], taken[b[x]], done[x] = false, true, true
			left--
		}
		if left == before {
			panic("the sources of a row are in each other's way")
		}
	}
	return b
}

// nextBlock goes on to done if all blocks are absorbed.
func (f sha3File) nextBlock(blocks general) {
	f.do("SUBS", immediate(1), blocks, blocks)
	f.do("BLT", "done")
	f.comment("Absorb a block")
}

// load loads lanes of one state and clears the other.
func (f sha3File) load(a general) {
	f.comment("Load the state")
	for i, v := range lanesOf(lanes) {
		f.do("FMOVD", a.at(laneSize*i), v.scalar())
	}
}

// loadSecond loads the other state. It changes b.
func (f sha3File) loadSecond(b general) {
	f.comment("Load the second state")
	for _, v := range lanesOf(lanes) {
		f.do("VLD1.P", b.at(laneSize), v.word(1))
	}
}

// store stores the first n lanes of the first state.
func (f sha3File) store(n int, a general) {
	for i, v := range lanesOf(n) {
		f.do("FMOVD", v.scalar(), a.at(laneSize*i))
	}
}

// storeSecond stores the first n lanes of the second state. It changes b.
func (f sha3File) storeSecond(n int, b general) {
	for _, v := range lanesOf(n) {
		f.do("VST1.P", v.word(1), b.at(laneSize))
	}
}

// digestLanes is the number of lanes of a digest.
const digestLanes = 4

// sha3Kernels writes the kernels for processors with FEAT_SHA3.
func sha3Kernels(file *arm64File, table string) {
	f := sha3File{file, table}
	const state, digest, count = "*[25]uint64", "*[32]byte", "int"
	const r0, r1, r2, r3, r4, r5, r6 general = 0, 1, 2, 3, 4, 5, 6

	f.function("permuteSHA3", " permutes a, then absorbs blocks blocks at p.",
		parameter{"a", state}, parameter{"p", "*byte"}, parameter{"blocks", count})
	f.load(r0)
	f.permute(r3, r4)
	f.nextBlock(r2)
	for i, v := range lanesOf(rate) {
		t := sha3Spare[i%len(sha3Spare)]
		f.do("FMOVD", r1.at(laneSize*i), t.scalar())
		f.do("VEOR", t.bytes(), v.bytes(), v.bytes())
	}
	f.do("ADD", immediate(laneSize*rate), r1, r1)
	f.do("B", "permute")
	f.label("done")
	f.store(lanes, r0)
	f.ret()

	f.function("permute2SHA3", " permutes the first two states, then absorbs blocks blocks at the first two of p.",
		parameter{"states", "*[25][8]uint64"}, parameter{"p", "*[8]*byte"}, parameter{"blocks", count})
	f.do("LDP", r1.at(0), "("+r5.String()+", "+r6.String()+")")
	f.comment("Load both states")
	for i, v := range lanesOf(lanes) {
		f.do("FMOVQ", r0.at(groupStride*i), v.scalar())
	}
	f.permute(r3, r4)
	f.nextBlock(r2)
	f.absorb2(r5, r6)
	f.do("B", "permute")
	f.label("done")
	for i, v := range lanesOf(lanes) {
		f.do("FMOVQ", v.scalar(), r0.at(groupStride*i))
	}
	f.ret()

	f.function("digestSHA3", " stores the digest of a, which is padded, and leaves a as it is.",
		parameter{"out", digest}, parameter{"a", state})
	f.load(r1)
	f.permute(r3, r4)
	f.store(digestLanes, r0)
	f.ret()

	f.function("digestPermuteSHA3", " stores the digest of a, which is padded, leaves a as it is, and permutes b.",
		parameter{"out", digest}, parameter{"a", state}, parameter{"b", state})
	f.load(r1)
	f.do("MOVD", r2, r5)
	f.loadSecond(r5)
	f.permute(r3, r4)
	f.store(digestLanes, r0)
	f.storeSecond(lanes, r2)
	f.ret()

	f.function("digest2SHA3", " stores the digests of a and b, which are padded, and leaves both as they are.",
		parameter{"outA", digest}, parameter{"outB", digest}, parameter{"a", state}, parameter{"b", state})
	f.load(r2)
	f.loadSecond(r3)
	f.permute(r3, r4)
	f.store(digestLanes, r0)
	f.storeSecond(digestLanes, r1)
	f.ret()
}

// absorb2 xors the blocks at p and q into the two states, and moves p and q on.
func (f sha3File) absorb2(p, q general) {
	a, b, low, high := sha3Spare[0], sha3Spare[1], sha3Spare[2], sha3Spare[3]
	for i := 0; i < rate; i += 2 {
		last := i+1 == rate // alone: nothing beyond the block is read
		load := "FMOVQ"
		if last {
			load = "FMOVD"
		}
		f.do(load, p.at(laneSize*i), a.scalar())
		f.do(load, q.at(laneSize*i), b.scalar())
		f.do("VZIP1", b.words(), a.words(), low.words())
		f.do("VEOR", low.bytes(), vector(i).bytes(), vector(i).bytes())
		if !last {
			f.do("VZIP2", b.words(), a.words(), high.words())
			f.do("VEOR", high.bytes(), vector(i+1).bytes(), vector(i+1).bytes())
		}
	}
	for _, r := range []general{p, q} {
		f.do("ADD", immediate(laneSize*rate), r, r)
	}
}
