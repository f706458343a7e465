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
	if got, want := slices.Contains(available(), tierSHA3), cpu.ARM64.HasSHA3; got != want {
		t.Errorf("tier %s present: %v, want %v", tierSHA3, got, want)
	}
	if runtime.GOOS == "darwin" && !cpu.ARM64.HasSHA3 {
		t.Error("a Mac without FEAT_SHA3")
	}
}

// TestGODEBUG switches the processor's feature off as users can.
func TestGODEBUG(t *testing.T) {
	want := slices.DeleteFunc(available(), func(name string) bool { return name == tierSHA3 })
	got := tiersWith(t, "GODEBUG=cpu.sha3=off")
	if got[0] != want[0] || !slices.Equal(got[1:], want) {
		t.Errorf("the tier in use and those available are %q, want the best of %q", got, want)
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
