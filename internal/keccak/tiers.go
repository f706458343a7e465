package keccak

import "os"

// TierVariable is the environment variable that names the tier to use. It is read once, when the
// program starts. A name that is not an available tier's is ignored.
const TierVariable = "RLPX_KECCAK"

const tierGeneric = "generic"

// A Tier is one way to compute the permutation: a set of kernels, or the portable code.
type Tier struct {
	// Name is what SetTier and TierVariable take.
	Name string
	// Lanes are the numbers of states that have a kernel each, ascending. The first is always 1.
	Lanes []int
	// Available says whether this machine can run the tier.
	Available bool
	// Chosen says whether the tier is in use now. That holds for one tier.
	Chosen bool
}

// Run calls f while t is the tier in use. It reports false, and does not call f, if t is not
// available. As with SetTier, nothing else may hash meanwhile.
func (t Tier) Run(f func()) bool {
	restore, ok := SetTier(t.Name)
	if !ok {
		return false
	}
	defer restore()
	f()
	return true
}

// Tiers lists the tiers of this build, those that the machine lacks included. The last is the
// portable code.
func Tiers() []Tier {
	all := append(kernelTiers(), Tier{Name: tierGeneric, Lanes: []int{1}, Available: true, Chosen: true})
	for i := range all[:len(all)-1] {
		if all[i].Chosen {
			all[len(all)-1].Chosen = false
		}
	}
	return all
}

func init() { SetTier(os.Getenv(TierVariable)) }
