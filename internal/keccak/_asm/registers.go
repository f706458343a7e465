package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var (
	xmms = registers(reg.S128)
	ymms = registers(reg.S256)
	zmms = registers(reg.S512)
)

// registers lists the 32 vector registers of one width.
func registers(width reg.Spec) []reg.Register {
	all := make([]reg.Register, 32)
	for i := range all {
		all[i] = reg.Vector.Lookup(reg.Index(i), width)
	}
	return all
}

// loadPointers loads the first of the pointers at the parameter p.
func loadPointers(dst []reg.Register, via reg.Register) {
	p := Load(Param("p"), via)
	for i, r := range dst {
		MOVQ(Mem{Base: p, Disp: 8 * i}, r)
	}
}

// setMask sets a mask register, by way of EAX.
func setMask(bits int, k reg.Register) {
	MOVL(U32(bits), reg.EAX)
	KMOVW(reg.EAX, k)
}

// storeHalf stores the lower or the upper eight bytes of an XMM register.
func storeHalf(upper bool, r reg.Register, m Mem) {
	if upper {
		VMOVHPS(r, m)
	} else {
		VMOVQ(r, m)
	}
}
