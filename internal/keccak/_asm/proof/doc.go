// Command proof proves, for all inputs, that the kernels of package keccak do what their Go
// comments say. Run it in the module _asm:
//
//	go run ./proof            proves every kernel of the committed assembly files; a few seconds
//	go run ./proof -mutate    changes them in every way it knows, and says which changes pass; hours
//
// With -kernels both are for the kernels only whose names match a regular expression. Where a proof
// fails, the message points at instructions that may be wrong, or has a change that makes the
// kernel right (explain.go, repair.go).
//
// # What is proved
//
// The program reads the assembly files as they are, not what the generator meant. For each TEXT
// it shows, for all states, all data, and every number of blocks that a call may have (0 to
// 512):
//
//   - Where the contract says so (contract.go has one for each kernel, compared with its Go
//     declaration), a state in memory is Keccak-f[1600] of what it was; then, for each block in
//     turn, the state with the block xored into its first 17 lanes, permuted again. Keccak-f is
//     that of FIPS 202, written from its definitions in spec.go, which shares nothing with the
//     generator: theta, rho, pi, chi, iota, the offsets, the round constants. Kernels for a
//     digest store the first 32 bytes of the permuted state. State i of a group becomes what
//     state i and block i make of it; states beyond those that the kernel is for stay as they
//     are.
//   - All loads are within the arguments, the table, or the stack frame; all stores within the
//     frame or the arguments that are to be changed. Of the data, the next block is read if
//     there is one left, and nothing else. Nothing that is only read is written.
//   - No jump, conditional move, address, index, mask or variable rotation depends on the
//     states or the data, but on the number of blocks, on pointers and on constants only.
//   - Aligned moves go to aligned addresses only, wherever the frame is.
//   - Every path returns: on amd64 after VZEROUPPER, if upper halves of vector registers are in
//     use; on arm64 to where the kernel was called from.
//   - Registers that Go keeps are not written: the stack pointer and the frame pointer, on arm64
//     also g and the platform's register.
//   - Every instruction is in the processor features that package keccak asks for before it
//     uses the kernel.
//
// # How
//
// Each 64 bits of a register or of memory are a form: the XOR of a constant and of rotated and
// masked words, and of products (ANDs) of two of these. This is the algebraic normal form of
// each bit, so two forms are equal if and only if the functions are (form.go). Instructions are
// models that map forms to forms.
//
// One round of Keccak-f has products of two words, two rounds would have far too many. So
// values are cut at the end of each round: a value whose form is equal to the specification's
// lane after one more round is from then on that lane, a new word (rounds.go). Lanes are
// recognized wherever they are, and however rotated, so no layout has to be told. What has no
// form is a new word, too, that may be anything: that can make a proof fail, but never succeed.
//
// Loops with a known number of turns are executed. For the loop over blocks the proof finds an
// invariant (prove.go): what all registers and memory hold at its head the first time, told by
// the lanes of the states at that time, is tried for one more block with any states; what does
// not hold again is dropped, until the rest does. Then the kernel is executed from there with
// no block left.
//
// # What is trusted
//
//   - The models of instructions. A test compares each form of instruction that the files have
//     with the processor, on random operands. Those of AVX-512 are compared only on machines
//     that have it; elsewhere the test says which were not.
//   - The parser of this program, and Go's assembler and linker: that the processor executes
//     the instructions that the files have. (The order of operands, on which both must agree,
//     is part of what the test above compares.)
//   - The contracts: that contract.go says what package keccak relies on. In particular, memory
//     that a kernel changes does not overlap with anything else that it uses, the stack pointer
//     is a multiple of 8 (arm64: 16), and there are at most 512 blocks.
//   - That the specification is Keccak: its tests compare it with crypto/sha3.
//   - The algebra of this program, and Go's compiler, which compiled it.
//   - That the time a processor takes for the instructions that are used does not depend on
//     their operands.
//
// The Go code around the kernels is not proved, but tested.
package main
