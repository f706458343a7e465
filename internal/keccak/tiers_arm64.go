//go:build arm64 && !purego

package keccak

const tierSHA3 = "sha3"

// kernelTiers lists the tiers that have kernels, best first.
func kernelTiers() []Tier {
	return []Tier{{tierSHA3, []int{1, 2}, hasSHA3, useSHA3}}
}

// SetTier makes name the tier in use until restore is called, which brings back
// the one before. It reports false for a tier that is not available. It must
// not run beside any hashing.
func SetTier(name string) (restore func(), ok bool) {
	sha3 := useSHA3
	restore = func() { useSHA3 = sha3 }
	switch {
	case name == tierSHA3 && hasSHA3:
		useSHA3 = true
	case name == tierGeneric:
		useSHA3 = false
	default:
		return func() {}, false
	}
	return restore, true
}
