package main

import (
	"strings"
	"testing"
)

// TestForbidden has a small kernel for each thing that no kernel may do.
func TestForbidden(t *testing.T) {
	const table = "DATA t<>+0(SB)/8, $0x0000000000000001\nGLOBL t<>(SB), RODATA|NOPTR, $8\n"
	for _, c := range []struct{ what, kernel, code, want string }{
		{"reads beyond a state", "permuteBMI2", "MOVQ a+0(FP), DI; MOVQ 200(DI), AX", "uses bytes 200 to 208 of a"},
		{"reads before a state", "permuteBMI2", "MOVQ a+0(FP), DI; MOVQ -8(DI), AX", "uses bytes -8 to 0 of a"},
		{"reads between lanes", "permuteBMI2", "MOVQ a+0(FP), DI; MOVQ 4(DI), AX", "between two lanes"},
		{"reads a block that need not be there", "permuteBMI2", "MOVQ p+8(FP), SI; MOVQ (SI), AX", "uses bytes 0 to 8 of p, which has 0"},
		{"reads the block after the next", "permuteBMI2", "MOVQ blocks+16(FP), AX; TESTQ AX, AX; JEQ permute; MOVQ p+8(FP), SI; MOVQ 136(SI), AX", "uses bytes 136 to 144 of p, which has 136"},
		{"reads beyond its frame", "permuteBMI2", "MOVQ 16(SP), AX", "uses bytes 16 to 24 of the stack frame"},
		{"writes beyond its frame", "permuteBMI2", "MOVQ AX, 16(SP)", "uses bytes 16 to 24 of the stack frame"},
		{"writes pointers", "permute4AVX2", "MOVQ p+8(FP), SI; MOVQ AX, (SI)", "writes to p"},
		{"writes a state that is to stay", "digestAVX512", "MOVQ a+8(FP), SI; MOVQ AX, (SI)", "writes to a"},
		{"writes a table", "permuteBMI2", "LEAQ t<>+0(SB), SI; MOVQ AX, (SI)", "writes to t"},
		{"uses a pointer that is none", "permute4AVX2", "MOVQ p+8(FP), SI; MOVQ 32(SI), AX; MOVQ (AX), BX", "depends on data, or is none"},
		{"uses another parameter", "permuteBMI2", "MOVQ a+8(FP), DI", "no parameter a+8(FP)"},
		{"a branch on data", "permuteBMI2", "MOVQ a+0(FP), DI; MOVQ (DI), AX; TESTQ AX, AX; JNZ permute", "may depend on data"},
		{"a move on data", "permuteBMI2", "MOVQ a+0(FP), DI; MOVQ (DI), AX; CMPQ AX, $1; CMOVQCS AX, BX", "may depend on data"},
		{"an address of data", "permuteBMI2", "MOVQ a+0(FP), DI; MOVQ (DI), AX; MOVQ (AX), BX", "depends on data"},
		{"an index of data", "permuteBMI2", "MOVQ a+0(FP), DI; MOVQ (DI), AX; MOVQ (DI)(AX*8), BX", "depends on data"},
		{"a rotation by data", "permuteAVX512", "MOVQ a+0(FP), DI; VMOVDQU64 (DI), Z0; VPROLVQ Z0, Z1, Z2", "depends on data"},
		{"an order by data", "permuteAVX512", "MOVQ a+0(FP), DI; VMOVDQU64 (DI), Z0; VPERMQ Z1, Z0, Z2", "depends on data"},
		{"a mask of data", "permuteAVX512", "MOVQ a+0(FP), DI; MOVQ (DI), AX; KMOVW AX, K1; VPXORQ Z0, Z1, K1, Z2", "depends on data"},
		{"flags from before", "permuteBMI2", "JNZ permute", "may depend on data"},
		{"writes the frame pointer", "permuteBMI2", "MOVQ $0, BP", "a register that Go keeps"},
		{"writes the stack pointer", "permuteBMI2", "ADDQ $8, SP", "a register that Go keeps"},
		{"an aligned load from anywhere", "permute4AVX2", "MOVQ states+0(FP), DI; VMOVDQA (DI), Y0", "need not be a multiple of 32"},
		{"upper halves at the end", "permute4AVX2", "VPXOR Y0, Y0, Y0; RET", "without VZEROUPPER"},
		{"AVX2 without asking", "permuteBMI2", "VPXOR Y0, Y0, Y0", "needs AVX2"},
		{"AVX-512 without asking", "permute4AVX2", "VPXORQ Y0, Y0, Y0", "needs AVX512F"},
		{"BMI2 without asking", "permuteScalar", "RORXQ $1, AX, BX", "needs BMI2"},
		{"returns too early", "permuteBMI2", "RET", "returns before all blocks are absorbed"},
		{"runs on", "permuteBMI2", "NOTQ AX", "runs over its end"},
		{"turns for ever", "digestAVX512", "permute: JMP permute", "nothing computes any lane"},
		{"does nothing", "permuteBMI2", "permute: JMP permute", "nothing computes any lane"},
		{"stores nothing", "digestAVX512", "RET", "nothing computes"},
	} {
		t.Run(c.what, func(t *testing.T) {
			code := strings.ReplaceAll(c.code, "; ", "\n")
			code = strings.ReplaceAll(code, "permute: ", "permute:\n")
			if !strings.Contains(code, "permute:") {
				code += "\npermute:\n"
			}
			if err := proveSource(t, amd64(), table, c.kernel, code); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	for _, c := range []struct{ what, kernel, code, want string }{
		{"writes g", "permuteScalar", "MOVD $0, R28", "a register that Go keeps"},
		{"writes the platform's register", "permuteScalar", "MOVD $0, R18", "a register that Go keeps"},
		{"loses the return address", "readMIDR", "MOVD $0, R30\nRET", "returns to 0x0"},
		{"SHA3 without asking", "permuteScalar", "VEOR3 V0.B16, V1.B16, V2.B16, V3.B16", "needs SHA3"},
		{"reads beyond a state", "permuteSHA3", "MOVD a+0(FP), R0\nFMOVQ 192(R0), F0", "uses bytes 192 to 208 of a"},
		{"a local beyond the frame", "permuteScalar", "MOVD R0, x-24(SP)", "uses bytes -8 to 0 of the stack frame"},
		{"a branch on data", "permuteScalar", "MOVD a+0(FP), R0\nMOVD (R0), R1\nSUBS $1, R1, R1\nBNE permute", "may depend on data"},
		{"another constant than one instruction has", "permuteScalar", "ADD $4096, R0, R0", "operands are not known"},
	} {
		t.Run("arm64 "+c.what, func(t *testing.T) {
			if err := proveSource(t, arm64(), table, c.kernel, c.code+"\npermute:\n"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// proveSource proves a kernel of the given name, with a frame of 16 bytes.
func proveSource(t *testing.T, a *arch, table, name, code string) error {
	t.Helper()
	f, err := parseSource("test.s", table+"TEXT ·"+name+"(SB), NOSPLIT, $16-0\n"+code, a)
	if err != nil {
		t.Fatal(err)
	}
	k := f.kernels[0]
	for i, p := range strings.Split(contracts[name].params, ", ") {
		field, typ, _ := strings.Cut(p, " ")
		k.params = append(k.params, param{field, typ, int64(laneBytes * i)})
	}
	k.args = int64(laneBytes * len(k.params))
	return prove(k)
}

// TestNotUnderstood has lines that the parser must refuse rather than pass over.
func TestNotUnderstood(t *testing.T) {
	const text = "TEXT ·permuteBMI2(SB), NOSPLIT, $0-24\n"
	for _, c := range []struct{ source, want string }{
		{"BYTE $0x90", "not understood"},
		{text + "BYTE $0x90", "no model of BYTE"},
		{text + "VPXOR Y0, Y1, Y99", "no label Y99"},
		{text + "JMP nowhere", "no label nowhere"},
		{text + "here:\nhere:\n", "second label"},
		{text + "MOVQ (AX)(BX*3), CX", "not understood"},
		{text + "MOVQ (AB), CX", "no register AB"},
		{"DATA t<>+0(SB)/8, $0x0000000000000001\nDATA t<>+0(SB)/8, $0x0000000000000001\n", "second definition"},
		{"DATA t<>+8(SB)/8, $0x0000000000000001\n", "nothing is said of t+0"},
		{"DATA t<>+0(SB)/8, $0x0000000000000001\nGLOBL t<>(SB), RODATA|NOPTR, $16\n", "not the size"},
		{"GLOBL t<>(SB), NOPTR, $8\n", "not understood"},
		{"#define X\n", "not understood"},
	} {
		if _, err := parseSource("test.s", c.source, amd64()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.source, err, c.want)
		}
	}
}
