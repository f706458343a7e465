package main

import (
	"fmt"
	"maps"
	"slices"
)

// The models of moves between vector registers, memory and mask registers.

// moveVector is a move of all lanes of a register. An aligned one needs an address that is a
// multiple of the width.
func moveVector(aligned, maskable bool) model {
	return func(m *machine, in *instr) error {
		e, err := m.decode(in, 1)
		if err != nil || e.masked && !maskable {
			return errOperands
		}
		src := e.src[0]
		if !e.dst.is(vector) {
			return m.storeVector(&e, aligned)
		}
		if src.is(vector) {
			v, err := m.vectorOf(src, e.lanes)
			if err != nil {
				return err
			}
			return m.write(&e, m.movedAll(v))
		}
		p, err := m.locate(src)
		if err != nil {
			return err
		}
		if err := m.checkAlignment(p, e.dst.reg.size, aligned); err != nil {
			return err
		}
		// Only lanes that the mask has are read.
		loaded := make([]value, e.lanes)
		for i := range loaded {
			if !e.on(i) {
				continue
			}
			v, err := m.load(p.plus(int64(laneBytes*i)), 1)
			if err != nil {
				return err
			}
			loaded[i] = v[0]
		}
		return m.write(&e, loaded)
	}
}

// storeVector stores a register.
func (m *machine) storeVector(e *evex, aligned bool) error {
	src := e.src[0]
	if !src.is(vector) || e.zero {
		return errOperands
	}
	p, err := m.locate(e.dst)
	if err != nil {
		return err
	}
	if err := m.checkAlignment(p, src.reg.size, aligned); err != nil {
		return err
	}
	for i, v := range m.vector[src.reg.n][:src.reg.size/laneBytes] {
		if e.on(i) {
			if err := m.store(p.plus(int64(laneBytes*i)), m.moved(v)); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkAlignment refuses aligned moves of what need not be aligned.
func (m *machine) checkAlignment(p place, size int, aligned bool) error {
	if !aligned || size < 16 {
		return nil
	}
	if p.region.based {
		m.aligned = true
		if (p.region.base+p.offset)%int64(size) == 0 {
			return nil
		}
	}
	return fmt.Errorf("the address need not be a multiple of %d", size)
}

func (m *machine) movedAll(v []value) []value {
	v = slices.Clone(v)
	for i := range v {
		v[i] = m.moved(v[i])
	}
	return v
}

// moveLow is VMOVQ, between the lower lane of an XMM register and memory or another register.
func moveLow(m *machine, in *instr) error {
	e, err := m.decode(in, 1)
	if err != nil || e.masked {
		return errOperands
	}
	src := e.src[0]
	var v value
	switch {
	case src.is(vector) && src.reg.size == 16:
		v = m.vector[src.reg.n][0]
	case src.is(vector):
		return errOperands
	default:
		if v, err = m.get(src); err != nil {
			return err
		}
	}
	v = m.moved(v)
	switch {
	case !e.dst.is(vector):
		if !src.is(vector) {
			return errOperands
		}
		return m.put(e.dst, v)
	case e.dst.reg.size != 16:
		return errOperands
	}
	return m.write(&e, []value{v, number(0)})
}

// moveHigh is VMOVHPS, between memory and the upper lane of an XMM register.
func moveHigh(m *machine, in *instr) error {
	if len(in.args) == 2 {
		if !in.args[0].is(vector) || in.args[0].reg.size != 16 {
			return errOperands
		}
		p, err := m.locate(in.args[1])
		if err != nil {
			return err
		}
		return m.store(p, m.moved(m.vector[in.args[0].reg.n][1]))
	}
	e, err := m.decode(in, 2)
	if err != nil || e.masked || !e.dst.is(vector) || e.lanes != 2 {
		return errOperands
	}
	low, err := m.vectorOf(e.src[1], 2)
	if err != nil {
		return err
	}
	high, err := m.broadcastOf(e.src[0], 1)
	if err != nil {
		return err
	}
	return m.write(&e, []value{m.moved(low[0]), m.moved(high[0])})
}

// insert is VINSERTI128 and its kin: parts of two lanes.
func insert(m *machine, in *instr) error {
	e, err := m.decode(in, 3)
	if err != nil {
		return err
	}
	if e.src[0].kind != opImmediate || e.lanes < 4 {
		return errOperands
	}
	part, err := m.vectorOf(e.src[1], 2)
	if err != nil {
		return err
	}
	base, err := m.vectorOf(e.src[2], e.lanes)
	if err != nil {
		return err
	}
	base = m.movedAll(base)
	at := int(e.src[0].imm) & (e.lanes/2 - 1) * 2
	copy(base[at:at+2], m.movedAll(part))
	return m.write(&e, base)
}

// extract is VEXTRACTI32X4 and its kin, to a register.
func extract(m *machine, in *instr) error {
	e, err := m.decode(in, 2)
	if err != nil || e.masked {
		return errOperands
	}
	src := e.src[1]
	if e.src[0].kind != opImmediate || !src.is(vector) || !e.dst.is(vector) || e.lanes != 2 || src.reg.size < 32 {
		return errOperands
	}
	at := int(e.src[0].imm) & (src.reg.size/16 - 1) * 2
	return m.write(&e, m.movedAll(m.vector[src.reg.n][at:at+2]))
}

// broadcast is VPBROADCASTQ, from memory or from the lower lane of an XMM register.
func broadcast(m *machine, in *instr) error {
	e, err := m.decode(in, 1)
	if err != nil {
		return err
	}
	if !e.dst.is(vector) {
		return errOperands
	}
	var v []value
	if src := e.src[0]; src.is(vector) {
		low, err := m.vectorOf(src, 2)
		if err != nil {
			return err
		}
		v = slices.Repeat(low[:1], e.lanes)
	} else if v, err = m.broadcastOf(src, e.lanes); err != nil {
		return err
	}
	return m.write(&e, m.movedAll(v))
}

// moveMask is KMOVW, from a general register.
func moveMask(m *machine, in *instr) error {
	if len(in.args) != 2 || !in.args[0].is(general) || !in.args[1].is(maskReg) {
		return errOperands
	}
	v := *m.generalRef(in.args[0].reg)
	v, err := m.combine(func(f []form) (form, bool) { return f[0].mask(0xFFFF), true }, v)
	m.mask[in.args[1].reg.n] = v
	return err
}

// clearUppers is VZEROUPPER: all but the lower 128 bits of the first 16 registers.
func clearUppers(m *machine, in *instr) error {
	if len(in.args) != 0 {
		return errOperands
	}
	for i := range 16 {
		for j := 2; j < maxLanes; j++ {
			m.vector[i][j] = number(0)
		}
	}
	m.dirty = false
	return nil
}

func amd64Moves() map[string]model {
	all := map[string]model{
		"VMOVDQU":       moveVector(false, false),
		"VMOVDQA":       moveVector(true, false),
		"VMOVQ":         moveLow,
		"VMOVHPS":       moveHigh,
		"VINSERTI128":   insert,
		"VEXTRACTI32X4": extract,
		"VEXTRACTI128":  extract,
		"VPBROADCASTQ":  broadcast,
		"KMOVW":         moveMask,
		"VZEROUPPER":    clearUppers,
	}
	maps.Copy(all, map[string]model{
		"VMOVDQU64":   moveVector(false, true),
		"VMOVDQU64.Z": moveVector(false, true),
		"VMOVDQA64":   moveVector(true, true),
		"VMOVDQA64.Z": moveVector(true, true),
	})
	return all
}
