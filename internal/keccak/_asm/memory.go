package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A memoryKernel permutes states that do not fit into the registers. Lanes live
// in memory; what is in registers is the parities c, the values d that theta
// adds to each column, and the row at hand.
//
// Lanes of row 4 stay in c as well, from one round to the next: there they
// begin the parities. That is five loads fewer, and d can be given up for it
// because row 4 comes last.
type memoryKernel struct {
	c, d, t []reg.Register
	at      func(place int) Mem

	load   func(m Mem, dst reg.Register)
	store  func(src reg.Register, m Mem)
	xorMem func(m Mem, dst reg.Register)
	// addTheta sets dst to m ^ d.
	addTheta func(m Mem, d, dst reg.Register)
	// rotate turns r left in place; parity sets dst to c0 ^ rol(c1, 1).
	rotate func(n int, r reg.Register)
	parity func(c0, c1, dst reg.Register)
	// chi sets dst to a ^ (^b & c), where dst is none of them.
	chi func(a, b, c, dst reg.Register)
	// iota adds the constant of the round to r.
	iota func(round int, r reg.Register)
}

// begin loads what the first round finds in registers. It holds from one
// permutation to the next, for row 4 is beyond the rate.
func (k *memoryKernel) begin() layout {
	l := startLayout()
	Comment("The parities begin with row 4")
	for x := range 5 {
		k.load(k.at(l[lane(x, 4)]), k.c[x])
	}
	return l
}

func (k *memoryKernel) round(r int, l *layout) {
	Comment(fmt.Sprintf("Round %d of 4, theta: column parities", r+1))
	for y := range 4 {
		for x := range 5 {
			k.xorMem(k.at(l[lane(x, y)]), k.c[x])
		}
	}
	for x := range 5 {
		k.parity(k.c[(x+4)%5], k.c[(x+1)%5], k.d[x])
	}

	next := *l
	for y := range 5 {
		Comment(fmt.Sprintf("Row %d: theta, rho and pi", y))
		last := y == 4
		row := l.row(y)
		b := make([]reg.Register, 5)
		for x := range 5 {
			d := k.d[row.from[x]]
			if last {
				// The last use of d.
				b[x] = d
				k.xorMem(k.at(row.src[x]), d)
			} else {
				b[x] = k.c[x]
				k.addTheta(k.at(row.src[x]), d, b[x])
			}
			if row.rotate[x] != 0 {
				k.rotate(row.rotate[x], b[x])
			}
		}
		Comment(fmt.Sprintf("Row %d: chi", y))
		for x := range 5 {
			out := k.t[x%len(k.t)]
			if last {
				out = k.c[x]
			}
			k.chi(b[x], b[(x+1)%5], b[(x+2)%5], out)
			if x == 0 && y == 0 {
				k.iota(r, out)
			}
			k.store(out, k.at(row.dst[x]))
		}
		next.put(row)
	}
	*l = next
}
