package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// amd64Function executes one instruction between loading and storing all registers. BP has the
// context.
func amd64Function(n int, in string, wide bool, tables []string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "\t"+format+"\n", args...) }
	fmt.Fprintf(&b, "TEXT ·f%d(SB), NOSPLIT, $%d-32\n", n, frameWords*laneBytes)
	at := func(word int) string { return fmt.Sprintf("%d(BP)", laneBytes*word) }
	line("MOVQ c+0(FP), BP")
	line("MOVQ BP, %s", at(ctxSelf))
	line("LEAQ 0(SP), AX")
	line("MOVQ AX, %s", at(ctxStack))
	for i, name := range tables {
		line("LEAQ %s<>(SB), AX", name)
		line("MOVQ AX, %s", at(ctxTables+i))
	}
	for i := range frameWords {
		line("MOVQ %s, AX", at(ctxFrame+i))
		line("MOVQ AX, %d(SP)", laneBytes*i)
	}
	registers := func(f func(i int, name string)) {
		for i, name := range amd64Names {
			if name != "_" && i != amd64BP {
				f(i, name)
			}
		}
	}
	registers(func(i int, _ string) {
		line("MOVQ %s, AX", at(ctxInBytes+i))
		line("ANDQ BP, AX")
		line("ADDQ AX, %s", at(ctxGeneral+i))
		line("MOVQ %s, AX", at(ctxInFrame+i))
		line("ANDQ %s, AX", at(ctxStack))
		line("ADDQ AX, %s", at(ctxGeneral+i))
	})
	vectorMove, vectorName, count := "VMOVDQU", "Y", 16
	if wide {
		vectorMove, vectorName, count = "VMOVDQU64", "Z", vectors
		for i := range masks {
			line("KMOVW %s, K%d", at(ctxMask+i), i)
		}
	}
	for i := range count {
		line("%s %s, %s%d", vectorMove, at(ctxVector+maxLanes*i), vectorName, i)
	}
	line("MOVQ %s, AX", at(ctxFlags))
	line("PUSHQ AX")
	line("POPFQ")
	registers(func(i int, name string) { line("MOVQ %s, %s", at(ctxGeneral+i), name) })
	line("%s", in)
	if strings.Contains(in, "taken") {
		line("JMP join")
		b.WriteString("taken:\n")
		line("MOVQ $1, %s", at(ctxJumped))
		b.WriteString("join:\n")
	}
	registers(func(i int, name string) { line("MOVQ %s, %s", name, at(ctxGeneral+i)) })
	line("PUSHFQ")
	line("POPQ AX")
	line("MOVQ AX, %s", at(ctxFlags))
	for i := range count {
		line("%s %s%d, %s", vectorMove, vectorName, i, at(ctxVector+maxLanes*i))
	}
	if wide {
		for i := range masks {
			line("KMOVW K%d, %s", i, at(ctxMask+i))
		}
	}
	for i := 1; i < 4; i++ {
		line("MOVQ a%d+%d(FP), AX", i, laneBytes*i)
		line("MOVQ AX, %s", at(ctxArgs+i))
	}
	for i := range frameWords {
		line("MOVQ %d(SP), AX", laneBytes*i)
		line("MOVQ AX, %s", at(ctxFrame+i))
	}
	line("VZEROUPPER")
	line("RET")
	b.WriteString("\n")
	return b.String()
}

// amd64Extras are instructions that only mutants have, and operands that no kernel has.
const amd64Extras = `
	SUBQ AX, BX
	SUBQ $8, BX
	ORQ AX, BX
	INCQ AX
	NOTQ AX
	ADDQ AX, BX
	ADDQ 8(SP), BX
	ANDQ AX, BX
	ANDQ $-32, BX
	CMPQ AX, $3
	CMPQ AX, $-3
	TESTQ AX, BX
	MOVL BX, AX
	XORL AX, BX
	LEAQ 8(AX)(BX*8), CX
	VPAND Y1, Y2, Y3
	VPRORQ $3, Y1, Y2
	VPRORQ $3, Z1, Z2
	VPRORVQ Y1, Y2, Y3
	VPANDQ Y1, Y2, Y3
	VPORQ Y1, Y2, Y3
	VPANDNQ Y1, Y2, Y3
	VPANDQ.BCST 8(AX), Y2, Y3
	VPORQ.BCST 8(AX), Y2, Y3
	VPANDNQ.BCST 8(AX), Y2, Y3
	VPTERNLOGQ.BCST $0x96, 8(AX), Y2, Y3
	VPTERNLOGQ $0x1B, Y1, Y2, Y3
	VPTERNLOGQ $0xE4, Z1, Z2, K1, Z3
	VPXORQ Z1, Z2, K1, Z3
	VPERMT2Q Y1, Y2, Y3
	VPERMT2Q Z1, Z2, K2, Z3
	VPERMI2Q Z1, Z2, K2, Z3
	VPERMQ $0x1B, Y1, Y2
	VPERMQ Z1, Z2, K2, Z3
	VPBROADCASTQ X1, Y2
	VPSHUFD $0x1B, Y1, Y2
	VPSHUFD $0x1B, X1, X2
	VPSHUFB Y1, Y2, Y3
	VMOVDQA Y1, Y2
	VMOVDQA 64(AX), Y2
	VMOVDQA64.Z Z1, K1, Z2
	VMOVDQU64 Z1, K1, Z2
	VMOVDQU64 8(AX), K1, Z2
	VMOVDQU64 Z1, K1, 8(AX)
	VMOVQ X1, X2
	VMOVQ AX, X2
	VMOVQ X1, AX
	VEXTRACTI128 $1, Y1, X2
	VEXTRACTI128 $0, Y1, X2
	VINSERTI128 $0, X1, Y2, Y3
	VPADDQ Y1, Y2, Y3
	VPSLLQ $64, Y1, Y2
	VPSRLQ $64, Y1, Y2
`

func init() {
	// Every jump and every conditional move.
	for name := range jumpNames {
		amd64Jumping += "\t" + name + " label\n"
	}
	for name := range conditions {
		amd64Jumping += "\tCMOVQ" + name + " AX, BX\n"
	}
}

var amd64Jumping string

// TestModelsAMD64 compares the models of kernels_amd64.s with this processor.
func TestModelsAMD64(t *testing.T) {
	if runtime.GOARCH != "amd64" || runtime.GOOS != "linux" {
		t.Skip("NOT COMPARED: the models of amd64's instructions, for this is not linux/amd64")
	}
	a := amd64()
	f, err := parseFile(filepath.Join(kernelDir, "kernels_amd64.s"), filepath.Join(kernelDir, "kernels_amd64.go"), a)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, line := range strings.Split(string(info), "\n") {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "flags" {
			for _, flag := range strings.Fields(value) {
				has[strings.ToUpper(flag)] = true
			}
			break
		}
	}
	bit := func(t tri, n int) uint64 {
		if t == yes {
			return 1 << n
		}
		return 0
	}
	p := &processor{
		arch: a, goarch: "amd64", function: amd64Function, wide: has[feat512F],
		readFlags: func(w uint64) flags {
			return flags{triOf(w>>6&1 != 0), triOf(w>>7&1 != 0), triOf(w>>11&1 != 0), triOf(w&1 != 0)}
		},
		writeFlags: func(f flags) uint64 {
			return bit(f.zero, 6) | bit(f.sign, 7) | bit(f.overflow, 11) | bit(f.borrow, 0) | 1<<1 | 1<<9
		},
		lacks: func(in *instr) string {
			for _, feature := range a.features(in) {
				if !has[feature] {
					return feature
				}
			}
			return ""
		},
	}
	for i, name := range amd64Names {
		if name != "_" && i != amd64BP {
			p.generals = append(p.generals, i)
		}
	}
	if !has[featAVX] {
		t.Skip("NOT COMPARED: the models of amd64's instructions, for this machine has no AVX to store vector registers with")
	}
	p.compareModels(t, withExtras(t, f, amd64Extras+amd64Jumping))
}
