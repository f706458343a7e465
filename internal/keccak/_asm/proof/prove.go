package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// prove proves a kernel. A nil error means that for all inputs it does what its contract says, and
// nothing that is forbidden (see the package's documentation).
func prove(k *kernel) error {
	c, ok := contracts[k.name]
	if !ok {
		return &kernelError{k, nil, fmt.Errorf("has no contract")}
	}
	if err := c.check(k); err != nil {
		return err
	}
	err := proveAll(k, &c, nil, nil)
	if err == nil {
		return nil
	}
	// Once more, with a book of what was computed from what, for the message.
	tr := newTrace(k, &c)
	again := proveAll(k, &c, tr, nil)
	if again == nil {
		return errors.Join(err, errors.New("but not the second time"))
	}
	return tr.explain(again)
}

// proveAll proves a kernel for every address of its frame. It keeps book in tr, and watch sees
// every instruction, unless they are nil.
func proveAll(k *kernel, c *contract, tr *trace, watch func(m *machine)) error {
	for base := int64(0); base < 64; base += k.file.arch.stackAlign {
		p := &proof{k: k, c: c, trace: tr, watch: watch, run: run{frameBase: base}}
		if err := p.prove(); err != nil {
			return err
		}
		if !p.aligned {
			break
		}
	}
	return nil
}

// A proof is a proof of a kernel for one address of its frame.
type proof struct {
	k       *kernel
	c       *contract
	trace   *trace
	others  others
	watch   func(m *machine)
	run     run
	aligned bool
	facts   []fact
	dirty   bool // upper halves of vector registers may be in use at the head of the loop
}

// A fact is what a location holds at the head of the loop over blocks, whenever the kernel is
// there. It is told by the lanes that the states have at that time.
type fact struct {
	value
	dropped string // why there is none
}

func (p *proof) machine(low, high int64) (*machine, error) {
	r := p.run
	r.low, r.high = low, high
	return p.c.machine(p.k, &p.others, p.trace, r)
}

// execute runs m.
func (p *proof) execute(m *machine, stop int) error {
	p.trace.begin(m)
	m.watch = p.watch
	err := m.run(stop)
	p.aligned = p.aligned || m.aligned
	return err
}

func (p *proof) prove() error {
	if p.c.head == "" {
		m, err := p.machine(0, 0)
		if err != nil {
			return err
		}
		if err := p.execute(m, -1); err != nil {
			return err
		}
		return p.result(m)
	}
	head, ok := p.k.labels[p.c.head]
	if !ok {
		return &kernelError{p.k, nil, fmt.Errorf("has no label %s", p.c.head)}
	}

	// The first arrival at the head says what may hold there.
	for _, blocks := range [2]run{{low: 0, high: 0}, {low: 1, high: maxBlocks}} {
		m, err := p.machine(blocks.low, blocks.high)
		if err != nil {
			return err
		}
		if err := p.toHead(m, head); err != nil {
			return err
		}
		p.keep(m, func(f fact) (value, bool) { return f.value, true })
	}
	// What does not hold after one more block is dropped, until all that is left is true by
	// induction.
	for {
		m, err := p.machine(1, maxBlocks)
		if err != nil {
			return err
		}
		if err := p.assume(m, head); err != nil {
			return err
		}
		if err := p.toHead(m, head); err != nil {
			return err
		}
		if err := p.complete(m); err != nil {
			return err
		}
		if p.keep(m, p.afterBlock) {
			break
		}
	}
	// Without a further block it returns.
	m, err := p.machine(0, 0)
	if err != nil {
		return err
	}
	if err := p.assume(m, head); err != nil {
		return err
	}
	if err := p.execute(m, head); err != nil {
		return err
	}
	if !m.returned {
		return &kernelError{p.k, nil, fmt.Errorf("does not return when all blocks are absorbed")}
	}
	return p.result(m)
}

// errIncomplete says that a kernel came to its loop's head without having permuted its states.
var errIncomplete = errors.New("does not compute all lanes of all rounds")

// complete reports whether m computed all lanes of all rounds. That need not be asked, for they
// are in the facts, but this makes a better message.
func (p *proof) complete(m *machine) error {
	for s, st := range p.c.states {
		for level := 1; st.permuted && level <= roundCount; level++ {
			if m.found[s][level] != 1<<laneCount-1 {
				return &kernelError{p.k, nil, errIncomplete}
			}
		}
	}
	return nil
}

func (p *proof) result(m *machine) error {
	if err := p.c.checkResult(m); err != nil {
		return &kernelError{p.k, nil, err}
	}
	return nil
}

// toHead runs m until it is at the head.
func (p *proof) toHead(m *machine, head int) error {
	if err := p.execute(m, head); err != nil {
		return err
	}
	if m.returned {
		return &kernelError{p.k, &p.k.code[m.at()], fmt.Errorf("returns before all blocks are absorbed")}
	}
	return nil
}

// A location is a register, a part of one, or a word in memory.
type location struct {
	name string
	at   *value
}

// locations lists what a kernel may change, always in the same order.
func (m *machine) locations() []location {
	var all []location
	for i := range m.general {
		all = append(all, location{fmt.Sprintf("general register %d", i), &m.general[i]})
	}
	for i := range m.vector {
		for j := range m.vector[i] {
			all = append(all, location{fmt.Sprintf("lane %d of vector register %d", j, i), &m.vector[i][j]})
		}
	}
	for i := range m.mask {
		all = append(all, location{fmt.Sprintf("mask register %d", i), &m.mask[i]})
	}
	for _, name := range slices.Sorted(maps.Keys(m.regions)) {
		if g := m.regions[name]; g.writable {
			for i := range g.cells {
				all = append(all, location{fmt.Sprintf("%s+%d", name, laneBytes*i), &g.cells[i]})
			}
		}
	}
	return append(all, location{"the stack pointer", &m.stack})
}

// keep keeps the facts that hold in m, given what each is expected to be there. It reports
// whether all of them do. The first time it takes whatever m has as facts.
func (p *proof) keep(m *machine, expected func(fact) (value, bool)) (all bool) {
	locations := m.locations()
	all = p.dirty || !m.dirty
	p.dirty = p.dirty || m.dirty
	if p.facts == nil {
		for _, l := range locations {
			p.facts = append(p.facts, fact{value: *l.at})
		}
		return false
	}
	p.trace.arrived()
	for i := range p.facts {
		f := &p.facts[i]
		if f.dropped != "" {
			continue
		}
		want, ok := expected(*f)
		if ok {
			want = p.here(m, want)
		}
		if got := *locations[i].at; !ok || !want.same(got) {
			f.dropped = fmt.Sprintf("%s when the kernel is at %s again", locations[i].name, p.c.head)
			if ok {
				f.dropped += fmt.Sprintf(", where %s would be right, but there is %s", m.describe(want), m.describe(got))
			}
			p.trace.fact(false, f.dropped, f.value, want, got)
			all = false
		} else {
			p.trace.fact(true, "", f.value, want, got)
		}
	}
	p.trace.compared()
	return all
}

// here gives an address in the regions of m.
func (p *proof) here(m *machine, v value) value {
	if v.kind == address {
		v.region = m.regions[v.region.name]
	}
	return v
}

// assume puts m at the head, with what is known there.
func (p *proof) assume(m *machine, head int) error {
	m.pc = head
	m.dirty = p.dirty
	for i, l := range m.locations() {
		f := p.facts[i]
		if f.dropped == "" {
			*l.at = p.here(m, f.value)
			continue
		}
		v, err := m.other("%s%s", f.dropped, "")
		if err != nil {
			return err
		}
		*l.at = v
	}
	return nil
}

// afterBlock gives what a fact says after one more block, by the lanes before it. A state is
// then what it was after the permutation, with the block; one block fewer is left, and the
// pointers are at the next.
func (p *proof) afterBlock(f fact) (value, bool) {
	v := f.value
	switch v.kind {
	case count:
		v.offset--
		return v, true
	case address:
		if v.region.data {
			v.offset += rateBytes
		}
		return v, true
	}
	var sum form
	sum.c = v.c
	for _, t := range v.terms {
		a, b := t.factors()
		if b != 0 || isBlock(a.atom()) {
			return v, false
		}
		if !isLane(a.atom()) {
			sum = sum.xor(form{terms: []term{t}})
			continue
		}
		s, level, i := laneOf(a.atom())
		if level != 0 {
			return v, false
		}
		next := atomForm(laneAtom(s, 0, i))
		if p.c.states[s].permuted {
			next = atomForm(laneAtom(s, roundCount, i))
			if i < rateLanes {
				next = next.xor(atomForm(blockAtom(s, i)))
			}
		}
		sum = sum.xor(next.rotate(a.rotation()).mask(t.mask))
	}
	v.form = sum
	return v, true
}

// describe says what a value is.
func (m *machine) describe(v value) string {
	switch v.kind {
	case address:
		return fmt.Sprintf("the address of %s+%d", v.region.name, v.offset)
	case count:
		return fmt.Sprintf("the number of blocks left, and %d", v.offset)
	}
	if v.isConstant() {
		return fmt.Sprintf("%#x", v.c)
	}
	if len(v.terms) > 4 {
		return fmt.Sprintf("a sum of %d terms, of which one is %s", len(v.terms), m.describeTerm(v.terms[0]))
	}
	var parts []string
	for _, t := range v.terms {
		parts = append(parts, m.describeTerm(t))
	}
	if v.c != 0 {
		parts = append(parts, fmt.Sprintf("%#x", v.c))
	}
	return strings.Join(parts, " ^ ")
}

func (m *machine) describeTerm(t term) string {
	a, b := t.factors()
	s := m.describeFactor(a)
	if b != 0 {
		s += " & " + m.describeFactor(b)
	}
	if t.mask != allOnes {
		s += fmt.Sprintf(" & %#x", t.mask)
	}
	return s
}

func (m *machine) describeFactor(f factor) string {
	if f.rotation() == 0 {
		return "[" + m.others.name(f.atom()) + "]"
	}
	return fmt.Sprintf("[%s] turned left by %d", m.others.name(f.atom()), f.rotation())
}
