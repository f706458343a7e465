//go:build amd64 && !purego

package keccak

const (
	tierAVX512 = "avx512"
	tierAVX2   = "avx2"
	tierBMI2   = "bmi2"
)

// kernelTiers lists the tiers that have kernels, best first.
func kernelTiers() []Tier {
	return []Tier{
		{tierAVX512, []int{1, 2, 4, 8}, hasAVX512, useAVX512},
		{tierAVX2, []int{1, 4}, hasAVX2, useAVX2 && !useAVX512},
		{tierBMI2, []int{1}, hasBMI2, useBMI2 && !useAVX2 && !useAVX512},
	}
}

// SetTier makes name the tier in use until restore is called, which brings back
// the one before. It reports false for a tier that is not available. It must
// not run beside any hashing.
func SetTier(name string) (restore func(), ok bool) {
	bmi2, avx2, avx512 := useBMI2, useAVX2, useAVX512
	restore = func() { useBMI2, useAVX2, useAVX512 = bmi2, avx2, avx512 }
	switch {
	case name == tierAVX512 && hasAVX512:
		useBMI2, useAVX2, useAVX512 = hasBMI2, hasAVX2, true
	case name == tierAVX2 && hasAVX2:
		useBMI2, useAVX2, useAVX512 = hasBMI2, true, false
	case name == tierBMI2 && hasBMI2:
		useBMI2, useAVX2, useAVX512 = true, false, false
	case name == tierGeneric:
		useBMI2, useAVX2, useAVX512 = false, false, false
	default:
		return func() {}, false
	}
	return restore, true
}
