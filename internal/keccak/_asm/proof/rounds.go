package main

import "math/bits"

// Here values are cut at the end of each round. A value that is equal, for all inputs, to what
// the specification gives for a lane after a round is from then on that lane, a new atom.
// Equality is that of forms, which is exact, so nothing is assumed; and no layout has to be
// told, for a lane is recognized wherever it is, and turned by whatever rotation.

// A roundTable has the specification of one round.
type roundTable struct {
	lane     [laneCount]form // over the lanes of state 0 at level 0, without iota
	constant [roundCount]uint64
	bySum    map[uint64]int  // the lane with a given sum (see fingerprint)
	size     map[int]bool    // the numbers of terms
	pivot    [laneCount]term // a product of two lanes
}

var rounds = newRoundTable()

func newRoundTable() *roundTable {
	t := &roundTable{bySum: map[uint64]int{}, size: map[int]bool{}}
	var in [laneCount]form
	for i := range in {
		in[i] = atomForm(laneAtom(0, 0, i))
	}
	t.lane = specRound(formAlgebra(), in, 0)
	for r := range t.constant {
		t.constant[r] = roundConstant(r)
	}
	t.lane[0].c ^= t.constant[0]
	for i, v := range t.lane {
		_, _, sum, ok := fingerprint(v)
		if _, twice := t.bySum[sum]; !ok || twice || v.c != 0 {
			panic("lanes of a round must differ")
		}
		t.bySum[sum] = i
		t.size[len(v.terms)] = true
		for _, u := range v.terms {
			if f, g := u.factors(); g != 0 && f.atom() != g.atom() {
				t.pivot[i] = u
			}
		}
	}
	return t
}

// fingerprint gives state and level of all lanes in v, and a sum that does not
// depend on them, nor on how far v is rotated.
func fingerprint(v form) (s, level int, sum uint64, ok bool) {
	for n, t := range v.terms {
		f, g := t.factors()
		if t.mask != allOnes || !isLane(f.atom()) || g != 0 && !isLane(g.atom()) {
			return 0, 0, 0, false
		}
		fs, fl, fi := laneOf(f.atom())
		h := uint64(fi + 1)
		if n == 0 {
			s, level = fs, fl
		}
		if fs != s || fl != level {
			return 0, 0, 0, false
		}
		if g != 0 {
			gs, gl, gi := laneOf(g.atom())
			if gs != s || gl != level {
				return 0, 0, 0, false
			}
			// A product of a lane with itself has two distances. Take the smaller.
			d := uint64(g.rotation()-f.rotation()) & 63
			if fi == gi {
				d = 64 + min(d, 64-d)
			}
			h |= uint64(gi+1)<<8 | d<<16
		}
		h *= 0x9E3779B97F4A7C15
		h ^= h >> 29
		sum += h * 0xBF58476D1CE4E5B9
	}
	return s, level, sum, true
}

// recognize tells whether v is lane i of state s after level rounds, turned left by n, or the
// complement of that.
func (t *roundTable) recognize(v form) (s, level, i, n int, complement, ok bool) {
	if !t.size[len(v.terms)] {
		return
	}
	s, level, sum, ok := fingerprint(v)
	i, known := t.bySum[sum]
	if !ok || !known || level == roundCount {
		return s, level, i, n, false, false
	}
	// The rotation is that of one product.
	base := laneAtom(s, level, 0) - laneAtom(0, 0, 0)
	f, g := t.pivot[i].factors()
	for _, u := range v.terms {
		uf, ug := u.factors()
		if ug == 0 || uf.atom()-base != f.atom() || ug.atom()-base != g.atom() {
			continue
		}
		n = (uf.rotation() - f.rotation()) & 63
		if (ug.rotation()-g.rotation())&63 != n {
			continue
		}
		want := t.lane[i].shifted(base).rotate(n)
		if i == 0 {
			want.c = bits.RotateLeft64(t.constant[level], n)
		}
		if v.equal(want) {
			return s, level + 1, i, n, false, true
		}
		if v.equal(want.not()) {
			return s, level + 1, i, n, true, true
		}
	}
	return s, level, i, n, false, false
}

// shifted adds n to the number of each atom. That keeps the order of terms.
func (v form) shifted(n int) form {
	if n == 0 {
		return v
	}
	r := form{v.c, make([]term, len(v.terms))}
	by := uint64(n) << rotateBits
	for i, t := range v.terms {
		if t.key>>factorBits != 0 {
			t.key += by << factorBits
		}
		r.terms[i] = term{t.key + by, t.mask}
	}
	return r
}
