package main

import "fmt"

// The models of instructions on general registers.

// get gives an operand of 64 bits.
func (m *machine) get(o operand) (value, error) {
	switch o.kind {
	case opImmediate:
		return number(uint64(o.imm)), nil
	case opRegister:
		if o.reg.class == general || o.reg.class == stackPointer {
			return *m.generalRef(o.reg), nil
		}
		return value{}, fmt.Errorf("%s is no general register", o.text)
	}
	p, err := m.locate(o)
	if err != nil {
		return value{}, err
	}
	v, err := m.load(p, 1)
	if err != nil {
		return value{}, err
	}
	return v[0], nil
}

// put writes an operand of 64 bits.
func (m *machine) put(o operand, v value) error {
	if o.kind == opRegister {
		return m.setGeneral(o.reg, v)
	}
	p, err := m.locate(o)
	if err != nil {
		return err
	}
	return m.store(p, v)
}

// operands refuses an instruction that has not n of them, at most one of them in memory.
func operands(in *instr, n int) error {
	inMemory := 0
	for _, o := range in.args {
		if o.kind == opMemory || o.kind == opParam || o.kind == opStatic {
			inMemory++
		}
	}
	if len(in.args) != n || inMemory > 1 {
		return errOperands
	}
	return nil
}

// twoOperands is an instruction dst = f(dst, src) that sets flags.
func twoOperands(f func(m *machine, dst, src value) (value, flags, error)) model {
	return func(m *machine, in *instr) error {
		if err := operands(in, 2); err != nil {
			return err
		}
		src, err := m.get(in.args[0])
		if err != nil {
			return err
		}
		dst, err := m.get(in.args[1])
		if err != nil {
			return err
		}
		v, fl, err := f(m, dst, src)
		if err != nil {
			return err
		}
		m.flags = fl
		return m.put(in.args[1], v)
	}
}

// bitwise is an instruction of two operands of logic.
func bitwise(f func([]form) (form, bool)) model {
	return twoOperands(func(m *machine, dst, src value) (value, flags, error) {
		v, err := m.combine(f, dst, src)
		return v, m.logic(v), err
	})
}

// add is a + b and its flags, as far as they are known.
func (m *machine) add(a, b value) (value, flags, error) {
	if b.kind != word {
		a, b = b, a
	}
	if a.kind != word && b.known() {
		r := a
		r.offset += int64(b.c)
		r.cone = m.cone([]value{a, b})
		if r.kind == count {
			f := m.compare(r, number(0))
			f.borrow = unset
			return r, f, nil
		}
		return r, flags{}, nil
	}
	v, err := m.combine(addForms, a, b)
	f := m.compare(v, number(0))
	f.overflow, f.borrow = unset, unset
	if a.known() && b.known() {
		f.borrow = triOf(v.c < a.c)
		f.overflow = triOf(int64((v.c^a.c)&(v.c^b.c)) < 0)
	}
	return v, f, err
}

// sub is a - b and its flags.
func (m *machine) sub(a, b value) (value, flags, error) {
	f := m.compare(a, b)
	switch {
	case b.known():
		v, _, err := m.add(a, number(-b.c))
		v.cone = m.cone([]value{a, b})
		return v, f, err
	case a.kind != word && a.kind == b.kind && a.region == b.region:
		v := number(uint64(a.offset - b.offset))
		v.cone = m.cone([]value{a, b})
		return v, f, nil
	}
	v, err := m.unknown("a difference", a, b)
	return v, f, err
}

// and is a & b. It can round an address of the stack frame down.
func (m *machine) and(a, b value) (value, error) {
	if a.kind == address && a.region.based && b.known() {
		if align := -b.c; align&(align-1) == 0 && align > 0 && align <= 64 {
			m.aligned = true
			r := a
			r.offset -= (a.region.base + a.offset) & int64(align-1)
			r.cone = m.cone([]value{a, b})
			return r, nil
		}
	}
	return m.combine(andForms, a, b)
}

func amd64General() map[string]model {
	move := func(m *machine, in *instr) error {
		if err := operands(in, 2); err != nil {
			return err
		}
		v, err := m.get(in.args[0])
		if err != nil {
			return err
		}
		v.cone = m.cone([]value{v})
		return m.put(in.args[1], v)
	}
	// step is INCQ or DECQ, which keep the carry flag.
	step := func(n uint64) model {
		return func(m *machine, in *instr) error {
			if err := operands(in, 1); err != nil {
				return err
			}
			v, err := m.get(in.args[0])
			if err != nil {
				return err
			}
			r, f, err := m.sub(v, number(n))
			if err != nil {
				return err
			}
			f.borrow = m.flags.borrow
			m.flags = f
			return m.put(in.args[0], r)
		}
	}
	return map[string]model{
		"MOVQ": move,
		// A register of 32 bits clears the upper half.
		"MOVL": func(m *machine, in *instr) error {
			if err := operands(in, 2); err != nil {
				return err
			}
			if !in.args[1].is(general) || in.args[0].kind != opImmediate && !in.args[0].is(general) {
				return errOperands
			}
			v, err := m.get(in.args[0])
			if err != nil {
				return err
			}
			if v, err = m.combine(func(f []form) (form, bool) { return f[0].mask(1<<32 - 1), true }, v); err != nil {
				return err
			}
			return m.put(in.args[1], v)
		},
		"XORL": func(m *machine, in *instr) error {
			if err := operands(in, 2); err != nil {
				return err
			}
			if !in.args[0].is(general) || !in.args[1].is(general) {
				return errOperands
			}
			a, b := *m.generalRef(in.args[0].reg), *m.generalRef(in.args[1].reg)
			if in.args[0].reg == in.args[1].reg { // zero, whatever it was
				a, b = number(0), number(0)
			}
			v, err := m.combine(func(f []form) (form, bool) { return f[0].xor(f[1]).mask(1<<32 - 1), true }, a, b)
			if err != nil {
				return err
			}
			m.flags = m.logic(v)
			if !v.known() {
				m.flags.sign = unset // of the lower half
			} else {
				m.flags.sign = triOf(v.c>>31 != 0)
			}
			return m.put(in.args[1], v)
		},
		"LEAQ": func(m *machine, in *instr) error {
			if len(in.args) != 2 || in.args[0].kind == opParam {
				return errOperands
			}
			p, err := m.locate(in.args[0])
			if err != nil {
				return err
			}
			return m.put(in.args[1], value{kind: address, region: p.region, offset: p.offset, cone: m.cone(p.from)})
		},
		"XORQ": bitwise(xorForms),
		"ORQ":  bitwise(orForms),
		"ANDQ": twoOperands(func(m *machine, dst, src value) (value, flags, error) {
			v, err := m.and(dst, src)
			if v.kind == address {
				return v, flags{}, err
			}
			return v, m.logic(v), err
		}),
		"ADDQ": twoOperands((*machine).add),
		"SUBQ": twoOperands((*machine).sub),
		"CMPQ": func(m *machine, in *instr) error {
			return m.compareOperands(in, (*machine).compare)
		},
		"TESTQ": func(m *machine, in *instr) error {
			return m.compareOperands(in, func(m *machine, a, b value) flags {
				if a.same(b) {
					return m.logic(a)
				}
				v, err := m.combine(andForms, a, b)
				if err != nil {
					return flags{}
				}
				return m.logic(v)
			})
		},
		"DECQ": step(1),
		"INCQ": step(allOnes),
		"NOTQ": func(m *machine, in *instr) error {
			if err := operands(in, 1); err != nil {
				return err
			}
			v, err := m.get(in.args[0])
			if err != nil {
				return err
			}
			if v, err = m.combine(func(f []form) (form, bool) { return f[0].not(), true }, v); err != nil {
				return err
			}
			return m.put(in.args[0], v)
		},
		"RORXQ": func(m *machine, in *instr) error {
			if err := operands(in, 3); err != nil || in.args[0].kind != opImmediate {
				return errOperands
			}
			v, err := m.get(in.args[1])
			if err != nil {
				return err
			}
			if v, err = m.rotate(v, -int(in.args[0].imm)); err != nil {
				return err
			}
			return m.put(in.args[2], v)
		},
		"ANDNQ": func(m *machine, in *instr) error {
			if err := operands(in, 3); err != nil {
				return err
			}
			a, err := m.get(in.args[0])
			if err != nil {
				return err
			}
			b, err := m.get(in.args[1])
			if err != nil {
				return err
			}
			v, err := m.combine(clearForms, a, b)
			if err != nil {
				return err
			}
			m.flags = m.logic(v)
			return m.put(in.args[2], v)
		},
	}
}

func (m *machine) compareOperands(in *instr, f func(m *machine, a, b value) flags) error {
	if err := operands(in, 2); err != nil {
		return err
	}
	a, err := m.get(in.args[0])
	if err != nil {
		return err
	}
	b, err := m.get(in.args[1])
	if err != nil {
		return err
	}
	m.flags = f(m, a, b)
	return nil
}

// conditions are what jumps and conditional moves ask of the flags.
var conditions = map[string]func(f flags) tri{
	"EQ": func(f flags) tri { return f.zero },
	"NE": func(f flags) tri { return f.zero.not() },
	"LT": flags.less,
	"GE": func(f flags) tri { return f.less().not() },
	"LE": func(f flags) tri { return f.less().or(f.zero) },
	"GT": func(f flags) tri { return f.less().or(f.zero).not() },
	"CS": func(f flags) tri { return f.borrow },
	"CC": func(f flags) tri { return f.borrow.not() },
	"HI": func(f flags) tri { return f.borrow.or(f.zero).not() },
	"LS": func(f flags) tri { return f.borrow.or(f.zero) },
	"MI": func(f flags) tri { return f.sign },
	"PL": func(f flags) tri { return f.sign.not() },
}

// jumpNames has the names that the assembler gives to the same jumps.
var jumpNames = map[string]string{
	"JEQ": "EQ", "JZ": "EQ", "JE": "EQ", "JNE": "NE", "JNZ": "NE", "JLT": "LT", "JL": "LT", "JGE": "GE", "JLE": "LE", "JGT": "GT", "JG": "GT",
	"JCS": "CS", "JB": "CS", "JCC": "CC", "JAE": "CC", "JHI": "HI", "JA": "HI", "JLS": "LS", "JBE": "LS", "JMI": "MI", "JPL": "PL",
}

// jumpIf is a jump.
func jumpIf(condition func(f flags) tri) model {
	return func(m *machine, in *instr) error {
		if len(in.args) != 1 || in.args[0].kind != opLabel {
			return errOperands
		}
		switch condition(m.flags) {
		case yes:
			m.pc = in.target
		case unset:
			return fmt.Errorf("whether it jumps may depend on data")
		}
		return nil
	}
}

func ret(m *machine, in *instr) error {
	m.returned = true
	return m.k.file.arch.atReturn(m)
}

func amd64Jumps() map[string]model {
	all := map[string]model{
		"JMP": jumpIf(func(flags) tri { return yes }),
		"RET": ret,
	}
	for name, c := range jumpNames {
		all[name] = jumpIf(conditions[c])
	}
	for name, c := range conditions {
		all["CMOVQ"+name] = func(m *machine, in *instr) error {
			if err := operands(in, 2); err != nil {
				return err
			}
			v, err := m.get(in.args[0])
			if err != nil {
				return err
			}
			switch c(m.flags) {
			case yes:
				v.cone = m.cone([]value{v})
				return m.put(in.args[1], v)
			case unset:
				return fmt.Errorf("whether it moves may depend on data")
			}
			return nil
		}
	}
	return all
}
