//go:build amd64 && !purego

package keccak

import (
	"slices"
	"testing"

	"golang.org/x/sys/cpu"
)

// TestTiersPresent fails if this machine can do what no tier makes use of.
func TestTiersPresent(t *testing.T) {
	x := cpu.X86
	for _, tt := range []struct {
		tier string
		want bool
	}{
		{tierAVX512, x.HasAVX512F && x.HasAVX512VL && x.HasBMI1 && x.HasBMI2},
		{tierAVX2, x.HasAVX2 && x.HasBMI1 && x.HasBMI2},
		{tierBMI2, x.HasBMI1 && x.HasBMI2},
		{tierGeneric, true},
	} {
		if got := slices.Contains(available(), tt.tier); got != tt.want {
			t.Errorf("tier %s present: %v, want %v", tt.tier, got, tt.want)
		}
	}
}

// TestGODEBUG switches processor features off as users can.
func TestGODEBUG(t *testing.T) {
	all := tiersWith(t, "GODEBUG=")[1:]
	for _, tt := range []struct {
		godebug string
		gone    []string
	}{
		{"cpu.avx512f=off", []string{tierAVX512}},
		{"cpu.avx512vl=off", []string{tierAVX512}},
		{"cpu.avx2=off", []string{tierAVX2}},
		{"cpu.avx512f=off,cpu.avx2=off", []string{tierAVX512, tierAVX2}},
		{"cpu.bmi1=off", []string{tierAVX512, tierAVX2, tierBMI2}},
		{"cpu.bmi2=off", []string{tierAVX512, tierAVX2, tierBMI2}},
	} {
		t.Run(tt.godebug, func(t *testing.T) {
			want := []string{""} // the best one
			for _, tier := range all {
				if !slices.Contains(tt.gone, tier) {
					want = append(want, tier)
				}
			}
			want[0] = want[1]
			if got := tiersWith(t, "GODEBUG="+tt.godebug); !slices.Equal(got, want) {
				t.Errorf("the tier in use and those available are %q, want %q", got, want)
			}
		})
	}
}
