package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// A value is what 64 bits of the machine hold.
type value struct {
	kind valueKind
	form
	region *region // of an address
	offset int64   // of an address in its region; or what is added to the number of blocks
	cone   *cone
}

type valueKind byte

const (
	word    valueKind = iota // a form
	address                  // region + offset
	count                    // blocks that are still to be absorbed + offset
)

func number(c uint64) value { return value{form: constant(c)} }

// known reports whether v is a constant.
func (v value) known() bool { return v.kind == word && v.isConstant() }

// same reports whether v and w are equal in all cases.
func (v value) same(w value) bool {
	if v.kind != w.kind {
		return false
	}
	if v.kind == word {
		return v.form.equal(w.form)
	}
	return v.region == w.region && v.offset == w.offset
}

// A model is what one instruction does to a machine.
type model func(m *machine, in *instr) error

// An arch is an instruction set.
type arch struct {
	name     string
	register func(name string) (reg, bool)
	models   map[string]model
	// start sets the registers that have a meaning when a kernel is called.
	start func(m *machine)
	// clobbers reports whether a kernel may leave r as it likes.
	clobbers func(r reg) bool
	// atReturn checks what must hold at the end.
	atReturn func(m *machine) error
	// features gives the processor features that an instruction needs.
	features func(in *instr) []string
	// stackAlign is what addresses of stack frames are multiples of.
	stackAlign int64
	lanes      int // 64-bit lanes of a vector register

	flagEffect func(op string) flagEffect

	registerNames []string // all of them, numbered ones as formats
	byRegister    map[reg]string
}

const (
	generals = 32
	vectors  = 32
	masks    = 8
	maxLanes = 8
)

// A machine runs one path of a kernel on values.
type machine struct {
	k      *kernel
	others *others
	same   map[string]value // if not nil, unknown results by what they are made from
	trace  *trace           // nil unless a proof has failed and is to be explained
	watch  func(m *machine) // if not nil, called before every instruction

	general [generals]value
	vector  [vectors][maxLanes]value
	mask    [masks]value
	stack   value
	flags   flags
	dirty   bool // upper halves of vector registers have been written

	regions map[string]*region // by name: tables, frame, arguments, and what these point to
	low     int64              // the number of blocks still to be absorbed is at least this,
	high    int64              // and at most that

	in       *instr // that is executed
	aligned  bool   // the proof depends on the address of the frame modulo 64
	pc       int
	steps    int
	returned bool

	used       []int                     // states that are permuted or digested
	found      [maxStates][levels]uint32 // lanes that have been recognized
	recognized int                       // step of the last time
}

// Limits that stop kernels which go wrong: for all instructions, and for those that find no
// lane of a round. The kernels need 116 instructions from one lane to the next at most.
const (
	maxSteps = 60000
	maxStall = 160
)

// maxLead is how many rounds a state may be ahead of another. Kernels that work on several states
// work on them at the same time.
const maxLead = 2

// errOperands says that an instruction has operands that its model does not know.
var errOperands = errors.New("these operands are not known")

// errStalled says that values are no lanes of a round any more.
var errStalled = errors.New("computes no lane of a round any more")

// A kernelError is why a kernel is refused. It points at an instruction.
type kernelError struct {
	k   *kernel
	in  *instr // or nil
	err error
}

func (e *kernelError) Error() string {
	if e.in == nil {
		return fmt.Sprintf("%s:%d: %s: %v", e.k.file.path, e.k.line, e.k.name, e.err)
	}
	return fmt.Sprintf("%s:%d: %s: %s: %v", e.k.file.path, e.in.line, e.k.name, e.in, e.err)
}

func (e *kernelError) Unwrap() error { return e.err }

// run executes instructions until the kernel returns, or until it arrives at the instruction stop.
func (m *machine) run(stop int) error {
	for first := true; first || m.pc != stop; first = false {
		if err := m.step(); err != nil || m.returned {
			return err
		}
	}
	return nil
}

// step executes one instruction.
func (m *machine) step() error {
	if m.pc >= len(m.k.code) {
		return &kernelError{m.k, nil, fmt.Errorf("runs over its end")}
	}
	if m.steps++; m.steps > maxSteps {
		return &kernelError{m.k, nil, fmt.Errorf("does not end")}
	}
	if m.steps-m.recognized > maxStall {
		return &kernelError{m.k, nil, errStalled}
	}
	in := &m.k.code[m.pc]
	m.in = in
	m.pc++
	if m.watch != nil {
		m.watch(m)
	}
	if err := in.run(m, in); err != nil {
		return &kernelError{m.k, in, err}
	}
	return nil
}

// clone is a copy of m, with memory of its own.
func (m *machine) clone() *machine {
	c := *m
	c.watch = nil
	c.others = &others{labels: slices.Clip(m.others.labels)}
	c.regions = map[string]*region{}
	for name, g := range m.regions {
		copied := *g
		copied.cells, copied.read = slices.Clone(g.cells), nil
		c.regions[name] = &copied
	}
	// Addresses are in the new regions.
	c.stack.region = c.regions[c.stack.region.name]
	for _, cells := range c.allCells() {
		for i := range cells {
			if cells[i].kind == address {
				cells[i].region = c.regions[cells[i].region.name]
			}
		}
	}
	return &c
}

// allCells gives all that a machine holds.
func (m *machine) allCells() [][]value {
	all := [][]value{m.general[:], m.mask[:]}
	for i := range m.vector {
		all = append(all, m.vector[i][:])
	}
	for _, name := range slices.Sorted(maps.Keys(m.regions)) {
		all = append(all, m.regions[name].cells)
	}
	return all
}

// at is the instruction that is executed.
func (m *machine) at() int { return m.pc - 1 }

// other is a new atom: it stands for any value. The format's verbs are for a and b.
func (m *machine) other(format string, a, b any) (value, error) {
	f, err := m.others.add(format, a, b)
	return value{form: f}, err
}

// unknown is the result of an instruction that has no form.
func (m *machine) unknown(why string, from ...value) (value, error) {
	var key string
	if m.same != nil {
		key = fmt.Sprint(m.in.op, m.in.args[0].imm, why)
		for _, v := range from {
			key += fmt.Sprint(v.kind, v.form, v.offset)
		}
		if v, ok := m.same[key]; ok {
			return v, nil
		}
	}
	v, err := m.other("%s of line %d", why, m.line())
	v.cone = m.cone(from)
	m.trace.unknown(v, from)
	if m.same != nil {
		m.same[key] = v
	}
	return v, err
}

// result is f as a value. If it is a lane of the specification it is that lane from now on.
func (m *machine) result(f form, from ...value) (value, error) {
	if len(f.terms) > maxTerms {
		if v, ok := m.same[fmt.Sprint(f)]; ok {
			return v, nil
		}
		v, err := m.unknown("a form of too many terms", from...)
		if m.same != nil {
			m.same[fmt.Sprint(f)] = v
		}
		return v, err
	}
	if s, level, i, n, complement, ok := rounds.recognize(f); ok {
		v := value{form: atomForm(laneAtom(s, level, i)).rotate(n)}
		if complement {
			v.form = v.form.not()
		}
		m.found[s][level] |= 1 << i
		m.recognized = m.steps
		m.trace.recognized(m, s, level, from)
		if level > maxLead {
			for _, other := range m.used {
				if m.found[other][level-maxLead] != 1<<laneCount-1 {
					return v, errIncomplete
				}
			}
		}
		return v, nil
	}
	v := value{form: f, cone: m.cone(from)}
	m.trace.computed(m, v)
	return v, nil
}

// wordsOnly gives the forms of values, if all of them are words.
func wordsOnly(values ...value) ([]form, bool) {
	forms := make([]form, len(values))
	for i, v := range values {
		if v.kind != word {
			return nil, false
		}
		forms[i] = v.form
	}
	return forms, true
}

// combine applies f to words. What f cannot express, and whatever is done with addresses, is
// unknown.
func (m *machine) combine(f func(v []form) (form, bool), from ...value) (value, error) {
	forms, ok := wordsOnly(from...)
	if !ok {
		return m.unknown("an address or a count as data", from...)
	}
	r, ok := f(forms)
	if !ok {
		return m.unknown("a product of more than two lanes", from...)
	}
	return m.result(r, from...)
}

func xorForms(v []form) (form, bool)   { return v[0].xor(v[1]), true }
func andForms(v []form) (form, bool)   { return v[0].and(v[1]) }
func clearForms(v []form) (form, bool) { return v[0].and(v[1].not()) }

func orForms(v []form) (form, bool) {
	r, ok := v[0].and(v[1])
	return r.xor(v[0]).xor(v[1]), ok
}

// addForms knows sums without carries, and those of a word and itself.
func addForms(v []form) (form, bool) {
	switch {
	case v[0].isConstant() && v[1].isConstant():
		return constant(v[0].c + v[1].c), true
	case v[0].support()&v[1].support() == 0:
		return v[0].xor(v[1]), true
	case v[0].equal(v[1]):
		return v[0].shiftLeft(1), true
	}
	return form{}, false
}

func (m *machine) rotate(v value, n int, by ...value) (value, error) {
	return m.combine(func(f []form) (form, bool) { return f[0].rotate(n), true }, slices.Insert(by, 0, v)...)
}

// public gives a constant that steers something: an index, a mask, a count of bits.
func public(v value) (uint64, error) {
	if !v.known() {
		return 0, fmt.Errorf("depends on data")
	}
	return v.c, nil
}
