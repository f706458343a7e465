package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

type operandKind int

const (
	opImmediate operandKind = iota // $value
	opRegister                     // reg, with shift or arrangement if any
	opMemory                       // disp(reg)(index*scale)
	opStatic                       // sym<>+disp(SB)
	opAddress                      // $sym<>+disp(SB)
	opParam                        // sym+disp(FP)
	opLocal                        // sym-disp(SP), from the end of the frame
	opSystem                       // a system register
	opList                         // [list] or (list)
	opLabel
)

// An operand is an operand of an instruction.
type operand struct {
	kind  operandKind
	text  string
	imm   int64
	reg   reg
	index reg
	scale int64
	disp  int64
	sym   string
	list  []operand
	shift string // of a register: << >> -> @>, by imm
	lanes string // of a register: B16, D2, D[1]
}

// A reg is a register. Registers of one class and number share their bits.
type reg struct {
	class regClass
	n     int
	size  int // bytes, of vectors
}

type regClass byte

const (
	noReg regClass = iota
	general
	stackPointer
	vector
	maskReg
)

// splitOperands splits at commas that are not in brackets.
func splitOperands(s string) (all []string) {
	depth, start := 0, 0
	for i, c := range s {
		switch c {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case ',':
			if depth == 0 {
				all = append(all, strings.TrimSpace(s[start:i]))
				start = i + 1
			}
		}
	}
	if s = strings.TrimSpace(s[start:]); s != "" {
		all = append(all, s)
	}
	return all
}

var (
	paramText   = regexp.MustCompile(`^(\w+)\+(\d+)\(FP\)$`)
	localText   = regexp.MustCompile(`^(\w+)(-\d+)\(SP\)$`)
	systemText  = regexp.MustCompile(`^[A-Z]+_EL\d$`)
	staticText  = regexp.MustCompile(`^(\w+)<>(?:\+(\d+))?\(SB\)$`)
	memoryText  = regexp.MustCompile(`^(-?\d*)\((\w+)\)(?:\((\w+)(?:\*([1248]))?\))?$`)
	shiftedText = regexp.MustCompile(`^(\w+)(<<|>>|->|@>)(\d+)$`)
	lanesText   = regexp.MustCompile(`^(\w+)\.([BHSD]\d+|[BHSD]\[\d+\])$`)
	wordText    = regexp.MustCompile(`^\w+$`)
)

// parseOperand parses one operand.
func parseOperand(text string, a *arch) (o operand, err error) {
	o.text = text
	register := func(name string) reg {
		r, ok := a.register(name)
		if !ok && err == nil {
			err = fmt.Errorf("no register %s", name)
		}
		return r
	}
	number := func(s string) int64 {
		if s == "" {
			return 0
		}
		n, e := strconv.ParseInt(s, 0, 64)
		if e != nil && err == nil {
			err = e
		}
		return n
	}
	switch {
	case strings.HasPrefix(text, "$"):
		if m := staticText.FindStringSubmatch(text[1:]); m != nil {
			o.kind, o.sym, o.disp = opAddress, m[1], number(m[2])
			break
		}
		o.kind, o.imm = opImmediate, number(text[1:])
	case strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]"),
		strings.HasPrefix(text, "(") && strings.HasSuffix(text, ")") && strings.Contains(text, ","):
		o.kind = opList
		for _, s := range splitOperands(text[1 : len(text)-1]) {
			part, err := parseOperand(s, a)
			if err != nil {
				return o, err
			}
			o.list = append(o.list, part)
		}
	case paramText.MatchString(text):
		m := paramText.FindStringSubmatch(text)
		o.kind, o.sym, o.disp = opParam, m[1], number(m[2])
	case localText.MatchString(text):
		m := localText.FindStringSubmatch(text)
		o.kind, o.sym, o.disp = opLocal, m[1], number(m[2])
	case systemText.MatchString(text):
		o.kind = opSystem
	case staticText.MatchString(text):
		m := staticText.FindStringSubmatch(text)
		o.kind, o.sym, o.disp = opStatic, m[1], number(m[2])
	case memoryText.MatchString(text):
		m := memoryText.FindStringSubmatch(text)
		o.kind, o.disp, o.reg = opMemory, number(m[1]), register(m[2])
		if m[3] != "" {
			o.index, o.scale = register(m[3]), 1
			if m[4] != "" {
				o.scale = number(m[4])
			}
		}
	case shiftedText.MatchString(text):
		m := shiftedText.FindStringSubmatch(text)
		o.kind, o.reg, o.shift, o.imm = opRegister, register(m[1]), m[2], number(m[3])
	case lanesText.MatchString(text):
		m := lanesText.FindStringSubmatch(text)
		o.kind, o.reg, o.lanes = opRegister, register(m[1]), m[2]
	case wordText.MatchString(text):
		if r, ok := a.register(text); ok {
			o.kind, o.reg = opRegister, r
			break
		}
		o.kind = opLabel
	default:
		return o, fmt.Errorf("operand not understood: %s", text)
	}
	return o, err
}

// is reports whether o is a register of the class.
func (o operand) is(c regClass) bool { return o.kind == opRegister && o.reg.class == c }
