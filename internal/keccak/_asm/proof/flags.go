package main

import "math/bits"

// A tri is a bit that may be unknown.
type tri byte

const (
	unset tri = iota // unknown
	no
	yes
)

func triOf(b bool) tri {
	if b {
		return yes
	}
	return no
}

func (t tri) not() tri {
	switch t {
	case no:
		return yes
	case yes:
		return no
	}
	return unset
}

func (t tri) or(u tri) tri {
	switch {
	case t == yes || u == yes:
		return yes
	case t == no && u == no:
		return no
	}
	return unset
}

func (t tri) xor(u tri) tri {
	switch {
	case t == unset || u == unset:
		return unset
	}
	return triOf(t != u)
}

// The flags of the last instruction that set any. borrow is x86's carry flag.
type flags struct{ zero, sign, overflow, borrow tri }

func (f flags) less() tri { return f.sign.xor(f.overflow) }

// bounds gives the smallest and the largest v can be, as a signed number that is far from overflow.
func (m *machine) bounds(v value) (low, high int64, ok bool) {
	const far = 1 << 60
	switch {
	case v.kind == count:
		return m.low + v.offset, m.high + v.offset, true
	case v.known() && (v.c < far || -v.c < far):
		return int64(v.c), int64(v.c), true
	}
	return 0, 0, false
}

// compare gives the flags of a - b.
func (m *machine) compare(a, b value) (f flags) {
	if a.kind == address && b.kind == address && a.region == b.region {
		a, b = number(uint64(a.offset)), number(uint64(b.offset))
		if int64(a.c) < 0 || int64(b.c) < 0 {
			return f
		}
	}
	if a.known() && b.known() {
		d, borrow := bits.Sub64(a.c, b.c, 0)
		return flags{triOf(d == 0), triOf(int64(d) < 0), triOf(int64((a.c^b.c)&(a.c^d)) < 0), triOf(borrow != 0)}
	}
	aLow, aHigh, aOK := m.bounds(a)
	bLow, bHigh, bOK := m.bounds(b)
	if !aOK || !bOK {
		return f
	}
	low, high := aLow-bHigh, aHigh-bLow // of the difference
	f.overflow = no
	if low > 0 || high < 0 {
		f.zero = no
	} else if low == high {
		f.zero = yes
	}
	if low >= 0 {
		f.sign = no
	} else if high < 0 {
		f.sign = yes
	}
	if aLow >= 0 && bLow >= 0 {
		f.borrow = f.sign // no wrap: as unsigned numbers
	}
	return f
}

// logic gives the flags of a bitwise operation's result.
func (m *machine) logic(v value) flags {
	f := m.compare(v, number(0))
	f.overflow, f.borrow = no, no
	return f
}

// A flagEffect is what an instruction does with flags.
type flagEffect int

const (
	leavesFlags flagEffect = iota
	setsFlags              // all of them, and uses none
	usesFlags              // or sets only some
)
