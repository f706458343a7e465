package keccak

// Tiers and SetTier are for tests, here and in the packages above, which run
// their whole suite under each tier.

const (
	tierAVX512  = "avx512"
	tierAVX2    = "avx2"
	tierBMI2    = "bmi2"
	tierGeneric = "generic"
)

// Tiers lists the tiers that this machine and build have, best first.
func Tiers() []string {
	var names []string
	for _, name := range []string{tierAVX512, tierAVX2, tierBMI2, tierGeneric} {
		if restore, ok := SetTier(name); ok {
			restore()
			names = append(names, name)
		}
	}
	return names
}
