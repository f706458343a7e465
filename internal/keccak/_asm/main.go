// Command asm generates the assembly of package keccak. Run it by go generate
// in that package.
//
// Every kernel does the same to one or more states: apply Keccak-f[1600], then,
// for each further block, xor the block into the state and apply it again. The
// state stays in registers (or in L1, where they do not suffice) in between.
//
//	permuteBMI2     one state, general registers
//	permuteAVX512   one state, five lanes in a ZMM register; digestAVX512 for a digest only
//	digest2AVX512   two states, four lanes in a YMM register, no data; digestPermuteAVX512
//	permute4AVX512  four states in YMM registers
//	permute8AVX512  eight states in ZMM registers
//	permute4AVX2    four states in YMM registers, without AVX-512
//
// and for arm64, with -arch arm64:
//
//	permuteSHA3     one state, a lane in the low half of a vector register; digestSHA3
//	permute2SHA3    two states, in both halves; digest2SHA3 and digestPermuteSHA3, without data
//	permuteScalar   one state, general registers
//
// Kernels with a register or a slot for each lane do pi without moving anything: they write
// the five lanes of a row of the result where the five lanes that it is made
// from were, and keep book of which lane is where (type layout). Because a lane
// goes to the place of its own column, the book is as it was at the start after
// four rounds, so that the rounds can be a loop
// whose code fits the caches of decoded instructions. Unrolling all 24 rounds
// was as fast at best.
package main

import (
	"flag"
	"fmt"
	"log"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// orders are the orders of steps of kernels that have no rule, or whose rule may not be the best.
// The command in search looks for better ones.
var orders = map[string]*string{}

func order(name string) []string { return strings.Fields(*orders[name]) }

func main() {
	// The other flags are avo's. For arm64 they mean the same.
	arch := flag.String("arch", "amd64", "what to generate for: amd64 or arm64")
	orders["lines"] = flag.String("lines", linesSteps, "the order of the steps of a linesKernel")
	orders["quad"] = flag.String("quad", strings.Join(quadNames(), " "), "the order of the steps of permute4AVX2")
	show := flag.String("show", "", "print the order of that name and do nothing else")
	flag.Parse()
	if *show != "" {
		fmt.Println(strings.Join(order(*show), " "))
		return
	}
	if *arch == "arm64" {
		if err := arm64(); err != nil {
			log.Fatal(err)
		}
		return
	}
	ConstraintExpr("amd64,!purego")

	table := GLOBL("roundConstants", attr.RODATA|attr.NOPTR)
	for r, rc := range roundConstants() {
		DATA(8*r, U64(rc))
	}

	bmi2(table)
	avx2(table)
	avx512Single(table)
	avx512Pair(table)
	avx512Lanes("permute4AVX512", "four", table, 4)
	avx512Lanes("permute8AVX512", "eight", table, 8)
	Generate()
}

// arm64 generates the kernels for arm64.
func arm64() error {
	value := func(name string) string { return flag.Lookup(name).Value.String() }
	out, stubs, pkg := value("out"), value("stubs"), value("pkg")
	f := newArm64File("go run . -arch arm64 -out " + out + " -stubs " + stubs + " -pkg " + pkg)
	rc := roundConstants()
	table := f.table("roundConstants", rc[:])
	sha3Kernels(f, table)
	scalar(f, table)
	readMIDR(f)
	return f.write(out, stubs, pkg)
}
