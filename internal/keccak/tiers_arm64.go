//go:build arm64 && !purego

package keccak

const (
	tierSHA3   = "sha3"
	tierScalar = "scalar"
)

// kernelTiers lists the tiers that have kernels, best first on processors for which the first is
// chosen.
func kernelTiers() []Tier {
	return []Tier{
		{tierSHA3, []int{1, 2}, hasSHA3, useSHA3},
		{tierScalar, []int{1}, true, useScalar && !useSHA3},
	}
}

// SetTier makes name the tier in use until restore is called, which brings back
// the one before. It reports false for a tier that is not available. It must
// not run beside any hashing.
func SetTier(name string) (restore func(), ok bool) {
	sha3, scalar := useSHA3, useScalar
	restore = func() { useSHA3, useScalar = sha3, scalar }
	switch {
	case name == tierSHA3 && hasSHA3:
		useSHA3, useScalar = true, true
	case name == tierScalar:
		useSHA3, useScalar = false, true
	case name == tierGeneric:
		useSHA3, useScalar = false, false
	default:
		return func() {}, false
	}
	return restore, true
}
