// Package keccak implements the running Keccak-256 states of RLPx.
//
// The transport authenticates every frame by two Keccak states that live as
// long as the connection (the egress-mac and ingress-mac of the "MAC" section
// of rlpx.md). They are "legacy" Keccak-256: rate 136, capacity 512, and the
// padding of the original submission rather than that of FIPS 202. This
// package offers that one function, as a value type, and ways to advance
// several states together. It is not a general hash library: golang.org/x/crypto/sha3
// is.
//
// # Ownership and concurrency
//
// A State holds no pointers. Assigning it clones it, its zero value is the
// empty sponge, and nothing here allocates or keeps a slice after it returns.
// A State may be used by one goroutine at a time; different States are
// independent.
//
// # Tiers
//
// The permutation is where the time goes, so there are kernels for amd64 and arm64, made by the
// generator in _asm. One tier is chosen once, at the start of the program. On amd64 it is the
// first of these that the machine has:
//
//	avx512   AVX-512F and VL, BMI: one state, two, up to four, up to eight
//	avx2     AVX2, BMI: one state, two to four by the kernel for four
//	bmi2     BMI 1 and 2: one state
//	generic  portable Go
//
// Each is there because it beats the next on the machine that it was made on. Nanoseconds for one
// permutation of one state, absorbing included, on a shared Intel Xeon with AVX-512 and AMX, Go
// 1.26.8 (medians of 12 short runs in turns of BenchmarkWrite with 128 KiB, and for more states of
// BenchmarkSumLanes with two and BenchmarkLanes):
//
//	states  avx512  avx2  bmi2  generic  x/crypto  go-ethereum
//	1          161   232   232      301       313          291
//	2           99
//	4           54   117
//	8           40
//
// The kernel for four states with AVX2 has been put in another order since, and now takes two
// states as well. The same on a shared AMD Zen 3 at 3.2 GHz (fastest of interleaved short runs):
//
//	states  avx2  bmi2  generic  x/crypto  go-ethereum
//	1        304   304      364       380          394
//	4        100
//
// On other processors it was not measured. llvm-mca 19 estimates for its rounds, without absorbing
// and for one state: 401 cycles on Golden Cove (445 in the old order), 420 on Skylake (481). Its
// vector instructions alone occupy all ports for 368 cycles there, with three ports, and for 276 on
// AMD's processors since Zen 2, with four.
//
// The kernels for one state and for eight use 512-bit registers, which lower the
// clock of Intel's processors before Ice Lake. That was not measured.
//
// On arm64 it depends on who made the processor, and which one it is:
//
//	sha3     FEAT_SHA3: one state, or two in the same time
//	scalar   general registers, with rotations that are left due: one state
//	generic  portable Go
//
// Apple's processors have FEAT_SHA3 in each of their four vector units, AmpereOne in two. Both use
// sha3, on macOS, iOS and Linux. Arm's own processors have the instructions in one unit at best,
// but rotate an operand of an exclusive or at no cost: they use scalar, on Linux. Cortex-A57, A72
// and A73 do not rotate for free, other processors are not known, and other systems do not say
// what they run on: these use generic.
//
// None of this was measured. The kernels were tested under an emulator only. Estimates, in cycles
// for one permutation, are those of llvm-mca 19 for the code between the loads and the stores of
// the state. For generic, whose state is in memory, the estimates are without waiting for stores
// and with all loads waiting for all earlier stores; the truth lies between.
//
//	               scalar  generic      sha3
//	Neoverse N1       824  1016 - 1986
//	Neoverse V1       614   762 - 1764  1536
//	Neoverse N2       620   906 - 2082  1536
//	Neoverse V2       428   515 - 1686  1536
//	Cortex-A55       2357  6864 - 6942
//	Cortex-A72       2254  1875 - 3132
//	AmpereOne        1241  1609 - 2407   805
//
// On two states sha3 takes as long as on one. LLVM 19 has one model for all of Apple's processors,
// that of 2013. A round is 66 vector instructions, so four units take 396 cycles at least.
//
// Builds with the purego tag, and other architectures, have the portable code only.
//
// # Choosing a tier
//
// A process uses the tier that the environment variable RLPX_KECCAK names, on every architecture.
// The name of a tier that is not available is ignored. GODEBUG=cpu.avx2=off, cpu.sha3=off and the
// like, which are golang.org/x/sys/cpu's, make the tiers that need a feature unavailable. [Tiers]
// lists what there is, and what is in use.
//
// Every kernel is proved for all inputs: that it computes Keccak-f as FIPS 202
// defines it and absorbs every block, that it uses no memory but its arguments
// and its stack frame, and that no branch or address depends on data. The program in
// _asm/proof reads the assembly files themselves. What stays trusted is Go's
// assembler, the models of single instructions, which tests compare with the
// processor (those of AVX-512 only on machines that have it), what the program says each
// kernel is to do, and the program itself; its documentation says exactly what is proved.
// The Go code around the kernels is tested, not proved.
package keccak
