package main

import (
	"cmp"
	"math/bits"
	"slices"
)

// A form is 64 bits as a function of unknown 64-bit words (atoms): the XOR of a
// constant and of terms. It is the algebraic normal form of each bit, so that
// two forms are equal exactly if the functions are.
type form struct {
	c     uint64
	terms []term // by key, each key once, no mask zero
}

// A term is a word of the form mask & rol(a, m) or mask & rol(a, m) & rol(b, n),
// for atoms a and b.
type term struct {
	key  uint64
	mask uint64
}

// A factor is an atom and its rotation. A term's key has the smaller of two factors in the
// lower bits, or the only factor.
type factor uint32

const (
	factorBits = 26
	rotateBits = 6
	maxAtom    = 1<<(factorBits-rotateBits) - 1

	allOnes = ^uint64(0)
)

// maxTerms bounds a form. A lane after a round has 143 terms, but what a wrong kernel computes
// may go on and on.
const maxTerms = 256

func factorOf(atom, rotation int) factor { return factor(atom<<rotateBits | rotation&63) }
func (f factor) atom() int               { return int(f >> rotateBits) }
func (f factor) rotation() int           { return int(f & 63) }
func (f factor) rotate(n int) factor     { return f&^63 | factor(int(f&63)+n)&63 }

// keyOf is the key of f & g. A bit times itself is itself.
func keyOf(f, g factor) uint64 {
	switch {
	case f == g:
		return uint64(f)
	case f > g:
		f, g = g, f
	}
	return uint64(g)<<factorBits | uint64(f)
}

// factors of a key; the second is zero if there is one only.
func (t term) factors() (f, g factor) {
	return factor(t.key & (1<<factorBits - 1)), factor(t.key >> factorBits)
}

func constant(c uint64) form { return form{c: c} }

func atomForm(atom int) form {
	return form{terms: []term{{uint64(factorOf(atom, 0)), allOnes}}}
}

func (v form) isConstant() bool { return len(v.terms) == 0 }

func (v form) equal(w form) bool { return v.c == w.c && slices.Equal(v.terms, w.terms) }

// degree is the number of factors of the longest term.
func (v form) degree() int {
	d := 0
	for _, t := range v.terms {
		if t.key>>factorBits != 0 {
			return 2
		}
		d = 1
	}
	return d
}

func (v form) xor(w form) form {
	r := form{c: v.c ^ w.c}
	switch {
	case len(w.terms) == 0:
		r.terms = v.terms
		return r
	case len(v.terms) == 0:
		r.terms = w.terms
		return r
	}
	r.terms = make([]term, 0, len(v.terms)+len(w.terms))
	i, j := 0, 0
	for i < len(v.terms) && j < len(w.terms) {
		a, b := v.terms[i], w.terms[j]
		switch {
		case a.key < b.key:
			r.terms = append(r.terms, a)
			i++
		case a.key > b.key:
			r.terms = append(r.terms, b)
			j++
		default:
			if m := a.mask ^ b.mask; m != 0 {
				r.terms = append(r.terms, term{a.key, m})
			}
			i++
			j++
		}
	}
	r.terms = append(append(r.terms, v.terms[i:]...), w.terms[j:]...)
	return r
}

func (v form) not() form { return form{^v.c, v.terms} }

// mask is v & m.
func (v form) mask(m uint64) form {
	if m == allOnes {
		return v
	}
	r := form{c: v.c & m}
	for _, t := range v.terms {
		if t.mask&m != 0 {
			r.terms = append(r.terms, term{t.key, t.mask & m})
		}
	}
	return r
}

// rotate is v turned left by n bits.
func (v form) rotate(n int) form {
	n &= 63
	if n == 0 {
		return v
	}
	r := form{c: bits.RotateLeft64(v.c, n)}
	if len(v.terms) == 0 {
		return r
	}
	r.terms = make([]term, len(v.terms))
	for i, t := range v.terms {
		f, g := t.factors()
		key := uint64(f.rotate(n))
		if g != 0 {
			key = keyOf(f.rotate(n), g.rotate(n))
		}
		r.terms[i] = term{key, bits.RotateLeft64(t.mask, n)}
	}
	r.normalize()
	return r
}

// normalize brings terms in order and adds up those of the same key.
func (v *form) normalize() {
	slices.SortFunc(v.terms, func(a, b term) int { return cmp.Compare(a.key, b.key) })
	n := 0
	for i := 0; i < len(v.terms); {
		t := v.terms[i]
		for i++; i < len(v.terms) && v.terms[i].key == t.key; i++ {
			t.mask ^= v.terms[i].mask
		}
		if t.mask != 0 {
			v.terms[n] = t
			n++
		}
	}
	v.terms = v.terms[:n]
}

// support has the bits that may be one.
func (v form) support() uint64 {
	s := v.c
	for _, t := range v.terms {
		s |= t.mask
	}
	return s
}

// and is v & w. It reports false if that has products of three atoms, or too many terms.
func (v form) and(w form) (form, bool) {
	if v.support()&w.support() == 0 {
		return form{}, true
	}
	if w.isConstant() {
		return v.mask(w.c), true
	}
	if v.isConstant() {
		return w.mask(v.c), true
	}
	if v.equal(w) {
		return v, true
	}
	if len(v.terms)*len(w.terms) > maxTerms {
		return form{}, false
	}
	r := form{c: v.c & w.c, terms: make([]term, 0, (len(v.terms)+1)*(len(w.terms)+1))}
	for _, t := range v.terms {
		if t.mask&w.c != 0 {
			r.terms = append(r.terms, term{t.key, t.mask & w.c})
		}
	}
	for _, t := range w.terms {
		if t.mask&v.c != 0 {
			r.terms = append(r.terms, term{t.key, t.mask & v.c})
		}
	}
	for _, s := range v.terms {
		f, more := s.factors()
		for _, t := range w.terms {
			m := s.mask & t.mask
			if m == 0 {
				continue
			}
			g, evenMore := t.factors()
			if more != 0 || evenMore != 0 {
				if s.key != t.key {
					return form{}, false
				}
				r.terms = append(r.terms, term{s.key, m})
				continue
			}
			r.terms = append(r.terms, term{keyOf(f, g), m})
		}
	}
	r.normalize()
	return r, true
}

// shiftLeft is v << n.
func (v form) shiftLeft(n uint64) form {
	if n > 63 {
		return form{}
	}
	return v.rotate(int(n)).mask(allOnes << n)
}

// shiftRight is v >> n.
func (v form) shiftRight(n uint64) form {
	if n > 63 {
		return form{}
	}
	return v.rotate(-int(n)).mask(allOnes >> n)
}

// ternary is the function of three inputs whose truth table is table, with a as the upper bit of
// the index. It reports false where and does.
func ternary(table uint8, a, b, c form) (form, bool) {
	// The coefficients of the polynomial are sums of the table's entries below them.
	p := table
	p ^= p << 1 & 0xAA
	p ^= p << 2 & 0xCC
	p ^= p << 4 & 0xF0
	var r form
	for i := range 8 {
		if p>>i&1 == 0 {
			continue
		}
		product, ok := constant(allOnes), true
		for j, v := range [3]form{c, b, a} {
			if ok && i>>j&1 != 0 {
				product, ok = product.and(v)
			}
		}
		if !ok {
			return form{}, false
		}
		r = r.xor(product)
	}
	return r, true
}

// evaluate gives the value for given atoms.
func (v form) evaluate(atom func(int) uint64) uint64 {
	r := v.c
	for _, t := range v.terms {
		f, g := t.factors()
		p := t.mask & bits.RotateLeft64(atom(f.atom()), f.rotation())
		if g != 0 {
			p &= bits.RotateLeft64(atom(g.atom()), g.rotation())
		}
		r ^= p
	}
	return r
}
