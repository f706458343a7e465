package main

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// amd64 is the instruction set of kernels_amd64.s. Operands are in the order of Go's assembler,
// which is Intel's from right to left.
func amd64() *arch {
	a := &arch{
		name:       "amd64",
		register:   amd64Register,
		models:     map[string]model{},
		start:      func(m *machine) {},
		clobbers:   func(r reg) bool { return r.n != amd64BP },
		atReturn:   amd64AtReturn,
		features:   amd64Features,
		stackAlign: 8,
		lanes:      8,
		flagEffect: amd64FlagEffect,

		registerNames: append([]string{"X%d", "Y%d", "Z%d", "K%d"}, amd64Names...),
	}
	maps.Copy(a.models, amd64General())
	maps.Copy(a.models, amd64Jumps())
	maps.Copy(a.models, amd64Moves())
	maps.Copy(a.models, amd64Vectors())
	return a
}

// General registers, in the order of their encoding. SP is not among them, and a kernel must
// not write BP.
var amd64Names = strings.Fields("AX CX DX BX _ BP SI DI R8 R9 R10 R11 R12 R13 R14 R15")

const amd64BP = 5

func amd64Register(name string) (reg, bool) {
	if name == "SP" {
		return reg{class: stackPointer}, true
	}
	for i, n := range amd64Names {
		if n == name && n != "_" {
			return reg{general, i, laneBytes}, true
		}
	}
	n, err := strconv.Atoi(strings.TrimLeft(name, "KXYZ"))
	if err != nil || len(name) < 2 || name[1] == '0' && len(name) > 2 {
		return reg{}, false
	}
	switch {
	case name[0] == 'K' && n < masks:
		return reg{maskReg, n, 2}, true
	case name[0] == 'X' && n < vectors:
		return reg{vector, n, 16}, true
	case name[0] == 'Y' && n < vectors:
		return reg{vector, n, 32}, true
	case name[0] == 'Z' && n < vectors:
		return reg{vector, n, 64}, true
	}
	return reg{}, false
}

func amd64AtReturn(m *machine) error {
	if m.dirty {
		return fmt.Errorf("returns without VZEROUPPER, with upper halves of vector registers in use")
	}
	return nil
}

func amd64FlagEffect(op string) flagEffect {
	switch op {
	case "XORQ", "XORL", "ORQ", "ANDQ", "ANDNQ", "ADDQ", "SUBQ", "CMPQ", "TESTQ":
		return setsFlags
	case "MOVQ", "MOVL", "LEAQ", "RORXQ", "NOTQ", "KMOVW", "RET":
		return leavesFlags
	}
	if op[0] == 'V' {
		return leavesFlags
	}
	return usesFlags
}

// Processor features. Where there is one, there are those that it lists.
const (
	featBMI1   = "BMI1"
	featBMI2   = "BMI2"
	featAVX    = "AVX"
	featAVX2   = "AVX2"
	feat512F   = "AVX512F"
	feat512VL  = "AVX512VL"
	featSHA3   = "SHA3"
	featUnseen = "a feature that the proof does not know"
)

var impliedFeatures = map[string][]string{
	featAVX2:  {featAVX},
	feat512F:  {featAVX, featAVX2},
	feat512VL: {feat512F},
}

// evexOnly are the vector instructions that are AVX-512's in any form.
var evexOnly = map[string]bool{
	"VPTERNLOGQ": true, "VPROLQ": true, "VPRORQ": true, "VPROLVQ": true, "VPRORVQ": true, "VPXORQ": true, "VPORQ": true,
	"VPANDQ": true, "VPANDNQ": true, "VMOVDQA64": true, "VMOVDQU64": true, "VPBLENDMQ": true, "VPERMI2Q": true,
	"VPERMT2Q": true, "VEXTRACTI32X4": true, "VINSERTI32X4": true, "VEXTRACTI64X4": true, "VINSERTI64X4": true,
}

// avx2From are those that need AVX2 only with 256 bits; the others of AVX2 and AVX do not
// depend on the width.
var avx2Only = map[string]bool{"VPERMQ": true, "VINSERTI128": true, "VEXTRACTI128": true, "VPBROADCASTQ": true}

// avxAnyWidth are those that AVX has with 256 bits, too.
var avxAnyWidth = map[string]bool{"VMOVDQU": true, "VMOVDQA": true, "VMOVDDUP": true}

// amd64Features gives what an instruction needs beyond x86-64.
func amd64Features(in *instr) []string {
	op, suffix, _ := strings.Cut(in.op, ".")
	switch {
	case op == "ANDNQ":
		return []string{featBMI1}
	case op == "RORXQ":
		return []string{featBMI2}
	case strings.HasPrefix(op, "KMOV"):
		return []string{feat512F}
	case op[0] != 'V':
		return nil
	}
	size, evex := 0, suffix != "" || evexOnly[op]
	for _, o := range in.args {
		switch {
		case o.is(maskReg):
			evex = true
		case o.is(vector):
			size = max(size, o.reg.size)
			evex = evex || o.reg.n >= 16 || o.reg.size == 64
		}
	}
	// VMOVQ, VMOVHPS and VMOVD move parts of XMM registers and are in AVX512F; what is for whole
	// registers of less than 512 bits is in VL.
	scalar := op == "VMOVQ" || op == "VMOVHPS" || op == "VMOVHPD" || op == "VMOVLPS"
	switch {
	case evex && size < 64 && !scalar:
		return []string{feat512F, feat512VL}
	case evex:
		return []string{feat512F}
	case avx2Only[op] || size == 32 && !avxAnyWidth[op]:
		return []string{featAVX2}
	}
	return []string{featAVX}
}
