package main

import "slices"

// planes says which lane is in which slot of which of five registers.
//
// A line is a set of five lanes with x = c + a*y (mod 5), one of each row and, unless a is
// 0, one of each column. Pi is linear and so makes lines of lines.
type planes [5][5]int

// An axis gives one coordinate of a lane.
type axis func(lane int) int

func column(l int) int { return l % 5 }
func row5(l int) int   { return l / 5 }

func mod5(n int) int { return (n%5 + 5) % 5 }

// inOrder puts a coordinate's value v in slot v.
var inOrder = [5]int{0, 1, 2, 3, 4}

// linesOf has the lanes of the line x = c + a*y in register c, aligned by rows.
func linesOf(a int) (p planes) {
	for c := range p {
		for y := range p[c] {
			p[c][y] = lane(mod5(c+a*y), y)
		}
	}
	return p
}

// slots gives the slot of each value of a coordinate in a register.
func slots(register [5]int, by axis) (slot [5]int) {
	seen := 0
	for s, l := range register {
		slot[by(l)] = s
		seen |= 1 << by(l)
	}
	if seen != 0b11111 {
		panic("two lanes of a register for one slot")
	}
	return slot
}

// align moves lanes within their registers to the slots of their coordinate.
func (p planes) align(slot [5]int, by axis) (q planes) {
	for c := range p {
		slots(p[c], by) // panics if two lanes want one slot
		for _, l := range p[c] {
			q[c][slot[by(l)]] = l
		}
	}
	return q
}

// after and before give the places that lanes have after and had before pi.
func (p planes) after() planes  { return p.mapped(pi) }
func (p planes) before() planes { return p.mapped(piSource) }

func (p planes) mapped(f func(x, y int) (int, int)) (q planes) {
	for c := range p {
		for s, l := range p[c] {
			q[c][s] = lane(f(column(l), row5(l)))
		}
	}
	return q
}

// find tells where l is.
func (p planes) find(l int) (c, s int) {
	for c := range p {
		if s := slices.Index(p[c][:], l); s >= 0 {
			return c, s
		}
	}
	panic("no such lane")
}

// sources lists the registers of p that have the lanes of register.
func (p planes) sources(register [5]int) (from []int) {
	for _, l := range register {
		if c, _ := p.find(l); !slices.Contains(from, c) {
			from = append(from, c)
		}
	}
	return from
}

// order lists the registers, beginning with first, so that each has beside its lanes, in the same
// slots, those of the next register.
func (p planes) order(first int) (o [5]int) {
	o[0] = first
	for i := range 5 {
		for s, l := range p[o[i]] {
			c, slot := p.find(lane(column(l)+1, row5(l)))
			next := &o[(i+1)%5]
			if s == 0 && i < 4 {
				*next = c
			}
			if slot != s || c != *next {
				panic("no order for chi")
			}
		}
	}
	return o
}

// A choice takes some columns of register c from register c+by.
type choice struct {
	by      int
	columns [5]bool
}

func (p planes) choose(ch choice) (q planes) {
	for c := range p {
		for s, l := range p[c] {
			if ch.columns[column(l)] {
				l = p[mod5(c+ch.by)][s]
			}
			q[c][s] = l
		}
	}
	return q
}

// choices composes a rotation of each column x by turn*x registers of choices of the given steps.
func choices(turn int, by [3]int) (ch [3]choice) {
	for j := range ch {
		ch[j].by = by[j]
	}
	for x := range 5 {
		bits := 0
		for total := -1; total != mod5(turn*x); bits++ {
			total = 0
			for j := range ch {
				ch[j].columns[x] = bits>>j&1 != 0
				if ch[j].columns[x] {
					total = mod5(total + by[j])
				}
			}
		}
	}
	return ch
}

// turnOf tells by how many slots the lanes of dst are shifted from src.
func turnOf(src, dst [5]int) int {
	for n := range 5 {
		if slices.Equal(append(slices.Clone(src[n:]), src[:n]...), dst[:]) {
			return n
		}
	}
	panic("not a shift")
}
