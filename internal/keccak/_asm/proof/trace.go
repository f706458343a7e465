package main

import (
	"fmt"
	"slices"
)

// A trace keeps book of which lines a value depends on since the end of the round before, to
// point at what is wrong. All methods of a nil trace do nothing: a proof that succeeds needs
// none.
type trace struct {
	k *kernel
	c *contract
	m *machine // the last one

	passed map[cut]*cone        // what the lanes depend on that were recognized
	nearly map[cut][]candidate  // values with products that are no lane of the specification
	linear map[cut][]candidate  // those without products that are no step
	steps  map[cut]map[int]bool // steps that were computed, whatever their rotations

	seen map[string]bool // forms that have been counted as right
	lost map[cut][]*cone // what instructions depend on whose results had no form

	turn   int // comparisons of facts so far
	drops  map[string]drop
	held   *cone // what the facts depend on that held in this one
	stores []storing
}

// A cut is the end of a round of one state.
type cut struct{ state, level int }

// A candidate is a value that might have been meant as a lane.
type candidate struct {
	value
	line int
}

// A drop is a fact that did not hold again.
type drop struct {
	turn       int
	lane       bool  // it is that a lane of a state is there
	cone, held *cone // of what is there instead, and of the facts that held
	stores     []int // lines that store what is missing there
}

// A storing is a store of one word.
type storing struct {
	line  int
	where place
	value
}

func newTrace(k *kernel, c *contract) *trace { return &trace{k: k, c: c, drops: map[string]drop{}} }

// A cone is a set of lines.
type cone struct{ bits []uint64 }

func (c *cone) has(line int) bool {
	return c != nil && line/64 < len(c.bits) && c.bits[line/64]>>(line%64)&1 != 0
}

func (c *cone) with(line int) *cone { return c.union(nil, line) }

// union is c, d and a line. It leaves c and d alone.
func (c *cone) union(d *cone, line int) *cone {
	n := line/64 + 1
	if c != nil {
		n = max(n, len(c.bits))
	}
	if d != nil {
		n = max(n, len(d.bits))
	}
	u := &cone{make([]uint64, n)}
	for _, e := range [2]*cone{c, d} {
		if e != nil {
			for i, b := range e.bits {
				u.bits[i] |= b
			}
		}
	}
	u.bits[line/64] |= 1 << (line % 64)
	return u
}

// lines lists the set. Line 0 is none.
func (c *cone) lines() (all []int) {
	if c == nil {
		return nil
	}
	for line := 1; line < 64*len(c.bits); line++ {
		if c.has(line) {
			all = append(all, line)
		}
	}
	return all
}

// cone is what a value depends on that the instruction makes of others.
func (m *machine) cone(from []value) *cone {
	if m.trace == nil {
		return nil
	}
	line := m.line()
	var u *cone
	for _, v := range from {
		if v.cone != nil {
			u = u.union(v.cone, line)
		}
	}
	if u == nil {
		return u.with(line)
	}
	return u
}

// line is that of the instruction that is executed, or 0.
func (m *machine) line() int {
	if m.in == nil {
		return 0
	}
	return m.in.line
}

// begin starts a run.
func (t *trace) begin(m *machine) {
	if t == nil {
		return
	}
	t.m = m
	t.passed, t.steps = map[cut]*cone{}, map[cut]map[int]bool{}
	t.seen, t.lost = map[string]bool{}, map[cut][]*cone{}
	t.nearly, t.linear = map[cut][]candidate{}, map[cut][]candidate{}
	t.stores = nil
	// Steps that are there need not be computed.
	for _, cells := range m.allCells() {
		for _, v := range cells {
			if c, i, _, ok := steps.find(v.form); ok {
				t.step(c, i)
			}
		}
	}
}

// step books a step that is there.
func (t *trace) step(c cut, i int) {
	if t.steps[c] == nil {
		t.steps[c] = map[int]bool{}
	}
	t.steps[c][i] = true
}

// recognized books a lane of the specification.
func (t *trace) recognized(m *machine, s, level int, from []value) {
	if t == nil {
		return
	}
	c := cut{s, level}
	t.passed[c] = t.passed[c].union(m.cone(from), 0)
}

// computed books another value.
func (t *trace) computed(m *machine, v value) {
	if t == nil {
		return
	}
	if c, i, exact, ok := steps.find(v.form); ok {
		t.step(c, i)
		// A copy of what was there before says nothing about the instruction that made it.
		if key := fmt.Sprint(v.form); exact && !t.seen[key] {
			t.seen[key] = true
			t.passed[c] = t.passed[c].union(v.cone, 0)
		}
		return
	}
	into := t.nearly
	if d := v.degree(); d == 0 {
		return
	} else if d == 1 {
		into = t.linear
	}
	for _, u := range v.terms {
		if f, _ := u.factors(); isLane(f.atom()) {
			s, level, _ := laneOf(f.atom())
			c := cut{s, level + 1}
			into[c] = append(into[c], candidate{v, m.line()})
			return
		}
	}
	// Made of unknowns only: of no state in particular.
	into[cut{}] = append(into[cut{}], candidate{v, m.line()})
}

// unknown books an instruction whose result has no form.
func (t *trace) unknown(v value, from []value) {
	if t == nil {
		return
	}
	for _, w := range from {
		for _, u := range w.terms {
			if f, _ := u.factors(); isLane(f.atom()) {
				s, level, _ := laneOf(f.atom())
				c := cut{s, level + 1}
				t.lost[c] = append(t.lost[c], v.cone)
				return
			}
		}
	}
}

func (t *trace) stored(m *machine, p place, v value) {
	if t == nil {
		return
	}
	t.stores = append(t.stores, storing{m.line(), p, v})
}

// arrived begins a comparison of facts, and fact books one of them.
func (t *trace) arrived() {
	if t != nil {
		t.turn++
		t.held = nil
	}
}

func (t *trace) fact(held bool, why string, was, want, got value) {
	switch {
	case t == nil:
	case held:
		if got.cone != nil {
			t.held = t.held.union(got.cone, 0)
		}
	default:
		lane := false
		if len(was.terms) == 1 {
			f, _ := was.terms[0].factors()
			lane = isLane(f.atom())
		}
		t.drops[why] = drop{t.turn, lane, got.cone, nil, t.storesOf(want.form.xor(got.form))}
	}
}

// storesOf lists the lines that store a term of v, or little more.
func (t *trace) storesOf(v form) (lines []int) {
	for _, st := range t.stores {
		has := slices.ContainsFunc(st.terms, func(u term) bool { return slices.Contains(v.terms, u) })
		if has && len(st.terms) <= 4 && !slices.Contains(lines, st.line) {
			lines = append(lines, st.line)
		}
	}
	return lines
}

// clashes lists the lines that store different lanes of one round to one place.
func (t *trace) clashes(c cut) (lines []int) {
	lane := func(v form) (int, bool) {
		if len(v.terms) != 1 {
			return 0, false
		}
		f, _ := v.terms[0].factors()
		s, level, i := laneOf(f.atom())
		return i, isLane(f.atom()) && s == c.state && level == c.level
	}
	last := map[spot]storing{}
	for _, st := range t.stores {
		if _, ok := lane(st.form); !ok {
			continue
		}
		at := spot{st.where.region, st.where.offset}
		if other, ok := last[at]; ok && !other.same(st.value) {
			lines = append(lines, other.line, st.line)
		}
		last[at] = st
	}
	return lines
}

type spot struct {
	region *region
	offset int64
}

// compared ends a comparison.
func (t *trace) compared() {
	if t == nil {
		return
	}
	for why, d := range t.drops {
		if d.turn == t.turn {
			d.held = t.held
			t.drops[why] = d
		}
	}
}

// overlap counts the terms of v that are those of a lane, whatever rotations and constants are.
func overlap(v, lane form) int {
	count := map[uint64]int{}
	class := func(t term) uint64 {
		f, g := t.factors()
		shape := func(f factor) uint64 {
			if isLane(f.atom()) {
				_, _, i := laneOf(f.atom())
				return uint64(i + 1)
			}
			return 0
		}
		return shape(f) | shape(g)<<8
	}
	for _, u := range lane.terms {
		count[class(u)]++
	}
	n := 0
	for _, u := range v.terms {
		if count[class(u)] > 0 {
			count[class(u)]--
			n++
		}
	}
	return n
}

// nearest is the candidate that has most of a form.
func nearest(all []candidate, want form) (best candidate, share int) {
	most := 0
	for _, v := range all {
		// Terms too many count against it. Of two that are as near the later one has more of
		// what there is.
		if n := overlap(v.form, want); n > 0 && 2*n-len(v.terms) >= most {
			most, best, share = 2*n-len(v.terms), v, 100*n/len(want.terms)
		}
	}
	return best, share
}
