package main

import "fmt"

// A step is a value inside a round that every kernel computes in some way: the parity of a
// column, or a lane after theta. Steps are for messages only. Where one is right, so are the
// instructions that it depends on; where one is missing, that is what is wrong.
type step struct {
	name string
	form form // over the lanes of state 0 at level 0
}

// steps has parities first.
var steps = newSteps()

type stepTable struct {
	all     []step
	byShape map[string]int  // whatever the rotation is
	exact   map[string]bool // with rotations that are right for sure
}

func newSteps() *stepTable {
	t := &stepTable{byShape: map[string]int{}, exact: map[string]bool{}}
	add := func(name string, v form, rotations ...int) {
		t.byShape[stepKey(upright(v))] = len(t.all)
		t.all = append(t.all, step{name, v})
		for _, n := range rotations {
			t.exact[stepKey(v.rotate(n))] = true
		}
	}
	f := formAlgebra()
	var c [5]form
	for x := range c {
		for y := range 5 {
			c[x] = f.xor(c[x], atomForm(laneAtom(0, 0, x+5*y)))
		}
		add(fmt.Sprintf("the parity of column %d", x), c[x], 0, 1)
	}
	offset := rhoOffsets()
	for i := range laneCount {
		x, y := i%5, i/5
		d := f.xor(c[(x+4)%5], c[(x+1)%5].rotate(1))
		t.exact[stepKey(d)] = true
		add(fmt.Sprintf("lane (%d, %d) after theta", x, y), f.xor(d, atomForm(laneAtom(0, 0, i))), 0, offset[x][y])
	}
	return t
}

func stepKey(v form) string { return fmt.Sprint(v) }

// upright rotates v so that its first term is not.
func upright(v form) form {
	f, _ := v.terms[0].factors()
	return v.rotate(-f.rotation())
}

// find tells of which round v is a step, which, and whether it is rotated as it should be.
func (t *stepTable) find(v form) (c cut, i int, exact, ok bool) {
	if n := len(v.terms); n != 5 && n != 10 && n != 11 || v.degree() > 1 {
		return c, 0, false, false
	}
	s, level, _, ok := fingerprint(v)
	if !ok {
		return c, 0, false, false
	}
	v = v.shifted(laneAtom(0, 0, 0) - laneAtom(s, level, 0))
	i, ok = t.byShape[stepKey(upright(v))]
	return cut{s, level + 1}, i, t.exact[stepKey(v)], ok || t.exact[stepKey(v)]
}
