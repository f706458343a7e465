package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A mutant is a kernel with one change.
type mutant struct {
	was     *kernel
	what    string
	at      int     // index of the instruction, or of the first of two; less than zero for other changes
	changed []instr // what is there instead
	other   *kernel // or this kernel
	table   string  // in which a word is changed
	word    int
	bits    uint64 // that are changed
}

// kernel makes the changed kernel.
func (mu *mutant) kernel() *kernel {
	if mu.other != nil {
		return mu.other
	}
	k := *mu.was
	k.code = slices.Clone(k.code)
	copy(k.code[mu.at:], mu.changed)
	return &k
}

func (mu *mutant) String() string {
	if mu.at < 0 {
		return fmt.Sprintf("%s: %s", mu.was.name, mu.what)
	}
	in := &mu.was.code[mu.at]
	return fmt.Sprintf("%s, line %d: %s: %s", mu.was.name, in.line, in, mu.what)
}

// line is where it changes something.
func (mu *mutant) line() int {
	switch {
	case mu.at >= 0:
		return mu.was.code[mu.at].line
	case mu.table != "":
		return mu.was.file.tables[mu.table].lines[mu.word]
	}
	return mu.was.line
}

const smallerFrame = "a frame of 8 bytes less"

// mutantsOf makes all mutants of a file.
func mutantsOf(f *file) (all []*mutant) {
	for _, k := range f.kernels {
		for i := range k.code {
			all = append(all, k.mutantsAt(i)...)
		}
		if k.frame > 0 {
			smaller := *k
			smaller.frame -= laneBytes
			all = append(all, &mutant{was: k, other: &smaller, at: -1, what: smallerFrame})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.tables)) {
		all = append(all, f.tableMutants(f.tables[name])...)
	}
	return all
}

// tableMutants changes each word of a table, for each kernel that uses it.
func (f *file) tableMutants(t *table) (all []*mutant) {
	uses := func(k *kernel) bool {
		return slices.ContainsFunc(k.code, func(in instr) bool {
			return slices.ContainsFunc(in.args, func(o operand) bool { return o.sym == t.name && o.kind != opParam })
		})
	}
	for _, k := range f.kernels {
		if !uses(k) {
			continue
		}
		for i, w := range t.words {
			all = append(all, f.wordMutants(k, t, i, w+1, w^8, w^1<<63)...)
		}
	}
	return all
}

// wordMutants changes one word of a table for one kernel.
func (f *file) wordMutants(k *kernel, t *table, i int, words ...uint64) (all []*mutant) {
	for _, changed := range words {
		mf, mk, mt := *f, *k, *t
		mt.words = slices.Clone(t.words)
		mt.words[i] = changed
		mf.tables = maps.Clone(f.tables)
		mf.tables[t.name] = &mt
		mk.file = &mf
		all = append(all, &mutant{was: k, other: &mk, at: -1, table: t.name, word: i, bits: t.words[i] ^ changed, what: fmt.Sprintf("line %d: %s+%d is %#x", t.lines[i], t.name, laneBytes*i, changed)})
	}
	return all
}

// mutantsAt makes the mutants of one instruction.
func (k *kernel) mutantsAt(i int) (all []*mutant) {
	in := k.code[i]
	add := func(what string, changed ...instr) {
		all = append(all, &mutant{was: k, at: i, what: what, changed: changed})
	}
	replace := func(what, op string, args []operand) {
		changed := instr{line: in.line, op: op, args: args}
		if k.bind(&changed) == nil {
			add(what+changed.String(), changed)
		}
	}
	with := func(j int, text string) {
		o, err := parseOperand(text, k.file.arch)
		if err != nil || text == in.args[j].text {
			return
		}
		args := slices.Clone(in.args)
		args[j] = o
		replace("", in.op, args)
	}

	add("dropped", instr{line: in.line, op: "NOP", run: func(*machine, *instr) error { return nil }})
	if i+1 < len(k.code) && in.String() != k.code[i+1].String() {
		add("after the next one", k.code[i+1], in)
	}
	for _, op := range siblings[in.op] {
		replace("", op, in.args)
	}
	for j, o := range in.args {
		texts := k.variants(&in, o)
		slices.Sort(texts)
		for _, text := range slices.Compact(texts) {
			with(j, text)
		}
		// Other operands, or none.
		if j+1 < len(in.args) && o.text != in.args[j+1].text {
			args := slices.Clone(in.args)
			args[j], args[j+1] = args[j+1], args[j]
			replace("", in.op, args)
		}
		if o.is(maskReg) && len(in.args) > 2 {
			replace("", in.op, slices.Delete(slices.Clone(in.args), j, j+1))
		}
	}
	// Half the width.
	args := slices.Clone(in.args)
	narrower := false
	for j, o := range args {
		if o.is(vector) && o.reg.size > 16 && o.lanes == "" {
			if n, err := parseOperand(strings.NewReplacer("Z", "Y", "Y", "X").Replace(o.text), k.file.arch); err == nil {
				args[j], narrower = n, true
			}
		}
	}
	if narrower {
		replace("", in.op, args)
	}
	return all
}

// variants gives other operands in place of o.
func (k *kernel) variants(in *instr, o operand) (texts []string) {
	add := func(format string, args ...any) { texts = append(texts, fmt.Sprintf(format, args...)) }
	arch := k.file.arch
	switch o.kind {
	case opImmediate:
		if strings.Contains(in.op, "TERN") {
			for bit := range 8 {
				add("$%d", o.imm^1<<bit)
			}
			break
		}
		add("$%d", o.imm+1)
		add("$%d", o.imm-1)
		if arch.rotates(in.op) {
			add("$%d", 64-o.imm)
		} else {
			for bit := range 8 {
				add("$%d", o.imm^1<<bit)
			}
		}
	case opRegister:
		for _, r := range arch.neighbours(o.reg) {
			add("%s", strings.Replace(o.text, arch.nameOf(o.reg), r, 1))
		}
		if o.shift != "" {
			name := arch.nameOf(o.reg)
			add("%s", name)
			add("%s%s%d", name, o.shift, o.imm+1)
			add("%s%s%d", name, o.shift, o.imm-1)
			add("%s%s%d", name, o.shift, 64-o.imm)
		}
	case opMemory, opStatic, opAddress, opParam, opLocal:
		for _, d := range [4]int64{8, -8, 1, 64} {
			switch {
			case o.kind == opMemory:
				add("%d%s", o.disp+d, o.text[strings.IndexByte(o.text, '('):])
			case o.kind == opLocal:
				add("%s-%d(SP)", o.sym, -o.disp-d)
			case o.disp+d >= 0:
				at := map[operandKind]string{opStatic: "%s<>+%d(SB)", opAddress: "$%s<>+%d(SB)", opParam: "%s+%d(FP)"}[o.kind]
				add(at, o.sym, o.disp+d)
			}
		}
		if o.kind == opParam {
			for _, p := range k.params {
				add("%s+%d(FP)", p.name, p.offset)
			}
		}
		if o.kind == opStatic || o.kind == opAddress {
			for _, name := range slices.Sorted(maps.Keys(k.file.tables)) {
				add("%s", strings.Replace(o.text, o.sym, name, 1))
			}
		}
		if o.kind == opMemory {
			for _, r := range arch.neighbours(o.reg) {
				add("%s", strings.Replace(o.text, "("+arch.nameOf(o.reg)+")", "("+r+")", 1))
			}
		}
		if o.scale != 0 {
			add("%s", strings.Replace(o.text, fmt.Sprintf("*%d", o.scale), fmt.Sprintf("*%d", 9-o.scale), 1))
			for _, r := range arch.neighbours(o.index) {
				add("%s", strings.Replace(o.text, "("+arch.nameOf(o.index)+"*", "("+r+"*", 1))
			}
		}
	case opLabel:
		for _, l := range slices.Sorted(maps.Keys(k.labels)) {
			add("%s", l)
		}
	case opList:
		parts := make([]string, len(o.list))
		for i, p := range o.list {
			parts[i] = p.text
		}
		for i, p := range o.list {
			for _, r := range arch.neighbours(p.reg) {
				changed := slices.Clone(parts)
				changed[i] = strings.Replace(p.text, arch.nameOf(p.reg), r, 1)
				add("%c%s%c", o.text[0], strings.Join(changed, ", "), o.text[len(o.text)-1])
			}
		}
	}
	return texts
}

// siblings are opcodes that might be taken for each other.
var siblings = map[string][]string{
	"MOVQ": {"XORQ", "LEAQ"}, "LEAQ": {"MOVQ"}, "XORQ": {"ORQ", "ANDQ", "MOVQ"}, "ANDQ": {"ORQ", "XORQ"},
	"ADDQ": {"SUBQ", "XORQ"}, "DECQ": {"INCQ", "NOTQ"}, "CMPQ": {"SUBQ", "TESTQ"}, "TESTQ": {"CMPQ", "ANDQ"},
	"XORL": {"MOVL"}, "JNE": {"JEQ", "JHI", "JLT", "JMP"}, "JNZ": {"JZ", "JHI", "JLT", "JMP"}, "JL": {"JLE", "JGE", "JCS", "JEQ", "JMP"},
	"JMP": {"JEQ", "JNE"}, "CMOVQHI": {"CMOVQLS", "CMOVQCC", "CMOVQCS", "CMOVQNE", "CMOVQGT", "MOVQ"},
	"VMOVDQU": {"VMOVDQA"}, "VMOVDQU64": {"VMOVDQA64", "VMOVDQU64.Z"}, "VMOVDQU64.Z": {"VMOVDQU64"}, "VMOVDQA64": {"VMOVDQU64"},
	"VPXOR": {"VPOR", "VPAND", "VPANDN"}, "VPOR": {"VPXOR", "VPAND", "VPADDQ"}, "VPANDN": {"VPAND", "VPOR", "VPXOR"},
	"VPXORQ": {"VPORQ", "VPANDNQ"}, "VPXORQ.BCST": {"VPORQ.BCST", "VPANDNQ.BCST"}, "VPADDQ": {"VPXOR", "VPOR"},
	"VPSLLQ": {"VPSRLQ", "VPROLQ"}, "VPSRLQ": {"VPSLLQ", "VPROLQ"}, "VPROLQ": {"VPRORQ", "VPSLLQ"}, "VPROLVQ": {"VPRORVQ"},
	"VPUNPCKLQDQ": {"VPUNPCKHQDQ"}, "VPUNPCKHQDQ": {"VPUNPCKLQDQ"}, "VPERMI2Q": {"VPERMT2Q"}, "VPBLENDMQ": {"VPXORQ"},
	"MOVD": {"FMOVD"}, "FMOVD": {"FMOVQ"}, "FMOVQ": {"FMOVD"}, "EOR": {"BIC", "ORR", "EON"}, "BIC": {"AND", "EOR"}, "ROR": {"ADD"},
	"ADD": {"SUB", "SUBS"}, "SUBS": {"SUB", "ADD"}, "BNE": {"BEQ", "BHI", "BLT", "B"}, "BLT": {"BLE", "BGE", "BCC", "BEQ", "B"}, "B": {"BEQ", "BNE"},
	"VEOR": {"VORR", "VAND", "VRAX1"}, "VEOR3": {"VBCAX"}, "VBCAX": {"VEOR3"}, "VRAX1": {"VEOR", "VZIP1"}, "VZIP1": {"VZIP2"}, "VZIP2": {"VZIP1"},
	"VMOVQ": {"VMOVHPS"}, "VMOVHPS": {"VMOVQ"}, "VMOVDDUP": {"VMOVDQU"}, "RORXQ": {"ANDNQ"},
}

// rotates reports whether an instruction's immediate is a number of bits.
func (a *arch) rotates(op string) bool {
	for _, part := range [...]string{"ROL", "ROR", "SLL", "SRL", "XAR"} {
		if strings.Contains(op, part) {
			return true
		}
	}
	return false
}

// names lists the registers of each class and size.
func (a *arch) names() map[reg]string {
	all := map[reg]string{}
	for _, format := range a.registerNames {
		for i := range 32 {
			name := format
			if strings.Contains(format, "%d") {
				name = fmt.Sprintf(format, i)
			}
			if r, ok := a.register(name); ok {
				all[r] = name
			}
		}
	}
	return all
}

// nameOf is the name of r.
func (a *arch) nameOf(r reg) string {
	if a.byRegister == nil {
		a.byRegister = a.names()
	}
	return a.byRegister[r]
}

// neighbours are the names of two other registers of the same kind.
func (a *arch) neighbours(r reg) (names []string) {
	for _, n := range [2]int{r.n + 1, r.n - 1} {
		other := r
		other.n = n
		if name := a.nameOf(other); name != "" && n >= 0 {
			names = append(names, name)
		}
	}
	return names
}
