//go:build (!amd64 && !arm64) || purego

package keccak

// kernelTiers lists the tiers that have kernels: none.
func kernelTiers() []Tier { return nil }

// SetTier makes name the tier in use until restore is called, which brings back
// the one before. It reports false for a tier that is not available. It must
// not run beside any hashing.
func SetTier(name string) (restore func(), ok bool) {
	return func() {}, name == tierGeneric
}
