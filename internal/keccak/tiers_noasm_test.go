//go:build (!amd64 && !arm64) || purego

package keccak

import "testing"

// TestNoKernels holds builds without assembly to claiming none.
func TestNoKernels(t *testing.T) {
	if all := Tiers(); len(all) != 1 || all[0].Name != tierGeneric {
		t.Errorf("Tiers = %v", all)
	}
	for _, tier := range []string{"avx512", "avx2", "bmi2", "sha3", "scalar"} {
		if _, ok := SetTier(tier); ok {
			t.Errorf("tier %s is accepted", tier)
		}
	}
	if LaneWidth() != 1 {
		t.Errorf("LaneWidth = %d", LaneWidth())
	}
}
