//go:build !amd64 || purego

package keccak

import (
	"slices"
	"testing"
)

// TestNoKernels holds builds without assembly to claiming none.
func TestNoKernels(t *testing.T) {
	if got := Tiers(); !slices.Equal(got, []string{tierGeneric}) {
		t.Errorf("Tiers = %q", got)
	}
	for _, tier := range []string{tierAVX512, tierAVX2, tierBMI2} {
		if _, ok := SetTier(tier); ok {
			t.Errorf("tier %s is accepted", tier)
		}
	}
	if LaneWidth() != 1 {
		t.Errorf("LaneWidth = %d", LaneWidth())
	}
}
