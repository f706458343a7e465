//go:build arm64 && !purego

package keccak

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"
)

// TestTiersPresent fails if this machine can do what no tier makes use of.
func TestTiersPresent(t *testing.T) {
	want := []string{tierSHA3, tierScalar, tierGeneric}
	if !cpu.ARM64.HasSHA3 {
		want = want[1:]
	}
	if got := available(); !slices.Equal(got, want) {
		t.Errorf("available: %q, want %q", got, want)
	}
	if runtime.GOOS == "darwin" && !cpu.ARM64.HasSHA3 {
		t.Error("a Mac without FEAT_SHA3")
	}
}

// TestGODEBUG switches the processor's feature off as users can.
func TestGODEBUG(t *testing.T) {
	want := []string{tierGeneric, tierScalar, tierGeneric}
	if thisProcessor().fastRotations() {
		want[0] = tierScalar
	}
	if got := tiersWith(t, "GODEBUG=cpu.sha3=off"); !slices.Equal(got, want) {
		t.Errorf("the tier in use and those available are %q, want %q", got, want)
	}
}

// TestChoice is about processors that people have. The registers are as Linux shows them.
func TestChoice(t *testing.T) {
	for _, tt := range []struct {
		name          string
		midr          uint64
		fastSHA3      bool
		fastRotations bool
	}{
		{"Apple M1, efficient core", 0x611f0221, true, false},
		{"Apple M1, fast core", 0x611f0231, true, false},
		{"AmpereOne", 0xc00fac30, true, false},
		{"Ampere Altra", 0x413fd0c1, false, true}, // Neoverse N1
		{"Cortex-A53", 0x410fd034, false, true},
		{"Cortex-A57", 0x411fd070, false, false},
		{"Cortex-A72", 0x410fd083, false, false},
		{"Cortex-A73", 0x410fd092, false, false},
		{"Cortex-A76", 0x414fd0b1, false, true},
		{"Neoverse V1", 0x411fd401, false, true},
		{"Neoverse V2", 0x410fd4f0, false, true},
		{"Kunpeng 920", 0x481fd010, false, false},
		{"unknown", 0, false, false},
	} {
		p := processorOf(tt.midr)
		if p.fastSHA3() != tt.fastSHA3 || p.fastRotations() != tt.fastRotations {
			t.Errorf("%s: fast FEAT_SHA3: %v, fast rotations: %v; want %v, %v",
				tt.name, p.fastSHA3(), p.fastRotations(), tt.fastSHA3, tt.fastRotations)
		}
	}
}

// TestChosen holds the tier in use to what the processor is.
func TestChosen(t *testing.T) {
	want, p := tierGeneric, thisProcessor()
	switch {
	case cpu.ARM64.HasSHA3 && p.fastSHA3():
		want = tierSHA3
	case p.fastRotations():
		want = tierScalar
	}
	if got := tiersWith(t, "GODEBUG=")[0]; got != want {
		t.Errorf("%+v: the tier in use is %q, want %q", p, got, want)
	}
}

// TestReadMIDR compares the register with what Linux says of it elsewhere.
func TestReadMIDR(t *testing.T) {
	if !cpu.ARM64.HasCPUID {
		t.Skip("the system does not let programs read the register")
	}
	var midr uint64
	readMIDR(&midr)
	if midr>>16&0xf != 0xf { // the architecture: as other registers say, on all of 64 bits
		t.Errorf("MIDR_EL1 is %#x", midr)
	}
	text, err := os.ReadFile("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1")
	if errors.Is(err, fs.ErrNotExist) { // such as under an emulator
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	want, err := strconv.ParseUint(strings.TrimSpace(string(text)), 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	if got := midr >> 24 & 0xff; got != want>>24&0xff { // other cores may differ otherwise
		t.Errorf("MIDR_EL1 names implementer %#x, Linux says %#x", got, want>>24&0xff)
	}
}
