package main

import (
	"fmt"
	"maps"
	"strings"
)

// The models of arithmetic on vectors of 64-bit lanes. Writing a vector register clears its
// bits beyond the width of the instruction.

// An evex is the operands of a vector instruction.
type evex struct {
	in     *instr
	src    []operand // in the order of the assembler
	dst    operand
	masked bool
	mask   value // of lanes to write
	zero   bool  // other lanes become zero, rather than stay
	lanes  int
}

// decode sorts the operands of a vector instruction of n sources, immediates included.
func (m *machine) decode(in *instr, n int) (e evex, err error) {
	args := in.args
	if len(args) < 1 {
		return e, fmt.Errorf("no operands")
	}
	_, suffix, _ := strings.Cut(in.op, ".")
	e = evex{in: in, dst: args[len(args)-1], zero: suffix == "Z" || suffix == "BCST.Z"}
	args = args[:len(args)-1]
	if len(args) > 0 && args[len(args)-1].is(maskReg) {
		r := args[len(args)-1].reg
		if r.n == 0 {
			return e, fmt.Errorf("K0 is no mask")
		}
		e.masked, e.mask = true, m.mask[r.n]
		if _, err := public(e.mask); err != nil {
			return e, fmt.Errorf("the mask %w", err)
		}
		args = args[:len(args)-1]
	}
	if len(args) != n || e.zero && !e.masked {
		return e, errOperands
	}
	e.src = args
	if e.dst.is(vector) {
		e.lanes = e.dst.reg.size / laneBytes
	}
	return e, nil
}

// on reports whether lane i is written.
func (e *evex) on(i int) bool { return !e.masked || e.mask.c>>i&1 != 0 }

// vectorOf gives the lanes of a register, or of memory.
func (m *machine) vectorOf(o operand, lanes int) ([]value, error) {
	if o.kind == opRegister {
		if !o.is(vector) || o.reg.size != lanes*laneBytes {
			return nil, fmt.Errorf("%s has another width", o.text)
		}
		return m.vector[o.reg.n][:lanes:lanes], nil
	}
	p, err := m.locate(o)
	if err != nil {
		return nil, err
	}
	return m.load(p, lanes)
}

// broadcastOf gives lanes times the word at o.
func (m *machine) broadcastOf(o operand, lanes int) ([]value, error) {
	p, err := m.locate(o)
	if err != nil {
		return nil, err
	}
	v, err := m.load(p, 1)
	if err != nil {
		return nil, err
	}
	all := make([]value, lanes)
	for i := range all {
		all[i] = v[0]
	}
	return all, nil
}

// write writes lanes to the destination of an instruction, as far as the mask says.
func (m *machine) write(e *evex, lanes []value) error {
	if !e.dst.is(vector) {
		return errOperands
	}
	old := &m.vector[e.dst.reg.n]
	for i := range old {
		switch {
		case i >= len(lanes):
			old[i] = number(0)
		case e.on(i):
			old[i] = lanes[i]
		case e.zero:
			old[i] = number(0)
		}
		if e.masked && i < len(lanes) && e.on(i) {
			old[i].cone = m.cone([]value{old[i], e.mask})
		}
	}
	if e.dst.reg.size > 16 {
		m.dirty = true
	}
	return nil
}

// laneByLane is an instruction whose lanes are functions of the same lanes of its sources, and
// of the destination, which is the last value that f gets. With broadcast, the first source is
// one word in memory.
func laneByLane(sources int, broadcast bool, f func(m *machine, imm int64, v []value) (value, error)) model {
	return func(m *machine, in *instr) error {
		n := sources
		if imm := len(in.args) > 0 && in.args[0].kind == opImmediate; imm {
			n++
		}
		e, err := m.decode(in, n)
		if err != nil {
			return err
		}
		if !e.dst.is(vector) {
			return errOperands
		}
		imm := int64(-1)
		if n > sources {
			imm, e.src = e.src[0].imm, e.src[1:]
		}
		var src [3][]value
		for i, o := range e.src {
			if i == 0 && broadcast {
				src[i], err = m.broadcastOf(o, e.lanes)
			} else {
				src[i], err = m.vectorOf(o, e.lanes)
			}
			if err != nil {
				return err
			}
		}
		result := make([]value, e.lanes)
		for i := range result {
			if !e.on(i) {
				continue
			}
			v := make([]value, 0, sources+1)
			for j := range e.src {
				v = append(v, src[j][i])
			}
			if result[i], err = f(m, imm, append(v, m.vector[e.dst.reg.n][i])); err != nil {
				return err
			}
		}
		return m.write(&e, result)
	}
}

func noImmediate(f func(m *machine, v []value) (value, error)) func(*machine, int64, []value) (value, error) {
	return func(m *machine, imm int64, v []value) (value, error) {
		if imm >= 0 {
			return value{}, errOperands
		}
		return f(m, v)
	}
}

// logical is a lane by lane instruction of two sources.
func logical(f func([]form) (form, bool)) func(*machine, int64, []value) (value, error) {
	return noImmediate(func(m *machine, v []value) (value, error) { return m.combine(f, v[0], v[1]) })
}

// immediateOnly is for lane by lane instructions of one source and an immediate.
func immediateOnly(f func(v form, n uint64) form) func(*machine, int64, []value) (value, error) {
	return func(m *machine, imm int64, v []value) (value, error) {
		if imm < 0 {
			return value{}, fmt.Errorf("the immediate is missing")
		}
		return m.combine(func(a []form) (form, bool) { return f(a[0], uint64(imm)&0xFF), true }, v[0])
	}
}

// byLane is for lane by lane instructions whose first source says how far to rotate the second.
func byLane(sign int) func(*machine, int64, []value) (value, error) {
	return noImmediate(func(m *machine, v []value) (value, error) {
		n, err := public(v[0])
		if err != nil {
			return value{}, fmt.Errorf("how far it rotates %w", err)
		}
		return m.rotate(v[1], sign*int(n&63), v[0])
	})
}

func ternaryLogic(m *machine, imm int64, v []value) (value, error) {
	if imm < 0 {
		return value{}, fmt.Errorf("the immediate is missing")
	}
	return m.combine(func(f []form) (form, bool) { return ternary(uint8(imm), f[2], f[1], f[0]) }, v...)
}

func amd64Vectors() map[string]model {
	andNot := func(v []form) (form, bool) { return v[0].and(v[1].not()) }
	all := map[string]model{
		"VPADDQ":          laneByLane(2, false, logical(addForms)),
		"VPSLLQ":          laneByLane(1, false, immediateOnly(form.shiftLeft)),
		"VPSRLQ":          laneByLane(1, false, immediateOnly(form.shiftRight)),
		"VPROLQ":          laneByLane(1, false, immediateOnly(func(v form, n uint64) form { return v.rotate(int(n)) })),
		"VPRORQ":          laneByLane(1, false, immediateOnly(func(v form, n uint64) form { return v.rotate(-int(n)) })),
		"VPROLVQ":         laneByLane(2, false, byLane(1)),
		"VPRORVQ":         laneByLane(2, false, byLane(-1)),
		"VPTERNLOGQ":      laneByLane(2, false, ternaryLogic),
		"VPTERNLOGQ.BCST": laneByLane(2, true, ternaryLogic),
	}
	for name, f := range map[string]func([]form) (form, bool){"VPXOR": xorForms, "VPAND": andForms, "VPOR": orForms, "VPANDN": andNot} {
		all[name] = laneByLane(2, false, logical(f))
		all[name+"Q"] = laneByLane(2, false, logical(f))
		all[name+"Q.BCST"] = laneByLane(2, true, logical(f))
	}
	maps.Copy(all, amd64Permutations())
	return all
}
