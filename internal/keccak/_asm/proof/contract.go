package main

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// A contract is what a kernel is to do, beyond what all of them are: it permutes or only
// digests states that are in its arguments. Where it has a parameter blocks, it then absorbs as
// many blocks: it xors each into the first 17 lanes and permutes again.
type contract struct {
	params   string // names and types
	features []string
	states   []stateArg
	digests  []digestArg
	midr     string // the parameter that MIDR_EL1 is stored to, if any
	// head is the label that a kernel with blocks is at before every permutation. It is only a
	// hint: the proof finds by itself what holds there, and fails if that is not enough.
	head string
}

// A stateArg is a state in memory.
type stateArg struct {
	param          string
	offset, stride int64 // of lane 0, and from lane to lane
	permuted       bool  // it is replaced by its permutation, rather than left as it is
	used           bool  // it is read: others must be left as they are
}

// A digestArg is the first 32 bytes of a state after the permutation.
type digestArg struct {
	param string
	state int
}

// maxBlocks is what package keccak promises: a call absorbs at most so many blocks.
const maxBlocks = 512

const (
	argumentsName = "the arguments"
	frameName     = "the stack frame"
)

func oneState(param string, permuted bool) stateArg {
	return stateArg{param: param, stride: laneBytes, permuted: permuted, used: true}
}

// single is for one state.
func single(head string, features ...string) contract {
	return contract{
		params:   "a *[25]uint64, p *byte, blocks int",
		features: features,
		states:   []stateArg{oneState("a", true)},
		head:     head,
	}
}

// group is for the first n of eight states, lane by lane.
func group(n int, head string, features ...string) contract {
	c := contract{params: "states *[25][8]uint64, p *[8]*byte, blocks int", features: features, head: head}
	for s := range maxStates {
		c.states = append(c.states, stateArg{"states", int64(laneBytes * s), laneBytes * maxStates, s < n, s < n})
	}
	return c
}

func digest(features ...string) contract {
	return contract{
		params:   "out *[32]byte, a *[25]uint64",
		features: features,
		states:   []stateArg{oneState("a", false)},
		digests:  []digestArg{{"out", 0}},
	}
}

func digestPermute(features ...string) contract {
	return contract{
		params:   "out *[32]byte, a *[25]uint64, b *[25]uint64",
		features: features,
		states:   []stateArg{oneState("a", false), oneState("b", true)},
		digests:  []digestArg{{"out", 0}},
	}
}

func digest2(features ...string) contract {
	return contract{
		params:   "outA *[32]byte, outB *[32]byte, a *[25]uint64, b *[25]uint64",
		features: features,
		states:   []stateArg{oneState("a", false), oneState("b", false)},
		digests:  []digestArg{{"outA", 0}, {"outB", 1}},
	}
}

// contracts has every kernel there is. What follows its name are the features of the processor that
// package keccak asks for before it calls the kernel.
var contracts = map[string]contract{
	"permuteBMI2":         single("permute", featBMI1, featBMI2),
	"permute4AVX2":        group(4, "permute", featBMI1, featBMI2, featAVX2),
	"permuteAVX512":       single("permute", featBMI1, featBMI2, feat512F, feat512VL),
	"digestAVX512":        digest(featBMI1, featBMI2, feat512F, feat512VL),
	"digestPermuteAVX512": digestPermute(featBMI1, featBMI2, feat512F, feat512VL),
	"digest2AVX512":       digest2(featBMI1, featBMI2, feat512F, feat512VL),
	"permute4AVX512":      group(4, "permute", featBMI1, featBMI2, feat512F, feat512VL),
	"permuteSHA3":         single("permute", featSHA3),
	"permute2SHA3":        group(2, "permute", featSHA3),
	"digestSHA3":          digest(featSHA3),
	"digestPermuteSHA3":   digestPermute(featSHA3),
	"digest2SHA3":         digest2(featSHA3),
	"permuteScalar":       single("permute"),
	"readMIDR":            {params: "out *uint64", midr: "out"},
	"permute8AVX512":      group(8, "permute", featBMI1, featBMI2, feat512F, feat512VL),
}

// has reports whether a kernel may use a feature.
func (c *contract) has(feature string) bool {
	var implies func(f string) bool
	implies = func(f string) bool { return f == feature || slices.ContainsFunc(impliedFeatures[f], implies) }
	return slices.ContainsFunc(c.features, implies)
}

// check compares a kernel with its contract, as far as that needs no run.
func (c *contract) check(k *kernel) error {
	var params []string
	for _, p := range k.params {
		params = append(params, p.name+" "+p.typ)
	}
	if got := strings.Join(params, ", "); got != c.params {
		return &kernelError{k, nil, fmt.Errorf("is declared with (%s), the contract has (%s)", got, c.params)}
	}
	if k.flags != "NOSPLIT" {
		return &kernelError{k, nil, fmt.Errorf("has the flags %s, not NOSPLIT", k.flags)}
	}
	for i := range k.code {
		for _, feature := range k.file.arch.features(&k.code[i]) {
			if !c.has(feature) {
				return &kernelError{k, &k.code[i], fmt.Errorf("needs %s, which its caller does not ask for", feature)}
			}
		}
	}
	return nil
}

// A run is what differs between runs of a kernel.
type run struct {
	low, high int64 // bounds for the number of blocks still to be absorbed
	frameBase int64 // address of the frame modulo 64
}

// machine makes a machine that is about to run k.
func (c *contract) machine(k *kernel, o *others, tr *trace, r run) (*machine, error) {
	m := &machine{k: k, others: o, trace: tr, low: r.low, high: r.high, regions: map[string]*region{}}
	add := func(g *region) *region {
		if m.regions[g.name] != nil {
			panic("two regions are called " + g.name)
		}
		m.regions[g.name] = g
		return g
	}
	anything := func(cells []value, format string, what any) (err error) {
		for i := range cells {
			if cells[i], err = m.other(format, what, i); err != nil {
				return err
			}
		}
		return nil
	}
	for name, t := range k.file.tables {
		g := add(newRegion(name, int64(laneBytes*len(t.words))))
		g.table = t
		for i, w := range t.words {
			g.cells[i] = number(w)
		}
	}
	frame := add(newRegion(frameName, k.frame))
	frame.writable, frame.based, frame.base = true, true, r.frameBase
	arguments := add(newRegion(argumentsName, k.args))
	arguments.writable = true // as parameters of Go functions are
	inMemory := func(g *region) value { return value{kind: address, region: g} }
	m.stack = inMemory(frame)
	if err := anything(frame.cells, "%s, lane %d at the start", frameName); err != nil {
		return nil, err
	}
	if err := anything(m.general[:], "%s register %d at the start", "general"); err != nil {
		return nil, err
	}
	for i := range m.vector {
		if err := anything(m.vector[i][:k.file.arch.lanes], "vector register %d, lane %d, at the start", i); err != nil {
			return nil, err
		}
	}
	if err := anything(m.mask[:], "%s register %d at the start", "mask"); err != nil {
		return nil, err
	}

	for i, p := range k.params {
		switch p.typ {
		case "int":
			arguments.cells[i] = value{kind: count}
		case "*byte":
			arguments.cells[i] = inMemory(add(c.data(m, p.name, 0)))
		case "*[8]*byte":
			pointers := add(newRegion(p.name, maxStates*laneBytes))
			for s := range pointers.cells {
				pointers.cells[s] = inMemory(add(c.data(m, fmt.Sprintf("%s[%d]", p.name, s), s)))
				if !c.states[s].used {
					if err := anything(pointers.cells[s:s+1], "the pointer to a block that is not used (%s, %d)", p.name); err != nil {
						return nil, err
					}
				}
			}
			arguments.cells[i] = inMemory(pointers)
		default:
			size, ok := map[string]int64{"*[25]uint64": 200, "*[25][8]uint64": 1600, "*[32]byte": digestSize, "*uint64": 8}[p.typ]
			if !ok {
				return nil, fmt.Errorf("the type %s is not known", p.typ)
			}
			g := add(newRegion(p.name, size))
			if err := anything(g.cells, "%s, lane %d at the start", p.name); err != nil {
				return nil, err
			}
			arguments.cells[i] = inMemory(g)
			g.writable = size == digestSize || size == laneBytes
		}
	}
	for s, st := range c.states {
		if st.used {
			m.used = append(m.used, s)
		}
		g := m.regions[st.param]
		g.writable = g.writable || st.permuted
		for i := range laneCount {
			g.cells[(st.offset+int64(i)*st.stride)/laneBytes] = value{form: atomForm(laneAtom(s, 0, i))}
		}
	}
	k.file.arch.start(m)
	return m, nil
}

// data is the region of the blocks of state s, as far as it is known to be there.
func (c *contract) data(m *machine, name string, s int) *region {
	size := int64(0)
	if m.low > 0 {
		size = rateBytes
	}
	g := newRegion(name, size)
	g.data = true
	for i := range g.cells {
		g.cells[i] = value{form: atomForm(blockAtom(s, i))}
	}
	return g
}

// checkResult tells whether the arguments hold what they should when the kernel returns.
func (c *contract) checkResult(m *machine) error {
	for s := range c.states {
		for err := range c.wrongResults(m, s) {
			return err
		}
	}
	if c.midr != "" {
		return expect(m, c.midr, 0, midrAtom)
	}
	return nil
}

// wrongResults are the errors in what there is of one state when the kernel returns.
func (c *contract) wrongResults(m *machine, s int) iter.Seq[error] {
	return func(yield func(error) bool) {
		st, level := c.states[s], 0
		if st.permuted {
			level = roundCount
		}
		for i := range laneCount {
			if err := expect(m, st.param, st.offset+int64(i)*st.stride, laneAtom(s, level, i)); err != nil && !yield(err) {
				return
			}
		}
		for _, d := range c.digests {
			for i := range digestSize / laneBytes {
				if d.state != s {
					break
				}
				if err := expect(m, d.param, int64(laneBytes*i), laneAtom(s, roundCount, i)); err != nil && !yield(err) {
					return
				}
			}
		}
	}
}

// expect tells whether a word of an argument is an atom.
func expect(m *machine, param string, offset int64, atom int) error {
	cell := m.regions[param].cells[offset/laneBytes]
	if want := (value{form: atomForm(atom)}); !cell.same(want) {
		return &resultError{m: m, where: place{region: m.regions[param], offset: offset}, want: want, got: cell}
	}
	return nil
}

// A resultError says that memory does not hold what it should at the end.
type resultError struct {
	m         *machine
	where     place
	want, got value
}

func (e *resultError) Error() string {
	return fmt.Sprintf("%s+%d should hold %s at the end, but holds %s", e.where.region.name, e.where.offset, e.m.describe(e.want), e.m.describe(e.got))
}
