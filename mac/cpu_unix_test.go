//go:build unix

package mac

import "testing"

func TestCPUTime(t *testing.T) {
	before, ok := cpuTime()
	if !ok {
		t.Fatal("this system does not say")
	}
	for after := before; after == before; { // this loop takes some, sooner or later
		if after, ok = cpuTime(); !ok || after < before {
			t.Fatalf("from %v to %v, %v", before, after, ok)
		}
	}
}
