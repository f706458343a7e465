package main

import (
	"math/bits"
	"strings"
)

// An explanation says why mutants are right though they do something else.
type explanation struct {
	is  func(mu *mutant) bool
	why string
}

var explanations = []explanation{
	{
		func(mu *mutant) bool { return mu.table == "lineVectors" && mu.word%8 >= 5 },
		"the upper three lanes of a register are not used",
	},
	{
		// The first four vectors are indices of VPERMQ, those of VPERMI2Q and the rotations of
		// VPROLVQ follow.
		func(mu *mutant) bool {
			return mu.table == "lineVectors" && (mu.bits == 1<<63 || mu.word < 4*8 && mu.bits == 8) || mu.table == "rotations2" && mu.bits == 1<<63
		},
		"VPERMQ uses 3 bits of an index, VPERMI2Q 4, and VPROLVQ 6 bits of a rotation",
	},
	{
		// VPERMI2Q cannot reach lanes 15 and 16 of a block.
		func(mu *mutant) bool { return mu.table == "lineVectors" && mu.word/8 == 28 && mu.word%8 < 2 },
		"the lane is replaced by a masked load",
	},
	{
		func(mu *mutant) bool {
			was, is, ok := mu.immediates("MOVL")
			n := bits.Len64(was)
			return ok && strings.HasPrefix(mu.was.code[mu.at+1].op, "KMOV") && (is^was)>>n<<n == is^was // bits above
		},
		"the mask has more lanes, but these are not used, or are replaced by a later masked load",
	},
	{
		func(mu *mutant) bool {
			in := mu.instr()
			return in != nil && in.op == "VPBROADCASTQ" && len(in.args) == 2 && mu.changed[0].op == in.op &&
				mu.changed[0].args[0].text == in.args[0].text && mu.changed[0].args[1].reg.n == in.args[1].reg.n
		},
		"the lanes that become zero are replaced by a later masked load",
	},
	{
		func(mu *mutant) bool {
			in := mu.instr()
			jumps := func(op string) bool { return jumpNames[op] != "" || arm64Branches[op] != "" }
			return in != nil && len(mu.changed) == 2 && (jumps(in.op) || jumps(mu.changed[0].op))
		},
		"an instruction before a jump rather than after it, whose result is not used where the jump leads, or the other way round",
	},
	{
		func(mu *mutant) bool {
			in := mu.instr()
			return in != nil && in.op == "CMPQ" && (mu.changed[0].op == "SUBQ" || mu.changed[0].op == "CMPQ" && mu.changed[0].args[0].text == in.args[1].text)
		},
		"a comparison for equality, whose operands can change places, and one of which is not used again",
	},
	{
		func(mu *mutant) bool {
			in := mu.instr()
			return in != nil && in.op == "JNE" && mu.changed[0].op == "JLT"
		},
		"an address that goes up to the end of a table is less until it is equal",
	},
	{
		func(mu *mutant) bool {
			in := mu.instr()
			return in != nil && in.op == "LEAQ" && in.args[0].reg.class == stackPointer && mu.changed[0].op == "LEAQ" && mu.changed[0].args[1].text == in.args[1].text
		},
		"another place in the frame that is as good",
	},
	{
		func(mu *mutant) bool {
			in := mu.instr()
			return in != nil && mu.was.code[mu.at-1].op == "SUBS" && (in.op == "BNE" && mu.changed[0].op == "BHI" || in.op == "BLT" && mu.changed[0].op == "BCC")
		},
		"a counter that is not negative is less as a signed number where it is as an unsigned one",
	},
	{
		func(mu *mutant) bool {
			in := mu.instr()
			return in != nil && in.op == "FMOVD" && mu.changed[0].op == "FMOVQ"
		},
		"a second lane is loaded that is not used, or stored where the next store goes",
	},
	{
		func(mu *mutant) bool {
			in := mu.instr()
			return in != nil && in.op == "ANDQ" && in.args[0].imm == -64 && mu.changed[0].op == "ANDQ" && mu.changed[0].args[0].imm == -32
		},
		"a multiple of 32, with room for 64 bytes in the frame behind it: slower where they are in two cache lines, but right",
	},
	{
		func(mu *mutant) bool { return mu.what == smallerFrame && strings.HasPrefix(mu.was.name, "digest") },
		"64 bytes at a multiple of 64 are in any 120 that begin at a multiple of 8",
	},
	{
		func(mu *mutant) bool {
			in := mu.instr()
			return in != nil && in.op == "JNZ" && mu.changed[0].op == "JHI" && mu.was.code[mu.at-1].op == "TESTQ"
		},
		"TESTQ clears the carry flag",
	},
	{
		func(mu *mutant) bool {
			in := mu.instr()
			return in != nil && in.op == "ADDQ" && mu.changed[0].op == "SUBQ" && strings.HasPrefix(mu.was.name, "permute") &&
				in.args[0].imm == 24 && in.args[1].text == "R15"
		},
		"three lanes of the block a turn from the end down, rather than from the beginning up: all lanes are copied, too",
	},
	{
		func(mu *mutant) bool {
			in := mu.instr()
			return in != nil && in.op == "CMOVQHI" && mu.changed[0].op == "DECQ"
		},
		"DECQ keeps the carry flag, and what it does to the zero flag matters only where the operands are equal, or in the last turn",
	},
}

// instr is the instruction that a mutant changes, if it is one.
func (mu *mutant) instr() *instr {
	if mu.at < 0 {
		return nil
	}
	return &mu.was.code[mu.at]
}

// immediates are the first operands of an instruction and of what it becomes.
func (mu *mutant) immediates(op string) (was, is uint64, ok bool) {
	in := mu.instr()
	if in == nil || in.op != op || len(mu.changed) != 1 || mu.changed[0].op != op || mu.at+1 >= len(mu.was.code) ||
		in.args[0].kind != opImmediate || mu.changed[0].args[0].kind != opImmediate {
		return 0, 0, false
	}
	return uint64(in.args[0].imm), uint64(mu.changed[0].args[0].imm), true
}

// explanation gives the reason why the proof accepts a mutant, if there is one.
func (mu *mutant) explanation() string {
	for _, e := range explanations {
		if e.is(mu) {
			return e.why
		}
	}
	return ""
}
