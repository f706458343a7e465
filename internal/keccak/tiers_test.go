package keccak

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// eachTier runs a test under every tier of this machine and build.
func eachTier(t *testing.T, test func(*testing.T)) {
	t.Helper()
	for _, tier := range Tiers() {
		t.Run(tier, func(t *testing.T) {
			restore, ok := SetTier(tier)
			if !ok {
				t.Fatalf("SetTier refuses %q, one of Tiers", tier)
			}
			defer restore()
			test(t)
		})
	}
}

func TestSetTier(t *testing.T) {
	tiers := Tiers()
	if tiers[len(tiers)-1] != tierGeneric {
		t.Fatalf("Tiers = %q, without the portable one at the end", tiers)
	}
	width := LaneWidth()
	for _, name := range tiers {
		restore, ok := SetTier(name)
		if !ok {
			t.Errorf("SetTier(%q) is refused", name)
		}
		if name == tierGeneric && LaneWidth() != 1 {
			t.Error("the portable tier claims to advance several states together")
		}
		restore()
		if LaneWidth() != width {
			t.Errorf("restoring after %q gives lane width %d, was %d", name, LaneWidth(), width)
		}
	}
	if !slices.Equal(Tiers(), tiers) {
		t.Errorf("Tiers = %q, was %q", Tiers(), tiers)
	}
	if restore, ok := SetTier("sse9"); ok {
		t.Error("an unknown tier is accepted")
	} else {
		restore() // harmless
	}
	if LaneWidth() != width {
		t.Error("an unknown tier changes the one in use")
	}
}

// tiersOnly makes the test binary print its tiers and do nothing else.
const tiersOnly = "KECCAK_TEST_PRINT_TIERS"

func TestMain(m *testing.M) {
	if os.Getenv(tiersOnly) != "" {
		os.Stdout.WriteString(strings.Join(Tiers(), " "))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// tiersWith are the tiers of a process with the given GODEBUG.
func tiersWith(t *testing.T, godebug string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), tiersOnly+"=1", "GODEBUG="+godebug)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}
