package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A trial is one execution of an instruction.
type trial struct {
	sh     *shape
	before context
	m      *machine
	atoms  []uint64 // by number, from firstOther
	err    error    // of the model
}

// compare runs all trials and compares what the models say with what the processor does.
func (p *processor) compare(t *testing.T, program string, trials []*trial) {
	t.Helper()
	var in bytes.Buffer
	for _, tr := range trials {
		var n uint64
		if _, err := fmt.Sscanf(tr.sh.name, "f%d", &n); err != nil {
			t.Fatal(err)
		}
		binary.Write(&in, binary.LittleEndian, n)
		binary.Write(&in, binary.LittleEndian, tr.before[:])
	}
	cmd := exec.Command(program)
	if len(p.run) > 0 {
		cmd = exec.Command(p.run[0], append(slices.Clone(p.run[1:]), program)...)
	}
	cmd.Stdin = &in
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, stderr.Bytes())
	}
	for i, tr := range trials {
		var after context
		const size = ctxWords * laneBytes
		if _, err := binary.Decode(out[i*size:(i+1)*size], binary.LittleEndian, after[:]); err != nil {
			t.Fatal(err)
		}
		if diff := p.differences(tr, &after); diff != "" {
			t.Errorf("%s: %s", &tr.sh.in, diff)
		}
	}
}

// differences compares a machine with a context.
func (p *processor) differences(tr *trial, after *context) string {
	m := tr.m
	tables := sortedTables(m.k.file)
	base := func(g *region) uint64 {
		switch {
		case g.name == frameName:
			return after[ctxStack]
		case g.name == "memory":
			return after[ctxSelf] + laneBytes*ctxBytes
		}
		return after[ctxTables+slices.Index(tables, g.name)]
	}
	diff := ""
	check := func(name string, v value, got uint64) {
		var want uint64
		switch v.kind {
		case address:
			want = base(v.region) + uint64(v.offset)
		case count:
			want = uint64(m.low + v.offset)
		case word:
			for _, u := range v.terms {
				f, g := u.factors()
				if f.atom() >= firstOther+len(tr.atoms) || int(g.atom()) >= firstOther+len(tr.atoms) {
					return // anything
				}
				if f.atom() == midrAtom {
					return // the processor's own
				}
			}
			want = v.evaluate(func(atom int) uint64 { return tr.atoms[atom-firstOther] })
		}
		if got != want && diff == "" {
			diff = fmt.Sprintf("%s is %#x, the model says %#x", name, got, want)
		}
	}
	for _, i := range p.generals {
		check(fmt.Sprintf("general register %d", i), m.general[i], after[ctxGeneral+i])
	}
	count, lanes := vectors, p.arch.lanes
	if !p.wide {
		count, lanes = 16, 4
	}
	for i := range count {
		for j := range lanes {
			check(fmt.Sprintf("lane %d of vector register %d", j, i), m.vector[i][j], after[ctxVector+maxLanes*i+j])
		}
	}
	if p.wide && p.arch.name == "amd64" {
		for i := range m.mask {
			check(fmt.Sprintf("mask register %d", i), m.mask[i], after[ctxMask+i])
		}
	}
	for i, v := range m.regions[frameName].cells {
		check(fmt.Sprintf("the frame's word %d", i), v, after[ctxFrame+i])
	}
	for i, v := range m.regions[argumentsName].cells[1:] {
		check(fmt.Sprintf("argument %d", i+1), v, after[ctxArgs+i+1])
	}
	for i, v := range m.regions["memory"].cells {
		check(fmt.Sprintf("word %d of memory", i), v, after[ctxBytes+i])
	}
	f := p.readFlags(after[ctxFlags])
	for i, known := range [4]tri{m.flags.zero, m.flags.sign, m.flags.overflow, m.flags.borrow} {
		if got := [4]tri{f.zero, f.sign, f.overflow, f.borrow}[i]; known != unset && got != known && diff == "" {
			diff = fmt.Sprintf("the flags are %v, the model says %v", f, m.flags)
		}
	}
	if jumped := after[ctxJumped] == 1; jumped != (m.pc == jumpTarget) && diff == "" {
		diff = fmt.Sprintf("jumps: %v", jumped)
	}
	return diff
}

// jumpTarget is where jumps go in trials.
const jumpTarget = 1000

// A filling says of what kind an operand is in a trial.
type filling int

const (
	fillNumber filling = iota
	fillAtom
	fillSmall // a number that can be an index, a mask, a difference
	fillOther // a number or a count or an address
	fillKinds
)

// newTrial fills registers and memory, and runs the model. Registers and memory that the
// instruction names are filled as fill says, one after the other.
func (p *processor) newTrial(r *rand.Rand, sh *shape, fill []filling) *trial {
	k := *sh.k
	tr := &trial{sh: sh}
	in := sh.in
	in.target = jumpTarget
	o := &others{}
	m := &machine{k: &k, others: o, regions: map[string]*region{}}
	m.low = 1 + r.Int64N(3)*r.Int64N(200)
	m.high = m.low
	tr.m = m
	c := &tr.before

	// A word is a number at first.
	set := func(v *value, at int, how filling) {
		n := r.Uint64()
		switch {
		case how == fillSmall:
			n = r.Uint64N(1 << (1 + r.IntN(8)))
		case how != fillAtom && r.IntN(8) == 0:
			n = -r.Uint64N(3)
		}
		c[at] = n
		*v = number(n)
		if how == fillAtom {
			// Atoms with a rotation, a mask, and a constant.
			atom, _ := o.add("%s%s", "", "")
			raw := r.Uint64()
			tr.atoms = append(tr.atoms, raw)
			v.form = atom.rotate(r.IntN(2) * r.IntN(64)).xor(constant(-uint64(r.IntN(2)) & r.Uint64()))
			c[at] = v.evaluate(func(int) uint64 { return raw })
		}
	}
	for _, name := range sortedTables(k.file) {
		g := newRegion(name, int64(laneBytes*len(k.file.tables[name].words)))
		g.table = k.file.tables[name]
		for j, w := range g.table.words {
			g.cells[j] = number(w)
		}
		m.regions[name] = g
	}
	for i := range m.general {
		set(&m.general[i], ctxGeneral+i, fillNumber)
	}
	for i := range m.vector {
		for j := range p.arch.lanes {
			set(&m.vector[i][j], ctxVector+maxLanes*i+j, fillNumber)
		}
	}
	for i := range m.mask {
		set(&m.mask[i], ctxMask+i, fillSmall)
	}
	fillRegion := func(name string, words, at int, how filling) *region {
		g := newRegion(name, int64(laneBytes*words))
		g.writable = true
		for i := range g.cells {
			set(&g.cells[i], at+i, how)
		}
		m.regions[name] = g
		return g
	}
	memoryFill := fill[r.IntN(len(fill))]
	frame := fillRegion(frameName, frameWords, ctxFrame, memoryFill)
	memory := fillRegion("memory", memWords, ctxBytes, memoryFill)
	arguments := fillRegion(argumentsName, 4, ctxArgs, fillNumber)
	k.frame = frameWords * laneBytes
	arguments.cells[0] = value{kind: address, region: memory, offset: -laneBytes * ctxBytes} // the context
	memory.based = true                                                                      // the program makes it a multiple of 64
	m.stack = value{kind: address, region: frame}

	f := flags{triOf(r.IntN(2) == 0), triOf(r.IntN(2) == 0), triOf(r.IntN(2) == 0), triOf(r.IntN(2) == 0)}
	m.flags = f
	c[ctxFlags] = p.writeFlags(f)

	// addressIn makes a register an address.
	addressIn := func(n int, g *region, at int) {
		c[ctxGeneral+n] = uint64(at)
		m.general[n] = value{kind: address, region: g, offset: int64(at)}
		if g == frame {
			c[ctxInFrame+n] = allOnes
		} else {
			c[ctxGeneral+n] += laneBytes * ctxBytes
			c[ctxInBytes+n] = allOnes
		}
	}
	var place func(o operand, how filling)
	place = func(o operand, how filling) {
		switch {
		case o.kind == opMemory && o.reg.class == general:
			if strings.HasPrefix(in.op, "VMOVDQA") {
				addressIn(o.reg.n, memory, 64*r.IntN(16))
			} else {
				addressIn(o.reg.n, memory, laneBytes*r.IntN(100))
			}
			if o.scale != 0 {
				n := uint64(laneBytes * r.IntN(16))
				c[ctxGeneral+o.index.n], m.general[o.index.n] = n, number(n)
			}
		case o.kind == opRegister && o.reg.class == general:
			at := ctxGeneral + o.reg.n
			if c[ctxInBytes+o.reg.n] != 0 || c[ctxInFrame+o.reg.n] != 0 {
				break // an address that is needed
			}
			set(&m.general[o.reg.n], at, how)
			if how != fillOther {
				break
			}
			switch r.IntN(4) {
			case 0:
				addressIn(o.reg.n, frame, laneBytes*r.IntN(frameWords))
			case 1:
				addressIn(o.reg.n, memory, laneBytes*r.IntN(memWords))
			case 2:
				v := value{kind: count, offset: r.Int64N(5) - 2}
				c[at], m.general[o.reg.n] = uint64(m.low+v.offset), v
			}
		case o.kind == opRegister && o.reg.class == vector:
			for j := range p.arch.lanes {
				set(&m.vector[o.reg.n][j], ctxVector+maxLanes*o.reg.n+j, how)
			}
		}
		for _, part := range o.list {
			place(part, how)
		}
	}
	for i, o := range in.args { // addresses first
		if o.kind == opMemory {
			place(o, fill[i%len(fill)])
		}
	}
	for i, o := range in.args {
		if o.kind != opMemory {
			place(o, fill[i%len(fill)])
		}
	}
	if r.IntN(4) == 0 { // equal operands, for comparisons
		var first *operand
		for i := range in.args {
			if o := &in.args[i]; o.is(general) && c[ctxInBytes+o.reg.n]|c[ctxInFrame+o.reg.n] == 0 {
				if first == nil {
					first = o
				} else {
					c[ctxGeneral+o.reg.n], m.general[o.reg.n] = c[ctxGeneral+first.reg.n], m.general[first.reg.n]
				}
			}
		}
	}
	tr.err = in.run(m, &in)
	return tr
}

func sortedTables(f *file) (names []string) {
	for name := range f.tables {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
