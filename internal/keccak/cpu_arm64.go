//go:build arm64 && !purego

package keccak

import (
	"runtime"

	"golang.org/x/sys/cpu"
)

// A processor is what MIDR_EL1, the main ID register, says of who made it and of what it is.
type processor struct{ implementer, part uint64 }

const (
	implementerArm    = 0x41
	implementerApple  = 0x61
	implementerAmpere = 0xc0

	partCortexA57 = 0xd07
	partCortexA72 = 0xd08
	partCortexA73 = 0xd09
)

func processorOf(midr uint64) processor { return processor{midr >> 24 & 0xff, midr >> 4 & 0xfff} }

// thisProcessor is the processor, or zero if it is not known. Programs cannot read the register
// themselves. Linux reads it for them, where HasCPUID is set. A machine may have processors of
// several parts, of which this is any.
func thisProcessor() processor {
	switch {
	case runtime.GOOS == "darwin" || runtime.GOOS == "ios":
		return processor{implementer: implementerApple}
	case runtime.GOOS == "linux" && cpu.ARM64.HasCPUID:
		var midr uint64
		readMIDR(&midr)
		return processorOf(midr)
	}
	return processor{}
}

// fastSHA3 reports whether the kernels for FEAT_SHA3 are the best for p, if p has it. They are
// where several vector units have its instructions, which is so on Apple's processors (four) and
// AmpereOne (two). On Arm's, one has them.
func (p processor) fastSHA3() bool {
	return p.implementer == implementerApple || p.implementer == implementerAmpere
}

// fastRotations reports whether p rotates an operand of an exclusive or at no cost. Arm's
// processors do since Cortex-A76, and so do the small ones. The older large ones, and those of
// other makers, need another cycle, a unit of which there are few, or both.
func (p processor) fastRotations() bool {
	if p.implementer != implementerArm {
		return false
	}
	switch p.part {
	case partCortexA57, partCortexA72, partCortexA73:
		return false
	}
	return true
}
