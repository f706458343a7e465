package main

import "fmt"

// The models of instructions that bring lanes to other places.

// pick is an instruction each of whose lanes is one of its sources' lanes. f says which source
// and which lane, given the lane of the result; control is the immediate, or less than zero.
func pick(sources int, f func(control int64, lanes, i int) (source, lane int)) model {
	return func(m *machine, in *instr) error {
		n := sources
		if len(in.args) > 0 && in.args[0].kind == opImmediate {
			n++
		}
		e, err := m.decode(in, n)
		if err != nil {
			return err
		}
		control := int64(-1)
		if n > sources {
			control, e.src = e.src[0].imm, e.src[1:]
		}
		var src [2][]value
		for i, o := range e.src {
			if src[i], err = m.vectorOf(o, e.lanes); err != nil {
				return err
			}
		}
		result := make([]value, e.lanes)
		for i := range result {
			s, lane := f(control, e.lanes, i)
			if s < 0 {
				return errOperands
			}
			result[i] = m.moved(src[s][lane])
		}
		return m.write(&e, result)
	}
}

// moved is v after one more instruction.
func (m *machine) moved(v value, by ...value) value {
	if m.trace != nil {
		v.cone = m.cone(append(by, v))
	}
	return v
}

// unpack takes the lower or the upper lanes of each 128 bits. The assembler's second source
// comes first.
func unpack(upper int) model {
	return pick(2, func(control int64, lanes, i int) (int, int) {
		if control >= 0 {
			return -1, 0
		}
		return 1 - i%2, i&^1 + upper
	})
}

// indexed is VPERMI2Q or VPERMT2Q: lanes chosen from two tables by indices.
func indexed(indexIsDst bool) model {
	return func(m *machine, in *instr) error {
		e, err := m.decode(in, 2)
		if err != nil {
			return err
		}
		if !e.dst.is(vector) {
			return errOperands
		}
		var table [2][]value
		if table[1], err = m.vectorOf(e.src[0], e.lanes); err != nil {
			return err
		}
		index := m.vector[e.dst.reg.n][:e.lanes]
		second, err := m.vectorOf(e.src[1], e.lanes)
		if err != nil {
			return err
		}
		if indexIsDst {
			table[0] = second
		} else {
			table[0], index = index, second
		}
		result := make([]value, e.lanes)
		for i := range result {
			if !e.on(i) {
				continue
			}
			n, err := public(index[i])
			if err != nil {
				return fmt.Errorf("an index %w", err)
			}
			l := int(n) & (2*e.lanes - 1)
			result[i] = m.moved(table[l/e.lanes][l%e.lanes], index[i])
		}
		return m.write(&e, result)
	}
}

// permuteLanes is VPERMQ: by an immediate within four lanes, or by indices.
func permuteLanes(m *machine, in *instr) error {
	e, err := m.decode(in, 2)
	if err != nil {
		return err
	}
	if e.lanes < 4 {
		return errOperands
	}
	control, src := e.src[0], e.src[1]
	var index []value
	if control.kind != opImmediate { // the assembler has indices second
		control, src = src, control
		if index, err = m.vectorOf(control, e.lanes); err != nil {
			return err
		}
	}
	from, err := m.vectorOf(src, e.lanes)
	if err != nil {
		return err
	}
	result := make([]value, e.lanes)
	for i := range result {
		if !e.on(i) {
			continue
		}
		if index == nil {
			result[i] = m.moved(from[i&^3+int(control.imm>>(2*(i%4))&3)])
			continue
		}
		n, err := public(index[i])
		if err != nil {
			return fmt.Errorf("an index %w", err)
		}
		result[i] = m.moved(from[int(n)&(e.lanes-1)], index[i])
	}
	return m.write(&e, result)
}

// blend takes lanes of the assembler's first source where the mask is set, and of the second
// elsewhere.
func blend(m *machine, in *instr) error {
	e, err := m.decode(in, 2)
	if err != nil {
		return err
	}
	if !e.masked || e.zero {
		return errOperands
	}
	set, err := m.vectorOf(e.src[0], e.lanes)
	if err != nil {
		return err
	}
	clear, err := m.vectorOf(e.src[1], e.lanes)
	if err != nil {
		return err
	}
	result := make([]value, e.lanes)
	for i := range result {
		if e.on(i) {
			result[i] = m.moved(set[i], e.mask)
		} else {
			result[i] = m.moved(clear[i], e.mask)
		}
	}
	e.masked = false
	return m.write(&e, result)
}

// gatherParts makes lanes of parts of lanes: from(i, j) is the lane that part j of lane i comes
// from and which part of it, of the given number of bits, or a part less than zero for zeros.
func (m *machine) gatherParts(src []value, bits int, from func(i, j int) (lane, part int), by []value) ([]value, error) {
	result := make([]value, len(src))
	for i := range result {
		used := []value{by[i]}
		var sum form
		for j := range 64 / bits {
			lane, part := from(i, j)
			if part < 0 {
				continue
			}
			if src[lane].kind != word {
				return nil, fmt.Errorf("an address as data")
			}
			used = append(used, src[lane])
			ones := (uint64(1)<<bits - 1) << (j * bits)
			sum = sum.xor(src[lane].form.rotate((j - part) * bits).mask(ones))
		}
		v, err := m.result(sum, used...)
		if err != nil {
			return nil, err
		}
		result[i] = v
	}
	return result, nil
}

// shuffleBytes is VPSHUFB.
func shuffleBytes(m *machine, in *instr) error {
	e, err := m.decode(in, 2)
	if err != nil || e.masked {
		return errOperands
	}
	control, err := m.vectorOf(e.src[0], e.lanes)
	if err != nil {
		return err
	}
	src, err := m.vectorOf(e.src[1], e.lanes)
	if err != nil {
		return err
	}
	for _, c := range control {
		if _, err := public(c); err != nil {
			return fmt.Errorf("the order of bytes %w", err)
		}
	}
	result, err := m.gatherParts(src, 8, func(i, j int) (int, int) {
		c := int(control[i].c >> (8 * j) & 0xFF)
		if c >= 0x80 {
			return 0, -1
		}
		return i&^1 + c&15/8, c & 7
	}, control)
	if err != nil {
		return err
	}
	return m.write(&e, result)
}

// shuffleWords is VPSHUFD.
func shuffleWords(m *machine, in *instr) error {
	e, err := m.decode(in, 2)
	if err != nil || e.masked || e.src[0].kind != opImmediate {
		return errOperands
	}
	src, err := m.vectorOf(e.src[1], e.lanes)
	if err != nil {
		return err
	}
	result, err := m.gatherParts(src, 32, func(i, j int) (int, int) {
		c := int(e.src[0].imm >> (2 * (i%2*2 + j)) & 3)
		return i&^1 + c/2, c % 2
	}, make([]value, len(src)))
	if err != nil {
		return err
	}
	return m.write(&e, result)
}

func amd64Permutations() map[string]model {
	return map[string]model{
		"VPUNPCKLQDQ": unpack(0),
		"VPUNPCKHQDQ": unpack(1),
		"VPERMI2Q":    indexed(true),
		"VPERMT2Q":    indexed(false),
		"VPERMQ":      permuteLanes,
		"VPBLENDMQ":   blend,
		"VPSHUFB":     shuffleBytes,
		"VPSHUFD":     shuffleWords,
		"VMOVDDUP": pick(1, func(control int64, lanes, i int) (int, int) {
			if control >= 0 {
				return -1, 0
			}
			return 0, i &^ 1
		}),
	}
}
