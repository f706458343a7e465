package main

import (
	"cmp"
	"slices"
)

// When it is not clear which instruction is wrong, changes are tried until one makes the kernel
// right. Most of them need not be proved: it is enough to go on from where the instruction is
// executed first, with one state only, to see whether that mends what is wrong.

// A pass goes through a kernel once, from its start. All states but one are zero, which is fast.
type pass struct {
	k     *kernel
	c     *contract
	state int
	// With blocks, it ends when one is absorbed; without, when the kernel returns.
	blocks bool
	head   int // index of the contract's head, or -1
}

// A journey is a machine on its way.
type journey struct {
	*machine
	pass  *pass
	facts []value // what there was at the head first; nil before
	ended bool
}

func (p *pass) start() (*journey, error) {
	r := run{}
	if p.blocks {
		r = run{low: 1, high: maxBlocks}
	}
	m, err := p.c.machine(p.k, &others{}, nil, r)
	if err != nil {
		return nil, err
	}
	m.used = []int{p.state}
	for _, cells := range m.allCells() {
		for i, v := range cells {
			if v.kind == word && len(v.terms) == 1 && !p.mine(v.form) {
				cells[i] = number(0)
			}
		}
	}
	return &journey{machine: m, pass: p}, nil
}

// mine reports whether a word of the start is not of another state.
func (p *pass) mine(v form) bool {
	f, _ := v.terms[0].factors()
	switch atom := f.atom(); {
	case isLane(atom):
		s, _, _ := laneOf(atom)
		return s == p.state
	case isBlock(atom):
		return (atom-firstBlock)/laneAtoms == p.state
	}
	return true
}

// step goes on by one instruction.
func (j *journey) step() error {
	if j.pc == j.pass.head && j.facts == nil {
		for _, l := range j.locations() {
			j.facts = append(j.facts, *l.at)
		}
	}
	if err := j.machine.step(); err != nil {
		return err
	}
	j.ended = j.returned || j.pass.blocks && j.pc == j.pass.head && j.facts != nil
	return nil
}

// with is a copy that goes on with another kernel.
func (j *journey) with(k *kernel) *journey {
	m := j.machine.clone()
	m.k = k
	return &journey{machine: m, pass: j.pass, facts: j.facts}
}

// level is the first round that lacks a lane.
func (j *journey) level() int {
	level := 1
	for level <= roundCount && j.found[j.pass.state][level] == 1<<laneCount-1 {
		level++
	}
	return level
}

// wrong counts what is not as it should be at the end.
func (j *journey) wrong() (n int) {
	if !j.pass.blocks {
		for range j.pass.c.wrongResults(j.machine, j.pass.state) {
			n++
		}
		return n
	}
	p := proof{c: j.pass.c}
	for i, l := range j.locations() {
		was := j.facts[i]
		if was.kind == word && was.isConstant() {
			continue
		}
		if want, ok := p.afterBlock(fact{value: was}); ok && !p.here(j.machine, want).same(*l.at) {
			n++
		}
	}
	return n
}

// A fault is where a pass goes wrong: in a round, or, if all of them are right, at the end.
type fault struct {
	pass     *pass
	level    int // roundCount+1 for the end
	wrong    int // at the end
	from, to int // steps in which that is decided
}

// run makes the journey, as far as it goes, and finds its fault. Before every instruction it
// calls visit, unless that is nil.
func (p *pass) run(visit func(j *journey)) (f fault) {
	j, err := p.start()
	if err != nil {
		return fault{}
	}
	var first [levels + 1]int // steps when a level had its first lane
	for !j.ended && err == nil {
		if visit != nil && j.pc < len(j.k.code) {
			visit(j)
		}
		err = j.step()
		for level := 1; level <= roundCount; level++ {
			if j.found[p.state][level] != 0 && first[level] == 0 {
				first[level] = j.steps
			}
		}
	}
	f = fault{pass: p, level: j.level(), to: j.steps + maxStall}
	if f.level > 1 {
		f.from = first[f.level-1]
	}
	if f.level > roundCount && j.ended {
		f.wrong = j.wrong()
	}
	return f
}

// faults lists what goes wrong, the first and the worst first.
func faults(k *kernel, c *contract) (all []fault) {
	head := -1
	if c.head != "" {
		head = k.labels[c.head]
	}
	for s, st := range c.states {
		for _, blocks := range [2]bool{false, true} {
			if !st.used || blocks && head < 0 {
				continue
			}
			p := &pass{k, c, s, blocks, head}
			if f := p.run(nil); f.pass != nil && (f.level <= roundCount || f.wrong > 0) {
				all = append(all, f)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b fault) int {
		return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(b.wrong, a.wrong))
	})
	return all
}

// mends reports whether a journey with a change comes to a better end than f.
func (f *fault) mends(j *journey) bool {
	for !j.ended && j.steps <= f.to {
		if j.step() != nil {
			return false
		}
		if f.level <= roundCount && j.level() > f.level {
			return true
		}
	}
	return j.ended && f.level > roundCount && j.wrong() < f.wrong
}

// maxProofs is how many changes are proved that mend something.
const maxProofs = 60

// tryRepairs looks for a change of one instruction or of one word of a table, or an exchange with
// a neighbour, that makes the kernel right. The instructions that a message names come first, then
// those that are executed where the fault is.
func (d *diagnosis) tryRepairs() {
	c := contracts[d.k.name]
	all := faults(d.k, &c)
	if len(all) == 0 {
		return
	}
	f := &all[0]
	proofs := 0
	for turn := range repairTurns {
		seen := make([]bool, len(d.k.code))
		f.pass.run(func(j *journey) {
			if d.repair != "" || proofs >= maxProofs || seen[j.pc] {
				return
			}
			i := j.pc
			seen[i] = true
			if turn == 0 && j.steps == 0 {
				d.tryTables(f, j, &proofs)
			}
			if d.turnOf(i, f.from <= j.steps && j.steps <= f.to) != turn {
				return
			}
			for _, mu := range d.k.mutantsAt(i) {
				if k := mu.kernel(); f.mends(j.with(k)) {
					d.prove(mu, &proofs)
				}
				if d.repair != "" || proofs >= maxProofs {
					return
				}
			}
		})
	}
}

// repairTurns is how many turns there are, and turnOf says in which an instruction is tried.
const repairTurns = 4

func (d *diagnosis) turnOf(i int, near bool) int {
	in := &d.k.code[i]
	switch {
	case slices.Contains(d.suspects, in.line):
		return 0
	case !near:
		return -1
	case slices.ContainsFunc(in.args, func(o operand) bool { return o.kind == opImmediate }):
		return 1
	case d.right.has(in.line): // what is right depends on it
		return 3
	}
	return 2
}

// tryTables tries to change words of tables that are suspects.
func (d *diagnosis) tryTables(f *fault, start *journey, proofs *int) {
	for _, t := range d.k.file.tables {
		for i, line := range t.lines {
			if !slices.Contains(d.suspects, line) {
				continue
			}
			words := []uint64{t.words[i] + 1, t.words[i] - 1}
			for bit := range 64 {
				words = append(words, t.words[i]^1<<bit)
			}
			for _, mu := range d.k.file.wordMutants(d.k, t, i, words...) {
				j := start.with(mu.other)
				j.regions[t.name].cells[i] = number(mu.other.file.tables[t.name].words[i])
				if f.mends(j) {
					d.prove(mu, proofs)
				}
				if d.repair != "" || *proofs >= maxProofs {
					return
				}
			}
		}
	}
}

// prove takes a change as the repair if it makes the kernel right.
func (d *diagnosis) prove(mu *mutant, proofs *int) {
	*proofs++
	if v, _ := mu.judge(); v == rejected {
		return
	}
	d.repair, d.suspects = mu.what, []int{mu.line()}
}
