package main

import "fmt"

// The atoms of the proof. Each has a number, in this order: zero is none; the return address;
// MIDR_EL1; lane i of state s after n rounds of the permutation at hand; lane i of the block of
// state s that is to be absorbed after it; and others, which stand for anything at all.

const (
	maxStates   = 8
	levels      = roundCount + 1
	laneAtoms   = 32 // numbers for the lanes of one state at one level, a few unused
	linkAtom    = 1  // the address that a kernel returns to
	midrAtom    = 2  // the register MIDR_EL1 of arm64
	firstLane   = laneAtoms
	firstBlock  = firstLane + maxStates*levels*laneAtoms
	firstOther  = firstBlock + maxStates*laneAtoms
	levelAtoms  = laneAtoms
	statesAtoms = levels * laneAtoms
)

// laneAtom is lane i of state s after level rounds.
func laneAtom(s, level, i int) int { return firstLane + s*statesAtoms + level*levelAtoms + i }

// blockAtom is lane i of the block of state s.
func blockAtom(s, i int) int { return firstBlock + s*laneAtoms + i }

func isLane(atom int) bool  { return atom >= firstLane && atom < firstBlock }
func isBlock(atom int) bool { return atom >= firstBlock && atom < firstOther }

// laneOf is the inverse of laneAtom.
func laneOf(atom int) (s, level, i int) {
	n := atom - firstLane
	return n / statesAtoms, n % statesAtoms / levelAtoms, n % levelAtoms
}

// others are the atoms that stand for anything: what a register has at the start, or what an
// instruction computes that is no form.
type others struct{ labels []label }

// A label says what an atom is, when it is asked for.
type label struct {
	format string
	a, b   any
}

func (o *others) add(format string, a, b any) (form, error) {
	atom := firstOther + len(o.labels)
	if atom > maxAtom {
		return form{}, fmt.Errorf("more than %d values that are no XOR of products of two lanes", len(o.labels))
	}
	o.labels = append(o.labels, label{format, a, b})
	return atomForm(atom), nil
}

// name describes an atom.
func (o *others) name(atom int) string {
	switch {
	case atom == linkAtom:
		return "the return address"
	case atom == midrAtom:
		return "MIDR_EL1"
	case isLane(atom):
		s, level, i := laneOf(atom)
		return fmt.Sprintf("lane (%d, %d) of state %d after %d rounds", i%5, i/5, s, level)
	case isBlock(atom):
		n := atom - firstBlock
		return fmt.Sprintf("lane %d of the block of state %d", n%laneAtoms, n/laneAtoms)
	default:
		l := o.labels[atom-firstOther]
		return fmt.Sprintf(l.format, l.a, l.b)
	}
}
