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
// The permutation is where the time goes, so there are kernels for amd64, made
// by the generator in _asm. The best tier that the machine has is chosen once,
// at the start of the program:
//
//	avx512   AVX-512F and VL, BMI: one state, two, up to four, up to eight
//	avx2     AVX2, BMI: one state, two to four by the kernel for four
//	bmi2     BMI 1 and 2: one state
//	generic  portable Go
//
// Each is there because it beats the next on the machine that it was made on.
// Nanoseconds for one permutation of one state, absorbing included, on a shared
// Intel Xeon with AVX-512 and AMX, Go 1.26.8 (medians of 12 short runs in turns of
// BenchmarkWrite with 128 KiB, and for more states of BenchmarkSumLanes with two and BenchmarkLanes):
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
// On other processors it was not measured. llvm-mca 19 estimates for its rounds, without absorbing and for
// one state: 401 cycles on Golden Cove (445 in the old order), 420 on Skylake (481).
//
// The kernels for one state and for eight use 512-bit registers, which lower the
// clock of Intel's processors before Ice Lake. That was not measured.
//
// # Choosing a tier
//
// A process uses the tier that the environment variable RLPX_KECCAK names. The name of a tier that
// is not available is ignored. GODEBUG=cpu.avx2=off and the like, which are golang.org/x/sys/cpu's,
// make the tiers that need a feature unavailable. [Tiers] lists what there is, and what is in use.
//
// Every kernel is proved for all inputs: that it computes Keccak-f as FIPS 202
// defines it and absorbs every block, that it uses no memory but its arguments
// and its stack frame, and that no branch or address depends on data. The program in
// _asm/proof reads the assembly files themselves. What stays trusted is Go's
// assembler, the models of single instructions, which tests compare with the
// processor, and the program; its documentation says exactly what is proved.
//
// Builds with the purego tag, and other processors, have the portable code only.
package keccak
