package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The tests of this file compare the models of instructions with the processor. For each form
// of instruction in the assembly files they make a function that sets all registers, executes
// the instruction, and stores all registers. A program calls these functions with random
// contents.

// A context is what such a function is given and gives back, in words.
const (
	ctxGeneral = 0
	ctxInBytes = ctxGeneral + generals // all ones if the register is an address in the context
	ctxInFrame = ctxInBytes + generals // all ones if it is one in the stack frame
	ctxVector  = ctxInFrame + generals
	ctxMask    = ctxVector + vectors*maxLanes
	ctxFlags   = ctxMask + masks
	ctxJumped  = ctxFlags + 1
	ctxStack   = ctxJumped + 1 // address of the frame
	ctxSelf    = ctxStack + 1  // address of the context
	ctxTables  = ctxSelf + 1   // addresses of tables
	ctxArgs    = ctxTables + 16
	ctxFrame   = ctxArgs + 4 // contents of the frame
	frameWords = 64
	ctxBytes   = (ctxFrame + frameWords + 7) &^ 7 // memory, at a multiple of 64 bytes
	memWords   = 512
	ctxWords   = ctxBytes + memWords
)

type context [ctxWords]uint64

// A processor is what instructions are compared with.
type processor struct {
	arch   *arch
	goarch string
	run    []string // what runs a program for it
	// function is the text of a function that executes an instruction.
	function func(n int, in string, wide bool, tables []string) string
	// readFlags takes the flags apart.
	readFlags  func(word uint64) flags
	writeFlags func(f flags) uint64
	// lacks says which feature of an instruction the processor has not.
	lacks func(in *instr) string
	wide  bool // it has all lanes of vector registers
	// registers that instructions may use
	generals []int
}

// A shape is one form of an instruction: what it is but for the numbers of registers, offsets
// and labels.
type shape struct {
	key    string
	in     instr
	k      *kernel
	name   string // of the function
	passed int
}

// shapesOf lists the forms of all instructions of a file, each by an example.
func shapesOf(f *file) (all []*shape) {
	seen := map[string]bool{}
	for _, k := range f.kernels {
		for _, in := range k.code {
			if in.op == "RET" {
				continue
			}
			key := in.op
			var registers []reg
			var describe func(o operand)
			describe = func(o operand) {
				key += fmt.Sprintf(" %d%s%s", o.kind, o.shift, o.lanes)
				if o.shift != "" {
					key += fmt.Sprint(o.imm % 8)
				}
				if o.kind == opImmediate && in.op != "MOVQ" && in.op != "MOVL" && in.op != "MOVD" {
					key += fmt.Sprint("$", o.imm)
				}
				if o.kind == opRegister || o.kind == opMemory {
					key += fmt.Sprint(o.reg.class, o.reg.size, o.scale)
					// Registers that are the same, and those that are encoded in other ways.
					key += fmt.Sprint("=", slices.Index(registers, reg{o.reg.class, o.reg.n, 0}), o.reg.n >= 16)
					registers = append(registers, reg{o.reg.class, o.reg.n, 0})
				}
				for _, part := range o.list {
					describe(part)
				}
			}
			for _, o := range in.args {
				describe(o)
			}
			if !seen[key] {
				seen[key] = true
				all = append(all, &shape{key: key, in: in, k: k, name: fmt.Sprint("f", len(all))})
			}
		}
	}
	return all
}

// build makes the program.
func (p *processor) build(t *testing.T, f *file, shapes []*shape) string {
	t.Helper()
	dir := t.TempDir()
	tables := sortedTables(f)
	var s, g strings.Builder
	s.WriteString("#include \"textflag.h\"\n\n")
	for _, name := range tables {
		for i, w := range f.tables[name].words {
			fmt.Fprintf(&s, "DATA %s<>+%d(SB)/8, $%#016x\n", name, laneBytes*i, w)
		}
		fmt.Fprintf(&s, "GLOBL %s<>(SB), RODATA|NOPTR, $%d\n\n", name, laneBytes*len(f.tables[name].words))
	}
	fmt.Fprintf(&g, `package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"os"
	"unsafe"
)

type context [%d]uint64

var raw [2]context

func main() {
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	defer out.Flush()
	c := (*context)(unsafe.Pointer((uintptr(unsafe.Pointer(&raw)) + 63) &^ 63))
	for {
		var n uint64
		if err := binary.Read(in, binary.LittleEndian, &n); err == io.EOF {
			return
		}
		if err := binary.Read(in, binary.LittleEndian, c[:]); err != nil {
			panic(err)
		}
		functions[n](c, c[%d], c[%d], c[%d])
		if err := binary.Write(out, binary.LittleEndian, c[:]); err != nil {
			panic(err)
		}
	}
}

var functions = []func(c *context, a1, a2, a3 uint64){
`, ctxWords, ctxArgs+1, ctxArgs+2, ctxArgs+3)
	for i := range shapes {
		fmt.Fprintf(&g, "\tf%d,\n", i)
	}
	g.WriteString("}\n")
	for i, sh := range shapes {
		fmt.Fprintf(&g, "\n//go:noescape\nfunc f%d(c *context, a1, a2, a3 uint64)\n", i)
		text := sh.in.String()
		for _, o := range sh.in.args {
			if o.kind == opLabel {
				text = strings.ReplaceAll(text, o.text, "taken")
			}
		}
		s.WriteString(p.function(i, text, p.wide, tables))
	}
	for name, text := range map[string]string{
		"go.mod": "module models\n\ngo 1.26\n", "main.go": g.String(), "models_" + p.goarch + ".s": s.String(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "models")
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOARCH="+p.goarch, "CGO_ENABLED=0", "GOFLAGS=-mod=mod")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// withExtras adds instructions to a file that its kernels do not have, but that there are
// models of.
func withExtras(t *testing.T, f *file, lines string) *file {
	t.Helper()
	extra, err := parseSource("extra.s", "TEXT ·extra(SB), NOSPLIT, $0-0\nlabel:\n"+lines, f.arch)
	if err != nil {
		t.Fatal(err)
	}
	extra.kernels[0].file = f
	f.kernels = append(f.kernels, extra.kernels...)
	return f
}

// compareModels compares all instructions of a file with a processor.
func (p *processor) compareModels(t *testing.T, f *file) {
	var shapes []*shape
	missing := map[string]map[string]int{} // forms by feature and instruction
	all := shapesOf(f)
	for _, name := range slices.Sorted(maps.Keys(f.arch.models)) {
		if name != "RET" && !slices.ContainsFunc(all, func(sh *shape) bool { return sh.in.op == name }) {
			t.Errorf("%s has a model, but is not compared", name)
		}
	}
	for _, sh := range all {
		if feature := p.lacks(&sh.in); feature != "" {
			if missing[feature] == nil {
				missing[feature] = map[string]int{}
			}
			missing[feature][sh.in.op]++
			continue
		}
		sh.name = fmt.Sprint("f", len(shapes))
		shapes = append(shapes, sh)
	}
	program := p.build(t, f, shapes)
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	var trials []*trial
	for _, sh := range shapes {
		n := max(1, len(sh.in.args))
		for range 25 {
			fill := make([]filling, n)
			for i := range fill {
				fill[i] = filling(r.IntN(int(fillKinds)))
			}
			if tr := p.newTrial(r, sh, fill); tr.err == nil {
				trials = append(trials, tr)
				sh.passed++
			}
		}
		if sh.passed == 0 {
			t.Errorf("%s: no trial is possible", &sh.in)
		}
	}
	p.compare(t, program, trials)
	t.Logf("%s: %d forms of instructions compared with the processor, %d trials", f.path, len(shapes), len(trials))
	for _, feature := range slices.Sorted(maps.Keys(missing)) {
		var list []string
		for _, op := range slices.Sorted(maps.Keys(missing[feature])) {
			list = append(list, fmt.Sprintf("%s (%d)", op, missing[feature][op]))
		}
		t.Logf("NOT COMPARED with a processor, for this machine has no %s: the models of %s (forms)", feature, strings.Join(list, ", "))
	}
	if len(missing) > 0 {
		t.Skip("some instructions were not compared: see above")
	}
}
