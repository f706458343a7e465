package main

import (
	"math/bits"
	"math/rand/v2"
	"testing"
)

// randomForm is a form of a few atoms.
func randomForm(r *rand.Rand) form {
	v := constant(r.Uint64() & -uint64(r.IntN(2)))
	for range r.IntN(4) {
		a := atomForm(1 + r.IntN(3)).rotate(r.IntN(64))
		if r.IntN(3) == 0 {
			a = a.mask(r.Uint64())
		}
		v = v.xor(a)
	}
	return v
}

// TestForms compares what is done with forms with what is done with numbers: each operation, on
// random forms, evaluated with random atoms.
func TestForms(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20000 {
		a, b, c := randomForm(r), randomForm(r), randomForm(r)
		atoms := [4]uint64{0, r.Uint64(), r.Uint64(), r.Uint64()}
		at := func(v form) uint64 { return v.evaluate(func(atom int) uint64 { return atoms[atom] }) }
		x, y, z := at(a), at(b), at(c)
		n, table := r.IntN(70), uint8(r.Uint32())
		check := func(what string, got form, ok bool, want uint64) {
			t.Helper()
			if ok && at(got) != want {
				t.Fatalf("%s of %v, %v, %v is %v: %#x, want %#x", what, a, b, c, got, at(got), want)
			}
		}
		check("xor", a.xor(b), true, x^y)
		check("not", a.not(), true, ^x)
		check("rotate", a.rotate(n), true, bits.RotateLeft64(x, n))
		check("shiftLeft", a.shiftLeft(uint64(n)), true, x<<n)
		check("shiftRight", a.shiftRight(uint64(n)), true, x>>n)
		check("mask", a.mask(atoms[3]), true, x&atoms[3])
		and, ok := a.and(b)
		check("and", and, ok, x&y)
		if !ok && a.degree()+b.degree() <= 2 {
			t.Fatalf("no product of %v and %v", a, b)
		}
		or, ok := orForms([]form{a, b})
		check("or", or, ok, x|y)
		sum, ok := addForms([]form{a, b})
		check("add", sum, ok, x+y)
		double, ok := addForms([]form{a, a})
		check("double", double, ok, 2*x)
		var want uint64
		for i := range 64 {
			want |= uint64(table>>(x>>i&1<<2|y>>i&1<<1|z>>i&1)&1) << i
		}
		three, ok := ternary(table, a, b, c)
		check("ternary", three, ok, want)
		// Forms are equal exactly if the functions are. Random numbers tell functions of this
		// size apart, unless they differ in few bits.
		if a.equal(b) != a.xor(b).equal(form{}) || a.equal(b) && x != y {
			t.Fatalf("%v and %v", a, b)
		}
		// However a form is made, it is the same.
		if !a.xor(b).xor(c).equal(c.xor(a).xor(b)) || !a.rotate(n).xor(b.rotate(n)).equal(a.xor(b).rotate(n)) {
			t.Fatalf("%v, %v, %v: order matters", a, b, c)
		}
	}
}

// TestRecognize turns lanes of a round, and complements them, and spoils them.
func TestRecognize(t *testing.T) {
	for i, lane := range rounds.lane {
		for _, level := range []int{0, 7, roundCount - 1} {
			const state = 5
			v := lane.shifted(laneAtom(state, level, 0) - laneAtom(0, 0, 0))
			if i == 0 {
				v.c = rounds.constant[level]
			}
			for n := range 64 {
				for _, complement := range []bool{false, true} {
					turned := v.rotate(n)
					if complement {
						turned = turned.not()
					}
					s, l, j, m, c, ok := rounds.recognize(turned)
					if !ok || s != state || l != level+1 || j != i || m != n || c != complement {
						t.Fatalf("lane %d at level %d, turned by %d, %v: found %d, %d, %d, %d, %v, %v", i, level, n, complement, s, l, j, m, c, ok)
					}
				}
			}
			for k := range v.terms {
				spoiled := v.xor(form{})
				spoiled.terms = append([]term(nil), v.terms...)
				spoiled.terms[k].mask ^= 1 << (k % 64)
				if _, _, _, _, _, ok := rounds.recognize(spoiled); ok {
					t.Fatalf("lane %d is found without a bit of term %d", i, k)
				}
				spoiled.terms[k].mask = allOnes
				spoiled.terms[k].key ^= 1 << (k % rotateBits)
				spoiled.normalize()
				if _, _, _, _, _, ok := rounds.recognize(spoiled); ok {
					t.Fatalf("lane %d is found with another rotation in term %d", i, k)
				}
			}
			v.c ^= 1
			if _, _, _, _, _, ok := rounds.recognize(v); ok {
				t.Fatalf("lane %d is found with a wrong constant", i)
			}
		}
	}
}
