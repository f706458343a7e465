package main

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// testSeed is what samples are drawn with: PROOF_SEED of the environment, or 1, so that a test that passed
// passes again.
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
	unexplained, err := mutate(&report, files, 50, seed)
	t.Log(report.String())
	if err != nil {
		t.Fatal(err)
	}
	if unexplained > 0 {
		t.Errorf("the proof accepts %d changes that are not explained", unexplained)
	}
}

// TestMessages changes a constant of a table, a rotation, a mask and an offset, in every kernel that has such a thing. The proof must
// fail, with a message that has the line and the text of what was changed.
func TestMessages(t *testing.T) {
	files, err := parseFiles(kernelDir)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(testSeed(t), 0))
	for _, f := range files {
		for _, k := range f.kernels {
			for _, kind := range changeKinds {
				t.Run(k.name+"/"+kind.name, func(t *testing.T) {
					var at []int
					for i := range k.code {
						if kind.is(k, i) {
							at = append(at, i)
						}
					}
					if len(at) == 0 {
						t.Skip("it has none")
					}
					kind.change(t, k, at[r.IntN(len(at))])
				})
			}
		}
	}
}

type changeKind struct {
	name   string
	is     func(k *kernel, i int) bool
	change func(t *testing.T, k *kernel, i int)
}

var changeKinds = []changeKind{
	{
		"constant",
		func(k *kernel, i int) bool {
			return slices.ContainsFunc(k.code[i].args, func(o operand) bool { return o.sym == "roundConstants" && o.disp == 0 })
		},
		func(t *testing.T, k *kernel, _ int) {
			table := k.file.tables["roundConstants"]
			mf, mk, mt := *k.file, *k, *table
			mf.tables, mk.file, mt.words = maps.Clone(mf.tables), &mf, slices.Clone(mt.words)
			mf.tables[mt.name] = &mt
			round := rand.IntN(roundCount)
			mt.words[round] ^= 1 << rand.IntN(64)
			mustPointAt(t, &mk, table.lines[round])
		},
	},
	{
		"rotation",
		func(k *kernel, i int) bool {
			in := &k.code[i]
			return k.file.arch.rotates(in.op) && in.args[0].kind == opImmediate
		},
		func(t *testing.T, k *kernel, i int) { changeOperand(t, k, i, 0, "$%d", k.code[i].args[0].imm+1) },
	},
	{
		"mask",
		func(k *kernel, i int) bool {
			return i+1 < len(k.code) && strings.HasPrefix(k.code[i+1].op, "KMOV") && k.code[i].args[0].kind == opImmediate
		},
		func(t *testing.T, k *kernel, i int) { changeOperand(t, k, i, 0, "$%d", k.code[i].args[0].imm^1) },
	},
	{
		"offset of a load",
		func(k *kernel, i int) bool {
			in := &k.code[i]
			return len(in.args) > 1 && in.args[0].kind == opMemory && in.args[0].disp > 0 && in.args[0].reg.class == general
		},
		func(t *testing.T, k *kernel, i int) {
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
		func(t *testing.T, k *kernel, i int) {
			n := len(k.code[i].args) - 1
			o := k.code[i].args[n]
			changeOperand(t, k, i, n, "%d%s", o.disp+laneBytes, o.text[strings.IndexByte(o.text, '('):])
		},
	},
}

// changeOperand changes an operand, and wants a message that points at it.
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
	mustPointAt(t, &mk, in.line)
}

// mustPointAt proves a kernel that is wrong at a line.
func mustPointAt(t *testing.T, k *kernel, line int) {
	t.Helper()
	err := prove(k)
	if err == nil {
		t.Fatalf("line %d: %s is accepted", line, k.text(line))
	}
	names := func() bool {
		return strings.Contains(err.Error(), k.text(line)) && strings.Contains(err.Error(), fmt.Sprint(line))
	}
	var d *diagnosis
	if errors.As(err, &d) && !names() {
		d.tryRepairs()
	}
	if !names() {
		t.Errorf("line %d: %s: the message does not name it:\n%v", line, k.text(line), err)
	}
}
