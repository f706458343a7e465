package main

import "fmt"

// A region is memory that a kernel may use: an argument, what an argument points to, the
// stack frame, a table. Different regions do not overlap, unless both are only read.
type region struct {
	name     string
	cells    []value // 64 bits each
	writable bool
	table    *table // or nil
	read     []bool // if not nil: which words of it have been read
	data     bool   // blocks to absorb
	based    bool   // its address modulo 64 is known,
	base     int64  // and is this
}

func newRegion(name string, size int64) *region {
	return &region{name: name, cells: make([]value, size/laneBytes)}
}

// place is where a memory operand is.
type place struct {
	region *region
	offset int64
	from   []value // what the address was made from
}

// locate gives the place of a memory operand.
func (m *machine) locate(o operand) (place, error) {
	switch o.kind {
	case opStatic, opAddress:
		t := m.regions[o.sym]
		if t == nil || t.table == nil {
			return place{}, fmt.Errorf("no table %s", o.sym)
		}
		return place{region: t, offset: o.disp}, nil
	case opParam:
		for _, p := range m.k.params {
			if p.name == o.sym && p.offset == o.disp {
				return place{region: m.regions[argumentsName], offset: o.disp}, nil
			}
		}
		return place{}, fmt.Errorf("no parameter %s", o.text)
	case opLocal:
		return place{region: m.regions[frameName], offset: m.k.frame + o.disp}, nil
	case opMemory:
	default:
		return place{}, fmt.Errorf("%s is not in memory", o.text)
	}
	base := *m.generalRef(o.reg)
	if base.kind != address {
		return place{}, fmt.Errorf("the address %s depends on data, or is none", o.text)
	}
	p := place{base.region, base.offset + o.disp, []value{base}}
	if o.scale != 0 {
		index := *m.generalRef(o.index)
		n, err := public(index)
		if err != nil {
			return p, fmt.Errorf("the index of %s %w", o.text, err)
		}
		if n > 1<<16 {
			return p, fmt.Errorf("the index of %s is %#x", o.text, n)
		}
		p.offset += int64(n) * o.scale
		p.from = append(p.from, index)
	}
	return p, nil
}

func (p place) plus(n int64) place {
	p.offset += n
	return p
}

// check refuses what is not within a region, lanes 64-bit words at p.
func (p place) check(lanes int, write bool) error {
	size := int64(laneBytes * len(p.region.cells))
	switch end := p.offset + int64(laneBytes*lanes); {
	case p.offset < 0 || end > size:
		return fmt.Errorf("uses bytes %d to %d of %s, which has %d", p.offset, end, p.region.name, size)
	case p.offset%laneBytes != 0:
		return fmt.Errorf("uses %s at %d, which is between two lanes", p.region.name, p.offset)
	case write && !p.region.writable:
		return fmt.Errorf("writes to %s", p.region.name)
	}
	return nil
}

// load gives lanes words at p.
func (m *machine) load(p place, lanes int) ([]value, error) {
	if err := p.check(lanes, false); err != nil {
		return nil, err
	}
	at := p.offset / laneBytes
	loaded := make([]value, lanes)
	copy(loaded, p.region.cells[at:])
	if r := p.region.read; r != nil {
		for i := range lanes {
			r[at+int64(i)] = true
		}
	}
	if m.trace != nil {
		for i := range loaded {
			loaded[i].cone = m.cone(append([]value{loaded[i]}, p.from...))
			if p.region.table != nil {
				loaded[i].cone = loaded[i].cone.with(p.region.table.lines[at+int64(i)])
			}
		}
	}
	return loaded, nil
}

func (m *machine) store(p place, words ...value) error {
	if err := p.check(len(words), true); err != nil {
		return err
	}
	at := p.offset / laneBytes
	copy(p.region.cells[at:], words)
	if m.trace != nil {
		for i := range words {
			cell := &p.region.cells[at+int64(i)]
			cell.cone = m.cone(append([]value{*cell}, p.from...))
			m.trace.stored(m, place{region: p.region, offset: p.offset + int64(laneBytes*i)}, *cell)
		}
	}
	return nil
}

// generalRef is a general register, or the stack pointer.
func (m *machine) generalRef(r reg) *value {
	if r.class == stackPointer {
		return &m.stack
	}
	return &m.general[r.n]
}

// setGeneral writes a register that kernels may write.
func (m *machine) setGeneral(r reg, v value) error {
	if r.class != general || !m.k.file.arch.clobbers(r) {
		return fmt.Errorf("writes a register that Go keeps")
	}
	m.general[r.n] = v
	return nil
}
