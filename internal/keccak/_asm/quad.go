package main

import (
	"fmt"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A quadStep is one instruction of a round of permute4AVX2. Its name is a letter and the column
// or the lane (row, column) of the result that it works for:
//
//	a b c d  theta: double the parity of the column after; its top bit; add the parity of the
//	         column before to the double; all of it is what theta adds to the column
//	t        load the lane that pi moves here, with what theta adds
//	l r o    rho: shift left; shift right; join
//	s        rho by whole bytes, in place of l, r and o
//	n x      chi: and-not; add the lane itself
//	z i      load iota's constant; add it
//	w        store the lane
//	p q      add the lane to the parity of its column for the next round; the same from memory.
//	         One lane of each column has neither: the first p or q of the column starts with it.
//
// A step's result has the name of the step. What a round begins with are the parities, k0 to k4.
type quadStep struct {
	name string
	in   []string // results that it needs in registers
	out  bool     // it has a result
	// after are steps which it must not overtake, because of the memory that they use.
	after []string
}

// quadSteps returns all steps of a round.
func quadSteps() []quadStep {
	var steps []quadStep
	add := func(name string, in ...string) *quadStep {
		steps = append(steps, quadStep{name: name, in: in, out: name[0] != 'w'})
		return &steps[len(steps)-1]
	}
	for x := range 5 {
		id := fmt.Sprint(x)
		before, after := fmt.Sprintf("k%d", mod5(x-1)), fmt.Sprintf("k%d", mod5(x+1))
		add("a"+id, after)
		add("b"+id, after)
		add("c"+id, before, "a"+id)
		add("d"+id, "c"+id, "b"+id)
	}
	for y := range 5 {
		row := startLayout().row(y)
		lane := func(x int) string { return fmt.Sprintf("%d%d", y, mod5(x)) }
		turned := func(x int) string {
			switch row.rotate[mod5(x)] {
			case 0:
				return "t" + lane(x)
			case 8, 56:
				return "s" + lane(x)
			}
			return "o" + lane(x)
		}
		for x := range 5 {
			id := lane(x)
			add("t"+id, fmt.Sprintf("d%d", row.from[x]))
			switch turned(x)[0] {
			case 's':
				add("s"+id, "t"+id)
			case 'o':
				add("l"+id, "t"+id)
				add("r"+id, "t"+id)
				add("o"+id, "l"+id, "r"+id)
			}
		}
		for x := range 5 {
			id := lane(x)
			add("n"+id, turned(x+1), turned(x+2))
			add("x"+id, turned(x), "n"+id)
			if y == 0 && x == 0 {
				add("z" + id)
				add("i"+id, "x"+id, "z"+id)
			}
			// The place is that of the row's source in the same column.
			w := add("w"+id, quadResult(y, x))
			w.after = []string{fmt.Sprintf("t%d%d", y, slices.Index(row.from[:], x))}
			add("p"+id, quadResult(y, x))
			add("q" + id).after = []string{"w" + id}
		}
	}
	return steps
}

// quadResult is the step that makes lane (x, y) of the next round.
func quadResult(y, x int) string {
	if y == 0 && x == 0 {
		return "i00"
	}
	return fmt.Sprintf("x%d%d", y, x)
}

// A quadOrder is the steps of a round in the order of execution, with registers.
type quadOrder struct {
	steps []quadStep
	in    [][]int // by step: the registers of its inputs
	out   []int   // by step: the register of its result
}

// quadRegisters is how many there are. The parities begin and end a round in the first five.
const quadRegisters = 16

// newQuadOrder gives registers to the steps. It fails if the order is not possible.
func newQuadOrder(names []string) (*quadOrder, error) {
	known := map[string]quadStep{}
	for _, s := range quadSteps() {
		known[s.name] = s
	}
	o := &quadOrder{}
	var parity [5]string // by column, the result so far
	for x := range 5 {
		for y := range 5 {
			id := fmt.Sprintf("%d%d", y, x)
			if !slices.Contains(names, "p"+id) && !slices.Contains(names, "q"+id) {
				parity[x] = quadResult(y, x)
			}
		}
	}
	for _, name := range names {
		s, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("step %s is unknown or there twice", name)
		}
		delete(known, name)
		if c := name[0]; c == 'p' || c == 'q' {
			x := name[2] - '0'
			delete(known, string('p'+'q'-c)+name[1:])
			s.in = append([]string{parity[x]}, s.in...)
			parity[x] = name
		}
		o.steps = append(o.steps, s)
	}
	if len(known) != 2*5 {
		return nil, fmt.Errorf("%d steps are missing or too many", len(known)-2*5)
	}
	return o, o.allocate(parity)
}

// A span is the steps from a value's making to its last use. A value that is made by the
// step that uses another for the last time can have its register.
type span struct{ from, to int }

func (a span) overlaps(b span) bool { return a.from < b.to && b.from < a.to }

func (o *quadOrder) allocate(parity [5]string) error {
	spans := map[string]span{}
	for x := range 5 {
		spans[fmt.Sprintf("k%d", x)] = span{-1, -1}
	}
	done := map[string]bool{}
	for i, s := range o.steps {
		for _, in := range s.in {
			v, ok := spans[in]
			if !ok {
				return fmt.Errorf("step %s is before %s", s.name, in)
			}
			v.to = i
			spans[in] = v
		}
		for _, a := range s.after {
			if !done[a] {
				return fmt.Errorf("step %s is before %s", s.name, a)
			}
		}
		if s.out {
			spans[s.name] = span{i, i}
		}
		done[s.name] = true
	}

	register := map[string]int{}
	var used [quadRegisters][]span
	take := func(name string, r int) bool {
		v := spans[name]
		if slices.ContainsFunc(used[r], v.overlaps) {
			return false
		}
		used[r] = append(used[r], v)
		register[name] = r
		return true
	}
	for x := range 5 {
		take(fmt.Sprintf("k%d", x), x)
		last := spans[parity[x]]
		last.to = len(o.steps)
		spans[parity[x]] = last
		if !take(parity[x], x) {
			return fmt.Errorf("%s needs the register of k%d too early", parity[x], x)
		}
	}
	for _, s := range o.steps {
		if _, ok := register[s.name]; ok || !s.out {
			continue
		}
		// The register that is needed again the soonest after the span.
		best, gap := -1, 0
		for r := range used {
			v := spans[s.name]
			if slices.ContainsFunc(used[r], v.overlaps) {
				continue
			}
			next := 2 * len(o.steps)
			for _, u := range used[r] {
				if u.from >= v.to {
					next = min(next, u.from)
				}
			}
			if best < 0 || next < gap {
				best, gap = r, next
			}
		}
		if best < 0 {
			return fmt.Errorf("no register is free for %s", s.name)
		}
		take(s.name, best)
	}
	for _, s := range o.steps {
		var in []int
		for _, v := range s.in {
			in = append(in, register[v])
		}
		o.in = append(o.in, in)
		o.out = append(o.out, register[s.name])
	}
	return nil
}

// quadNames is the order of the steps of a round, by rule.
//
// Rho of a row is spread among chi of the row before it, for only two of four ports can shift (two
// of three with Intel). Rows that are beside each other need ten registers, and theta five, so the
// parities for the next round cannot grow as rows come: three rows are added from memory, while the
// last one waits for rho and chi.
func quadNames() []string {
	var names []string
	known := map[string]bool{}
	for _, s := range quadSteps() {
		known[s.name] = true
	}
	lane := func(letters string, y, x int) (steps []string) {
		for _, l := range letters {
			if name := fmt.Sprintf("%c%d%d", l, y, x); known[name] {
				steps = append(steps, name)
			}
		}
		return steps
	}
	row := func(letters string, y int) (steps []string) {
		for x := range 5 {
			steps = append(steps, lane(letters, y, x)...)
		}
		return steps
	}
	turn := func(y int) (steps []string) {
		for x := range 5 { // in the order in which theta is there
			from := startLayout().row(y).from
			steps = append(steps, lane("tlros", y, slices.Index(from[:], x))...)
		}
		return steps
	}

	for x := range 5 {
		for _, l := range "abcd" {
			names = append(names, fmt.Sprintf("%c%d", l, x))
		}
	}
	const chi = "nxziw"
	names = append(names, turn(4)...)
	for y := 3; y >= 0; y-- {
		names = append(names, spread(turn(y), row(chi, y+1))...)
	}
	for y := 4; y >= 2; y-- {
		names = append(names, row("q", y)...)
	}
	return append(names, row(chi+"p", 0)...)
}

// spread spreads the steps b evenly among the steps a.
func spread(a, b []string) (all []string) {
	for i, j := 0, 0; i < len(a) || j < len(b); {
		if j < len(b) && j*len(a) <= i*len(b) {
			all = append(all, b[j])
			j++
		} else {
			all = append(all, a[i])
			i++
		}
	}
	return all
}

// A quadKernel permutes four states that are in memory, in an order of steps.
type quadKernel struct {
	order       *quadOrder
	at          func(place int) Mem
	constants   reg.Register
	rol8, rol56 Mem
}

// round emits round r of a loop.
func (k *quadKernel) round(r int, l *layout) {
	var rows [5]row
	for y := range rows {
		rows[y] = l.row(y)
		defer l.put(rows[y])
	}
	for i, s := range k.order.steps {
		var in [2]reg.Register
		for j, n := range k.order.in[i] {
			in[j] = ymms[n]
		}
		out := ymms[k.order.out[i]]
		y, x := 0, int(s.name[len(s.name)-1]-'0')
		if len(s.name) > 2 {
			y = int(s.name[1] - '0')
		}
		switch s.name[0] {
		case 'a':
			VPADDQ(in[0], in[0], out)
		case 'b':
			VPSRLQ(U8(63), in[0], out)
		case 't':
			VPXOR(k.at(rows[y].src[x]), in[0], out)
		case 'l':
			VPSLLQ(U8(rows[y].rotate[x]), in[0], out)
		case 'r':
			VPSRLQ(U8(64-rows[y].rotate[x]), in[0], out)
		case 'o':
			VPOR(in[0], in[1], out)
		case 's':
			VPSHUFB(map[int]Mem{8: k.rol8, 56: k.rol56}[rows[y].rotate[x]], in[0], out)
		case 'n':
			VPANDN(in[1], in[0], out)
		case 'z':
			VPBROADCASTQ(Mem{Base: k.constants, Disp: laneSize * r}, out)
		case 'w':
			VMOVDQU(in[0], k.at(rows[y].dst[x]))
		case 'q':
			VPXOR(k.at(rows[y].dst[x]), in[0], out)
		default:
			VPXOR(in[1], in[0], out)
		}
	}
}
