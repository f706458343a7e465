package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// arm64Generals are the general registers that instructions may use in trials.
func arm64Generals() (all []int) {
	for i := range arm64G {
		if i != arm64Platform {
			all = append(all, i)
		}
	}
	return append(all, arm64Link)
}

// arm64Function executes one instruction between loading and storing all registers. The frame
// has the words that the instruction may use at its end, and before them a few of our own.
func arm64Function(n int, in string, _ bool, tables []string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "\t"+format+"\n", args...) }
	const (
		own   = 4
		frame = (frameWords + own) * laneBytes
	)
	local := func(word int) string { return fmt.Sprintf("x-%d(SP)", (frameWords-word)*laneBytes) }
	link, context, scratch := local(-1), local(-2), local(-3)
	at := func(word int) string { return fmt.Sprintf("%d(R0)", laneBytes*word) }
	fmt.Fprintf(&b, "TEXT ·f%d(SB), NOSPLIT, $%d-32\n", n, frame)
	line("MOVD R30, %s", link)
	line("MOVD c+0(FP), R0")
	line("MOVD R0, %s", context)
	line("MOVD R0, %s", at(ctxSelf))
	line("MOVD $%s, R3", local(0))
	line("MOVD R3, %s", at(ctxStack))
	for i, name := range tables {
		line("MOVD $%s<>(SB), R1", name)
		line("MOVD R1, %s", at(ctxTables+i))
	}
	for i := range frameWords {
		line("MOVD %s, R1", at(ctxFrame+i))
		line("MOVD R1, %s", local(i))
	}
	for _, i := range arm64Generals() {
		line("MOVD %s, R2", at(ctxGeneral+i))
		line("MOVD %s, R1", at(ctxInBytes+i))
		line("AND R0, R1, R1")
		line("ADD R1, R2, R2")
		line("MOVD %s, R1", at(ctxInFrame+i))
		line("AND R3, R1, R1")
		line("ADD R1, R2, R2")
		line("MOVD R2, %s", at(ctxGeneral+i))
	}
	for i := range vectors {
		line("FMOVQ %s, F%d", at(ctxVector+maxLanes*i), i)
	}
	line("MOVD %s, R1", at(ctxFlags))
	line("MSR R1, NZCV")
	for _, i := range arm64Generals() {
		if i != 0 {
			line("MOVD %s, R%d", at(ctxGeneral+i), i)
		}
	}
	line("MOVD %s, R0", at(ctxGeneral))
	line("%s", in)
	line("MOVD R0, %s", scratch)
	line("MOVD %s, R0", context)
	if strings.Contains(in, "taken") {
		line("B join")
		b.WriteString("taken:\n")
		line("MOVD R0, %s", scratch)
		line("MOVD %s, R0", context)
		line("MOVD R1, %s", at(ctxGeneral+1))
		line("MOVD $1, R1")
		line("MOVD R1, %s", at(ctxJumped))
		line("MOVD %s, R1", at(ctxGeneral+1))
		b.WriteString("join:\n")
	}
	for _, i := range arm64Generals() {
		if i != 0 {
			line("MOVD R%d, %s", i, at(ctxGeneral+i))
		}
	}
	line("MOVD %s, R1", scratch)
	line("MOVD R1, %s", at(ctxGeneral))
	line("MRS NZCV, R1")
	line("MOVD R1, %s", at(ctxFlags))
	for i := range vectors {
		line("FMOVQ F%d, %s", i, at(ctxVector+maxLanes*i))
	}
	for i := range frameWords {
		line("MOVD %s, R1", local(i))
		line("MOVD R1, %s", at(ctxFrame+i))
	}
	for i := 1; i < 4; i++ {
		line("MOVD a%d+%d(FP), R1", i, laneBytes*i)
		line("MOVD R1, %s", at(ctxArgs+i))
	}
	line("MOVD %s, R30", link)
	line("RET")
	b.WriteString("\n")
	return b.String()
}

// arm64Extras are instructions that only mutants have, and operands that no kernel has.
var arm64Extras = `
	ORR R1, R2, R3
	ORR R1<<3, R2, R3
	AND R1>>60, R2, R3
	EON R1, R2, R3
	SUB $3, R1, R2
	SUB R1, R2, R3
	SUBS R1, R2, R3
	ADD R1, R2, R3
	ROR $7, R1, R2
	VORR V1.B16, V2.B16, V3.B16
	VAND V1.B16, V2.B16, V3.B16
	VLD1.P 8(R1), V2.D[0]
	VST1.P V2.D[0], 8(R1)
`

// TestModelsARM64 compares the models of kernels_arm64.s with this processor, or with qemu's.
func TestModelsARM64(t *testing.T) {
	p := &processor{
		arch: arm64(), goarch: "arm64", function: arm64Function, wide: true, generals: arm64Generals(),
		readFlags: func(w uint64) flags {
			return flags{triOf(w>>30&1 != 0), triOf(w>>31&1 != 0), triOf(w>>28&1 != 0), triOf(w>>29&1 == 0)}
		},
		writeFlags: func(f flags) uint64 {
			bit := func(t tri, n int) uint64 {
				if t == yes {
					return 1 << n
				}
				return 0
			}
			return bit(f.zero, 30) | bit(f.sign, 31) | bit(f.overflow, 28) | bit(f.borrow.not(), 29)
		},
		lacks: func(in *instr) string { return "" },
	}
	if runtime.GOARCH == "arm64" && runtime.GOOS == "linux" {
		info, err := os.ReadFile("/proc/cpuinfo")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(info), " sha3") {
			p.lacks = func(in *instr) string { return strings.Join(arm64Features(in), "") }
		}
	} else if qemu, err := exec.LookPath("qemu-aarch64-static"); err == nil {
		p.run = []string{qemu, "-cpu", "max"}
	} else {
		t.Skip("NOT COMPARED: the models of arm64's instructions, for this is not linux/arm64, and there is no qemu-aarch64-static")
	}
	f, err := parseFile(filepath.Join(kernelDir, "kernels_arm64.s"), filepath.Join(kernelDir, "kernels_arm64.go"), p.arch)
	if err != nil {
		t.Fatal(err)
	}
	extras := arm64Extras
	for name := range arm64Branches {
		extras += "\t" + name + " label\n"
	}
	p.compareModels(t, withExtras(t, f, extras))
}
