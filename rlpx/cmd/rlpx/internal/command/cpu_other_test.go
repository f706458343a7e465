//go:build !darwin

package command

import "testing"

func TestCPUFromInfo(t *testing.T) {
	for _, tc := range []struct{ info, want string }{
		{"processor\t: 0\nmodel name\t: AMD EPYC 7B13\n\nprocessor\t: 1\nmodel name\t: other\n", "AMD EPYC 7B13"},
		{"processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n", "implementer 0x41, part 0xd0c, variant 0x3"},
		{"", unknownCPU},
		{"nonsense\n:\n", unknownCPU},
	} {
		if got := cpuFromInfo(tc.info); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.info, got, tc.want)
		}
	}
}
