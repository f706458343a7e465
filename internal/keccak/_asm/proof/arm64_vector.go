package main

import (
	"fmt"
	"strings"
)

// The models of instructions on vector registers, of two lanes. Registers that are called F are
// the lower lane of those that are called V.

// arm64Lanes is an instruction dst = f(sources) on both lanes. The sources are in the order of
// the assembler. With an immediate, that comes first.
func arm64Lanes(sources int, immediate bool, f func(m *machine, imm int, v []value) (value, error)) model {
	return func(m *machine, in *instr) error {
		args := in.args
		imm := 0
		if immediate {
			if len(args) == 0 || args[0].kind != opImmediate || args[0].imm < 0 || args[0].imm > 63 {
				return errOperands
			}
			imm, args = int(args[0].imm), args[1:]
		}
		if len(args) != sources+1 {
			return errOperands
		}
		for _, o := range args {
			if !o.is(vector) || o.lanes != args[0].lanes || o.lanes != "B16" && o.lanes != "D2" {
				return errOperands
			}
		}
		var result [2]value
		for i := range result {
			var v []value
			for _, o := range args[:sources] {
				v = append(v, m.vector[o.reg.n][i])
			}
			r, err := f(m, imm, v)
			if err != nil {
				return err
			}
			result[i] = r
		}
		copy(m.vector[args[sources].reg.n][:], result[:])
		return nil
	}
}

// on makes a function for arm64Lanes of one on forms.
func on(f func(imm int, v []form) (form, bool)) func(m *machine, imm int, v []value) (value, error) {
	return func(m *machine, imm int, v []value) (value, error) {
		return m.combine(func(v []form) (form, bool) { return f(imm, v) }, v...)
	}
}

// zip is VZIP1 or VZIP2: the lower or the upper lanes of two registers.
func zip(lane int) model {
	return func(m *machine, in *instr) error {
		if len(in.args) != 3 {
			return errOperands
		}
		for _, o := range in.args {
			if !o.is(vector) || o.lanes != "D2" {
				return errOperands
			}
		}
		low, high := m.vector[in.args[1].reg.n][lane], m.vector[in.args[0].reg.n][lane]
		dst := &m.vector[in.args[2].reg.n]
		dst[0], dst[1] = m.moved(low), m.moved(high)
		return nil
	}
}

// moveLanes is FMOVD or FMOVQ, between registers called F and memory. What is not loaded
// becomes zero.
func moveLanes(lanes int) model {
	return func(m *machine, in *instr) error {
		if len(in.args) != 2 {
			return errOperands
		}
		named := func(o operand) bool { return o.is(vector) && o.reg.size == laneBytes && o.lanes == "" }
		switch src, dst := in.args[0], in.args[1]; {
		case named(src) && (dst.kind == opMemory || dst.kind == opLocal):
			p, err := m.locate(dst)
			if err != nil {
				return err
			}
			return m.store(p, m.movedAll(m.vector[src.reg.n][:lanes])...)
		case named(dst) && (src.kind == opMemory || src.kind == opLocal):
			p, err := m.locate(src)
			if err != nil {
				return err
			}
			v, err := m.load(p, lanes)
			if err != nil {
				return err
			}
			to := &m.vector[dst.reg.n]
			to[1] = number(0)
			copy(to[:], v)
			return nil
		}
		return errOperands
	}
}

// oneLane gives the register and the lane of an operand like V3.D[1].
func oneLane(o operand) (n, lane int, ok bool) {
	if !o.is(vector) || !strings.HasPrefix(o.lanes, "D[") {
		return 0, 0, false
	}
	_, err := fmt.Sscanf(o.lanes, "D[%d]", &lane)
	return o.reg.n, lane, err == nil && lane < 2
}

// postIndexed gives the place of an operand like 8(R1), that is at R1, and adds 8 to R1.
func (m *machine) postIndexed(o operand) (place, error) {
	if o.kind != opMemory || o.scale != 0 || o.disp != laneBytes {
		return place{}, errOperands
	}
	at := o
	at.disp = 0
	p, err := m.locate(at)
	if err != nil {
		return p, err
	}
	v, _, err := m.add(*m.generalRef(o.reg), number(laneBytes))
	if err != nil {
		return p, err
	}
	return p, m.setGeneral(o.reg, v)
}

func arm64Vectors() map[string]model {
	xor := func(_ int, v []form) (form, bool) { return v[0].xor(v[1]), true }
	return map[string]model{
		"VEOR":  arm64Lanes(2, false, on(xor)),
		"VORR":  arm64Lanes(2, false, on(func(_ int, v []form) (form, bool) { return orForms(v) })),
		"VAND":  arm64Lanes(2, false, on(func(_ int, v []form) (form, bool) { return andForms(v) })),
		"VEOR3": arm64Lanes(3, false, on(func(_ int, v []form) (form, bool) { return v[0].xor(v[1]).xor(v[2]), true })),
		"VRAX1": arm64Lanes(2, false, on(func(_ int, v []form) (form, bool) { return v[1].xor(v[0].rotate(1)), true })),
		"VXAR":  arm64Lanes(2, true, on(func(n int, v []form) (form, bool) { return v[0].xor(v[1]).rotate(-n), true })),
		"VBCAX": arm64Lanes(3, false, on(func(_ int, v []form) (form, bool) {
			r, ok := v[1].and(v[0].not())
			return r.xor(v[2]), ok
		})),
		"VZIP1": zip(0),
		"VZIP2": zip(1),
		"FMOVD": moveLanes(1),
		"FMOVQ": moveLanes(2),
		// Loads of one word into both lanes, or one of them.
		"VLD1R.P": func(m *machine, in *instr) error {
			if len(in.args) != 2 || in.args[1].kind != opList || len(in.args[1].list) != 1 {
				return errOperands
			}
			dst := in.args[1].list[0]
			if !dst.is(vector) || dst.lanes != "D2" {
				return errOperands
			}
			p, err := m.postIndexed(in.args[0])
			if err != nil {
				return err
			}
			v, err := m.load(p, 1)
			if err != nil {
				return err
			}
			m.vector[dst.reg.n][0], m.vector[dst.reg.n][1] = v[0], v[0]
			return nil
		},
		"VLD1.P": func(m *machine, in *instr) error {
			if len(in.args) != 2 {
				return errOperands
			}
			n, lane, ok := oneLane(in.args[1])
			if !ok {
				return errOperands
			}
			p, err := m.postIndexed(in.args[0])
			if err != nil {
				return err
			}
			v, err := m.load(p, 1)
			if err != nil {
				return err
			}
			m.vector[n][lane] = v[0]
			return nil
		},
		"VST1.P": func(m *machine, in *instr) error {
			if len(in.args) != 2 {
				return errOperands
			}
			n, lane, ok := oneLane(in.args[0])
			if !ok {
				return errOperands
			}
			p, err := m.postIndexed(in.args[1])
			if err != nil {
				return err
			}
			return m.store(p, m.moved(m.vector[n][lane]))
		},
	}
}
