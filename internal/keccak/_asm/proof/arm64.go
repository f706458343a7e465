package main

import (
	"fmt"
	"maps"
	"strconv"
)

// arm64 is the instruction set of kernels_arm64.s. Operands are in the order of Go's assembler,
// which is Arm's from right to left.
func arm64() *arch {
	a := &arch{
		name:       "arm64",
		register:   arm64Register,
		models:     map[string]model{},
		start:      func(m *machine) { m.general[arm64Link] = value{form: atomForm(linkAtom)} },
		clobbers:   func(r reg) bool { return r.n != arm64Platform && r.n < arm64G || r.n == arm64Link },
		atReturn:   arm64AtReturn,
		features:   arm64Features,
		stackAlign: 16,
		lanes:      2,
		flagEffect: arm64FlagEffect,

		registerNames: []string{"R%d", "F%d", "V%d"},
	}
	maps.Copy(a.models, arm64General())
	maps.Copy(a.models, arm64Vectors())
	return a
}

// Registers that Go, or the operating system, keeps, or that need care.
const (
	arm64Platform = 18
	arm64G        = 28 // 29 is the frame pointer
	arm64Link     = 30
)

func arm64Register(name string) (reg, bool) {
	if len(name) < 2 {
		return reg{}, false
	}
	n, err := strconv.Atoi(name[1:])
	if err != nil || n > 31 || name[1] == '0' && len(name) > 2 {
		return reg{}, false
	}
	switch {
	case name[0] == 'R' && n <= arm64Link:
		return reg{general, n, laneBytes}, true
	case name[0] == 'F':
		return reg{vector, n, laneBytes}, true
	case name[0] == 'V':
		return reg{vector, n, 16}, true
	}
	return reg{}, false
}

func arm64AtReturn(m *machine) error {
	if !m.general[arm64Link].same(value{form: atomForm(linkAtom)}) {
		return fmt.Errorf("returns to %s", m.describe(m.general[arm64Link]))
	}
	return nil
}

func arm64Features(in *instr) []string {
	switch in.op {
	case "VEOR3", "VRAX1", "VXAR", "VBCAX":
		return []string{featSHA3}
	}
	return nil
}

func arm64FlagEffect(op string) flagEffect {
	switch {
	case op == "SUBS" || op == "ADDS" || op == "CMP":
		return setsFlags
	case arm64Branches[op] != "":
		return usesFlags
	}
	return leavesFlags
}

// arm64Branches are the conditional branches.
var arm64Branches = map[string]string{
	"BEQ": "EQ", "BNE": "NE", "BLT": "LT", "BGE": "GE", "BLE": "LE", "BGT": "GT", "BHI": "HI", "BLS": "LS", "BMI": "MI", "BPL": "PL",
	"BCC": "CS", "BLO": "CS", "BCS": "CC", "BHS": "CC", // the carry flag is set if nothing was borrowed
}

// register gives a general register, shifted or rotated if the operand says so.
func (m *machine) shifted(o operand) (value, error) {
	if !o.is(general) || o.lanes != "" {
		return value{}, errOperands
	}
	v := *m.generalRef(o.reg)
	n := int(o.imm)
	if o.shift != "" && (n < 0 || n > 63) {
		return value{}, errOperands
	}
	switch o.shift {
	case "":
		return v, nil
	case "@>":
		return m.rotate(v, -n)
	case "<<":
		return m.combine(func(f []form) (form, bool) { return f[0].shiftLeft(uint64(n)), true }, v)
	case ">>":
		return m.combine(func(f []form) (form, bool) { return f[0].shiftRight(uint64(n)), true }, v)
	}
	return value{}, errOperands
}

// threeOperands is an instruction dst = f(second, first), where the first operand may be
// shifted or, if that is allowed, an immediate. Immediates are those that need no help from
// another register.
func threeOperands(immediate bool, f func(m *machine, a, b value) (value, flags, error), setFlags bool) model {
	return func(m *machine, in *instr) error {
		if len(in.args) != 3 || !in.args[1].is(general) || !in.args[2].is(general) || in.args[1].shift+in.args[2].shift != "" {
			return errOperands
		}
		var b value
		var err error
		if first := in.args[0]; first.kind == opImmediate {
			if !immediate || first.imm < 0 || first.imm >= 1<<12 {
				return errOperands
			}
			b = number(uint64(first.imm))
		} else if b, err = m.shifted(first); err != nil {
			return err
		}
		a := *m.generalRef(in.args[1].reg)
		v, fl, err := f(m, a, b)
		if err != nil {
			return err
		}
		if setFlags {
			m.flags = fl
		}
		return m.setGeneral(in.args[2].reg, v)
	}
}

// logicOf makes a function for threeOperands of one on forms.
func logicOf(f func([]form) (form, bool)) func(m *machine, a, b value) (value, flags, error) {
	return func(m *machine, a, b value) (value, flags, error) {
		v, err := m.combine(f, a, b)
		return v, flags{}, err
	}
}

func arm64General() map[string]model {
	all := map[string]model{
		"MOVD": arm64Move,
		"EOR":  threeOperands(false, logicOf(xorForms), false),
		"ORR":  threeOperands(false, logicOf(orForms), false),
		"AND":  threeOperands(false, logicOf(andForms), false),
		"BIC":  threeOperands(false, logicOf(clearForms), false),
		"EON":  threeOperands(false, logicOf(func(v []form) (form, bool) { return v[0].xor(v[1].not()), true }), false),
		"ADD":  threeOperands(true, (*machine).add, false),
		"SUB":  threeOperands(true, (*machine).sub, false),
		"SUBS": threeOperands(true, (*machine).sub, true),
		"ROR": func(m *machine, in *instr) error {
			if len(in.args) != 3 || in.args[0].kind != opImmediate || in.args[0].imm < 0 || in.args[0].imm > 63 ||
				!in.args[1].is(general) || !in.args[2].is(general) {
				return errOperands
			}
			v, err := m.rotate(*m.generalRef(in.args[1].reg), -int(in.args[0].imm))
			if err != nil {
				return err
			}
			return m.setGeneral(in.args[2].reg, v)
		},
		"LDP": func(m *machine, in *instr) error {
			if len(in.args) != 2 || in.args[1].kind != opList || len(in.args[1].list) != 2 {
				return errOperands
			}
			a, b := in.args[1].list[0], in.args[1].list[1]
			if !a.is(general) || !b.is(general) || a.reg == b.reg {
				return errOperands
			}
			p, err := m.locate(in.args[0])
			if err != nil {
				return err
			}
			v, err := m.load(p, 2)
			if err != nil {
				return err
			}
			if err := m.setGeneral(a.reg, v[0]); err != nil {
				return err
			}
			return m.setGeneral(b.reg, v[1])
		},
		"MRS": func(m *machine, in *instr) error {
			if len(in.args) != 2 || in.args[0].kind != opSystem || in.args[0].text != "MIDR_EL1" || !in.args[1].is(general) {
				return errOperands
			}
			return m.setGeneral(in.args[1].reg, value{form: atomForm(midrAtom)})
		},
		"B":   jumpIf(func(flags) tri { return yes }),
		"RET": ret,
	}
	for name, c := range arm64Branches {
		all[name] = jumpIf(conditions[c])
	}
	return all
}

// arm64Move is MOVD: a load, a store, a move, an address or a constant. The assembler makes a
// constant in the register that it is for.
func arm64Move(m *machine, in *instr) error {
	if len(in.args) != 2 {
		return errOperands
	}
	src, dst := in.args[0], in.args[1]
	if src.shift+dst.shift+src.lanes+dst.lanes != "" || src.is(vector) || dst.is(vector) || dst.kind == opStatic || src.kind == opStatic {
		return errOperands
	}
	var v value
	switch src.kind {
	case opAddress:
		p, err := m.locate(src)
		if err != nil {
			return err
		}
		v = value{kind: address, region: p.region, offset: p.offset}
	case opImmediate, opRegister, opMemory, opParam, opLocal:
		var err error
		if v, err = m.get(src); err != nil {
			return err
		}
	default:
		return errOperands
	}
	if !dst.is(general) && !src.is(general) { // no constant goes to memory but zero
		return errOperands
	}
	return m.put(dst, m.moved(v))
}
