package keccak

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// available lists the names of the tiers that this machine and build have, best first.
func available() (names []string) {
	for _, tier := range Tiers() {
		if tier.Available {
			names = append(names, tier.Name)
		}
	}
	return names
}

// chosen is the name of the tier in use.
func chosen() (name string) {
	for _, tier := range Tiers() {
		if tier.Chosen {
			name += tier.Name
		}
	}
	return name
}

// eachTier runs a test under every tier of this machine and build.
func eachTier(t *testing.T, test func(*testing.T)) {
	t.Helper()
	for _, tier := range available() {
		t.Run(tier, func(t *testing.T) {
			restore, ok := SetTier(tier)
			if !ok {
				t.Fatalf("SetTier refuses %q, which is available", tier)
			}
			defer restore()
			test(t)
		})
	}
}

func TestSetTier(t *testing.T) {
	all := Tiers()
	if last := all[len(all)-1]; last.Name != tierGeneric || !last.Available {
		t.Fatalf("Tiers = %v, without the portable one at the end", all)
	}
	width, first := LaneWidth(), chosen()
	for _, tier := range all {
		if tier.Lanes[0] != 1 || !slices.IsSorted(tier.Lanes) {
			t.Errorf("tier %s has kernels for %v states", tier.Name, tier.Lanes)
		}
		if tier.Chosen && !tier.Available {
			t.Errorf("tier %s is chosen without being available", tier.Name)
		}
		ran := false
		if ok := tier.Run(func() {
			ran = true
			if chosen() != tier.Name {
				t.Errorf("Tiers says %q is chosen while %q runs", chosen(), tier.Name)
			}
			if want := tier.Lanes[len(tier.Lanes)-1]; LaneWidth() != want {
				t.Errorf("LaneWidth of %q = %d, want %d", tier.Name, LaneWidth(), want)
			}
		}); ok != tier.Available || ran != ok {
			t.Errorf("Run of %q = %v, and it ran: %v; available: %v", tier.Name, ok, ran, tier.Available)
		}
		if LaneWidth() != width || chosen() != first {
			t.Errorf("%q with lane width %d after running %q, was %q with %d", chosen(), LaneWidth(), tier.Name, first, width)
		}
	}
	if restore, ok := SetTier("sse9"); ok {
		t.Error("an unknown tier is accepted")
	} else {
		restore() // harmless
	}
	if LaneWidth() != width || chosen() != first {
		t.Error("an unknown tier changes the one in use")
	}
}

// TestTierVariable chooses tiers as users can.
func TestTierVariable(t *testing.T) {
	unset := tiersWith(t, TierVariable+"=")
	for _, tier := range Tiers() {
		want := unset
		if tier.Available {
			want = append([]string{tier.Name}, available()...)
		}
		if got := tiersWith(t, TierVariable+"="+tier.Name); !slices.Equal(got, want) {
			t.Errorf("%s=%s: the tier in use and those available are %q, want %q", TierVariable, tier.Name, got, want)
		}
	}
	if got := tiersWith(t, TierVariable+"=sse9"); !slices.Equal(got, unset) {
		t.Errorf("with an unknown tier: the tier in use and those available are %q, want %q", got, unset)
	}
}

// tiersOnly makes the test binary print the tier in use, and all that are available, and do
// nothing else.
const tiersOnly = "KECCAK_TEST_PRINT_TIERS"

func TestMain(m *testing.M) {
	if os.Getenv(tiersOnly) != "" {
		os.Stdout.WriteString(chosen() + " " + strings.Join(available(), " "))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// emulator is an environment variable with the command that runs the test binary, if this system
// does not run it without. It is the same as go test's -exec.
const emulator = "RLPX_TEST_EXEC"

// tiersWith are the tier in use and those that are available in a process whose environment
// chooses none, and has the given addition.
func tiersWith(t *testing.T, env string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(strings.Fields(os.Getenv(emulator)), self)
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), tiersOnly+"=1", TierVariable+"=", env)
	out, err := cmd.Output()
	if errors.Is(err, syscall.ENOEXEC) {
		t.Fatalf("%v: set %s to the command that runs the tests", err, emulator)
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}
