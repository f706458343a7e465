//go:build !amd64 || purego

package keccak

// SetTier makes name the tier in use until restore is called, which brings back
// the one before. It reports false for a tier that is not among Tiers. It must
// not run beside any hashing.
func SetTier(name string) (restore func(), ok bool) {
	return func() {}, name == tierGeneric
}
