package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// A file is an assembly file, as far as the proof needs to know it.
type file struct {
	path    string
	arch    *arch
	kernels []*kernel
	tables  map[string]*table
}

// A kernel is one TEXT of a file.
type kernel struct {
	file        *file
	name        string
	line        int
	flags       string
	frame, args int64
	code        []instr
	labels      map[string]int // index of the instruction that follows
	params      []param        // of its Go declaration
}

// A param is a parameter of a kernel's Go declaration.
type param struct {
	name, typ string
	offset    int64
}

// An instr is one instruction.
type instr struct {
	line   int
	op     string
	args   []operand
	target int // of a jump: index of the instruction
	run    model
}

// A table is a read-only symbol.
type table struct {
	name  string
	words []uint64
	lines []int // where each word is defined
}

func (in instr) String() string {
	args := make([]string, len(in.args))
	for i, a := range in.args {
		args[i] = a.text
	}
	return strings.TrimSpace(in.op + " " + strings.Join(args, ", "))
}

var (
	textLine  = regexp.MustCompile(`^TEXT ·(\w+)\(SB\), (\w+(?:\|\w+)*), \$(\d+)-(\d+)$`)
	dataLine  = regexp.MustCompile(`^DATA (\w+)<>\+(\d+)\(SB\)/8, \$(0x[0-9a-f]+)$`)
	globlLine = regexp.MustCompile(`^GLOBL (\w+)<>\(SB\), RODATA\|NOPTR, \$(\d+)$`)
	labelLine = regexp.MustCompile(`^(\w+):$`)
)

// parseFile reads an assembly file and the Go file that declares its functions. It takes
// nothing that it does not understand.
func parseFile(path, stubs string, a *arch) (*file, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	declared, err := parseStubs(stubs)
	if err != nil {
		return nil, err
	}
	f, err := parseSource(path, string(source), a)
	if err != nil {
		return nil, err
	}
	for _, k := range f.kernels {
		params, ok := declared[k.name]
		if !ok {
			return nil, fmt.Errorf("%s:%d: %s is not declared in %s", path, k.line, k.name, stubs)
		}
		k.params = params
		if size := int64(laneBytes * len(params)); k.args != size {
			return nil, fmt.Errorf("%s:%d: %s has arguments of %d bytes, declared are %d", path, k.line, k.name, k.args, size)
		}
		delete(declared, k.name)
	}
	for name := range declared {
		return nil, fmt.Errorf("%s: %s is declared, but not in %s", stubs, name, path)
	}
	return f, nil
}

// parseSource parses an assembly file.
func parseSource(path, source string, a *arch) (*file, error) {
	f := &file{path: path, arch: a, tables: map[string]*table{}}
	var k *kernel
	for i, line := range strings.Split(source, "\n") {
		line, _, _ = strings.Cut(line, "//")
		line = strings.TrimSpace(line)
		if line == "" || line == `#include "textflag.h"` {
			continue
		}
		if err := f.line(line, i+1, &k); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
	}
	for _, t := range f.tables {
		for i, n := range t.lines {
			if n == 0 {
				return nil, fmt.Errorf("%s: nothing is said of %s+%d", path, t.name, laneBytes*i)
			}
		}
	}
	for _, k := range f.kernels {
		if err := k.resolve(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *file) line(line string, n int, k **kernel) error {
	if m := textLine.FindStringSubmatch(line); m != nil {
		*k = &kernel{file: f, name: m[1], line: n, flags: m[2], labels: map[string]int{}}
		(*k).frame, _ = strconv.ParseInt(m[3], 10, 64)
		(*k).args, _ = strconv.ParseInt(m[4], 10, 64)
		f.kernels = append(f.kernels, *k)
		return nil
	}
	if m := dataLine.FindStringSubmatch(line); m != nil {
		return f.data(m[1], m[2], m[3], n)
	}
	if m := globlLine.FindStringSubmatch(line); m != nil {
		t := f.tables[m[1]]
		if t == nil || m[2] != strconv.Itoa(laneBytes*len(t.words)) {
			return fmt.Errorf("%s has not the size of its data", m[1])
		}
		return nil
	}
	if *k == nil {
		return fmt.Errorf("not understood: %s", line)
	}
	if m := labelLine.FindStringSubmatch(line); m != nil {
		if _, ok := (*k).labels[m[1]]; ok {
			return fmt.Errorf("second label %s", m[1])
		}
		(*k).labels[m[1]] = len((*k).code)
		return nil
	}
	in := instr{line: n}
	op, rest, _ := strings.Cut(line, " ")
	in.op = op
	for _, text := range splitOperands(rest) {
		o, err := parseOperand(text, f.arch)
		if err != nil {
			return err
		}
		in.args = append(in.args, o)
	}
	(*k).code = append((*k).code, in)
	return nil
}

func (f *file) data(name, offset, word string, n int) error {
	t := f.tables[name]
	if t == nil {
		t = &table{name: name}
		f.tables[name] = t
	}
	at, err := strconv.Atoi(offset)
	if err != nil || at%laneBytes != 0 || at > 1<<16 {
		return fmt.Errorf("bad offset %s", offset)
	}
	at /= laneBytes
	for len(t.words) <= at {
		t.words, t.lines = append(t.words, 0), append(t.lines, 0)
	}
	if t.lines[at] != 0 {
		return fmt.Errorf("second definition of %s+%s", name, offset)
	}
	t.words[at], err = strconv.ParseUint(word, 0, 64)
	t.lines[at] = n
	return err
}

// resolve finds the targets of jumps and the models of instructions.
func (k *kernel) resolve() error {
	for i := range k.code {
		in := &k.code[i]
		if err := k.bind(in); err != nil {
			return fmt.Errorf("%s:%d: %w: %s", k.file.path, in.line, err, in)
		}
	}
	return nil
}

// bind finds the target and the model of one instruction.
func (k *kernel) bind(in *instr) error {
	in.run = k.file.arch.models[in.op]
	if in.run == nil {
		return fmt.Errorf("no model of %s", in.op)
	}
	for _, o := range in.args {
		if o.kind != opLabel {
			continue
		}
		target, ok := k.labels[o.text]
		if !ok {
			return fmt.Errorf("no label %s", o.text)
		}
		in.target = target
	}
	return nil
}

// parseStubs gives the parameters of each function that a Go file declares without a body.
func parseStubs(path string) (map[string][]param, error) {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return nil, err
	}
	all := map[string][]param{}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body != nil {
			continue
		}
		var params []param
		for _, field := range fn.Type.Params.List {
			for _, name := range field.Names {
				params = append(params, param{name.Name, types.ExprString(field.Type), int64(laneBytes * len(params))})
			}
		}
		all[fn.Name.Name] = params
	}
	return all, nil
}
