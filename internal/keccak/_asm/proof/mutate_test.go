package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// testSeed is what samples are drawn with: PROOF_SEED of the environment, or 1, so that a test that
// passed passes again.
func testSeed(t *testing.T) uint64 {
	text := os.Getenv("PROOF_SEED")
	if text == "" {
		return 1
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

// TestMutants tries a random sample of all changes to single instructions.
func TestMutants(t *testing.T) {
	files, err := parseFiles(kernelDir)
	if err != nil {
		t.Fatal(err)
	}
	seed := testSeed(t)
	t.Logf("again: go run ./proof -mutate -sample 50 -seed %d", seed)
	var report strings.Builder
	unexplained, err := mutate(&report, files, regexp.MustCompile(""), 50, seed)
	t.Log(report.String())
	if err != nil {
		t.Fatal(err)
	}
	if unexplained > 0 {
		t.Errorf("the proof accepts %d changes that are not explained", unexplained)
	}
}

// TestMessages changes a word of a table, a rotation, a mask and offsets in every kernel that has
// such a thing, at random. The proof must fail, and its message must have the line and the text of
// what was changed.
func TestMessages(t *testing.T) {
	files, err := parseFiles(kernelDir)
	if err != nil {
		t.Fatal(err)
	}
	seed := testSeed(t)
	t.Logf("again: PROOF_SEED=%d go test -run TestMessages ./proof", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, kind := range changeKinds {
		tried := 0
		for _, f := range files {
			for _, k := range f.kernels {
				var at []int
				for i := range k.code {
					if kind.is(k, i) {
						at = append(at, i)
					}
				}
				if len(at) == 0 {
					continue
				}
				tried++
				i, value := at[random.IntN(len(at))], random.Uint64()
				t.Run(kind.name+"/"+k.name, func(t *testing.T) { kind.change(t, k, i, value) })
			}
		}
		if tried == 0 {
			t.Errorf("no kernel has a %s", kind.name)
		}
	}
}

type changeKind struct {
	name   string
	is     func(k *kernel, i int) bool
	change func(t *testing.T, k *kernel, i int, random uint64)
}

var changeKinds = []changeKind{
	{
		"constant",
		func(k *kernel, i int) bool { return usesTable(k, i, "roundConstants") },
		func(t *testing.T, k *kernel, _ int, random uint64) {
			changeWord(t, k, "roundConstants", int(random%roundCount), 1<<(random>>32%64))
		},
	},
	{
		"word of a table",
		func(k *kernel, i int) bool {
			return slices.ContainsFunc(otherTables, func(name string) bool { return usesTable(k, i, name) })
		},
		func(t *testing.T, k *kernel, i int, random uint64) {
			j := slices.IndexFunc(otherTables, func(name string) bool { return usesTable(k, i, name) })
			name := otherTables[j]
			// Words that the kernel does not use, and bits that do not matter, are of no use here.
			var words []int
			for w, used := range wordsUsed(t, k, name) {
				if used && (name != "lineVectors" || w%8 < 5) {
					words = append(words, w)
				}
			}
			changeWord(t, k, name, words[random%uint64(len(words))], 1)
		},
	},
	{
		"rotation",
		func(k *kernel, i int) bool {
			in := &k.code[i]
			return k.file.arch.rotates(in.op) && in.args[0].kind == opImmediate
		},
		func(t *testing.T, k *kernel, i int, _ uint64) {
			changeOperand(t, k, i, 0, "$%d", k.code[i].args[0].imm+1)
		},
	},
	{
		"mask",
		func(k *kernel, i int) bool {
			return i+1 < len(k.code) && strings.HasPrefix(k.code[i+1].op, "KMOV") && k.code[i].args[0].kind == opImmediate
		},
		func(t *testing.T, k *kernel, i int, _ uint64) {
			changeOperand(t, k, i, 0, "$%d", k.code[i].args[0].imm^1)
		},
	},
	{
		"offset of a load",
		func(k *kernel, i int) bool {
			in := &k.code[i]
			return len(in.args) > 1 && in.args[0].kind == opMemory && in.args[0].disp > 0 && in.args[0].reg.class == general
		},
		func(t *testing.T, k *kernel, i int, _ uint64) {
			o := k.code[i].args[0]
			changeOperand(t, k, i, 0, "%d%s", o.disp-laneBytes, o.text[strings.IndexByte(o.text, '('):])
		},
	},
	{
		"offset of a store",
		func(k *kernel, i int) bool {
			in := &k.code[i]
			return len(in.args) > 1 && in.args[len(in.args)-1].kind == opMemory && in.args[len(in.args)-1].reg.class == general
		},
		func(t *testing.T, k *kernel, i int, _ uint64) {
			n := len(k.code[i].args) - 1
			o := k.code[i].args[n]
			changeOperand(t, k, i, n, "%d%s", o.disp+laneBytes, o.text[strings.IndexByte(o.text, '('):])
		},
	},
}

// otherTables are those that not every kernel has.
var otherTables = []string{"lineVectors", "rol56", "rol8", "rotations2"}

// usesTable reports whether instruction i has a table's address, or loads from it.
func usesTable(k *kernel, i int, name string) bool {
	return slices.ContainsFunc(k.code[i].args, func(o operand) bool { return o.sym == name && o.kind != opParam })
}

// wordsUsed tells which words of a table a kernel reads.
func wordsUsed(t *testing.T, k *kernel, name string) []bool {
	read := make([]bool, len(k.file.tables[name].words))
	c := contracts[k.name]
	if err := proveAll(k, &c, nil, func(m *machine) { m.regions[name].read = read }); err != nil {
		t.Fatal(err)
	}
	return read
}

// changeWord changes a word of a table. The message must point at it.
func changeWord(t *testing.T, k *kernel, name string, i int, bits uint64) {
	t.Helper()
	table := k.file.tables[name]
	mu := k.file.wordMutants(k, table, i, table.words[i]^bits)[0]
	mustFail(t, mu.kernel(), table.lines[i])
}

// changeOperand changes an operand. The message must point at it.
func changeOperand(t *testing.T, k *kernel, i, n int, format string, args ...any) {
	t.Helper()
	o, err := parseOperand(fmt.Sprintf(format, args...), k.file.arch)
	if err != nil {
		t.Fatal(err)
	}
	mk := *k
	mk.code = slices.Clone(k.code)
	in := &mk.code[i]
	in.args = slices.Clone(in.args)
	in.args[n] = o
	mustFail(t, &mk, in.line)
}

// mustFail proves a kernel that is wrong at a line. The message must have the line and what is
// there.
func mustFail(t *testing.T, k *kernel, line int) {
	t.Helper()
	err := prove(k)
	if err == nil {
		t.Fatalf("%s, line %d: %s is accepted", k.name, line, k.text(line))
	}
	want := fmt.Sprintf("%s:%d: ", k.file.path, line)
	names := func() bool { return strings.Contains(err.Error(), want) && strings.Contains(err.Error(), k.text(line)) }
	var d *diagnosis
	if errors.As(err, &d) && !names() {
		d.tryRepairs()
	}
	if !names() {
		t.Errorf("%s, line %d: %s: the message does not name it:\n%.800v", k.name, line, k.text(line), err)
	}
}
