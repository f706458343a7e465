package main

import "fmt"

// steps are the values inside a round that every kernel has to compute in some way: the parities of columns, what
// theta adds, lanes after theta, and after rho. They are for messages only: where one of them is right, so
// are the instructions that it depends on.
var steps = newSteps()

type stepTable map[string]bool

func newSteps() stepTable {
	t := stepTable{}
	f := formAlgebra()
	var c [5]form
	for x := range c {
		for y := range 5 {
			c[x] = f.xor(c[x], atomForm(laneAtom(0, 0, x+5*y)))
		}
		t[stepKey(c[x])] = true
		t[stepKey(c[x].rotate(1))] = true
	}
	offset := rhoOffsets()
	for x := range c {
		d := f.xor(c[(x+4)%5], c[(x+1)%5].rotate(1))
		t[stepKey(d)] = true
		for y := range 5 {
			theta := f.xor(d, atomForm(laneAtom(0, 0, x+5*y)))
			t[stepKey(theta)] = true
			t[stepKey(theta.rotate(offset[x][y]))] = true
		}
	}
	return t
}

func stepKey(v form) string { return fmt.Sprint(v) }

// has tells whether v is a step, and of which state's round.
func (t stepTable) has(v form) (c cut, ok bool) {
	if n := len(v.terms); n != 5 && n != 10 && n != 11 || v.degree() > 1 {
		return c, false
	}
	s, level, _, ok := fingerprint(v)
	if !ok {
		return c, false
	}
	return cut{s, level + 1}, t[stepKey(v.shifted(laneAtom(0, 0, 0)-laneAtom(s, level, 0)))]
}
