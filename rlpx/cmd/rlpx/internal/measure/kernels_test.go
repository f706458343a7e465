package measure

import (
	"testing"
	"time"

	"github.com/go-rlpx/transport/internal/keccak"
)

func TestKernels(t *testing.T) {
	kernels, _ := Kernels()
	used := 0
	for i := range kernels {
		k := &kernels[i]
		if k.InUse {
			used++
		}
		for states := range KernelStates {
			if ns, err := k.Time(states, time.Nanosecond); err != nil || ns <= 0 {
				t.Errorf("%s: %v ns, %v", k.Name, ns, err)
			}
		}
	}
	if used != 1 {
		t.Errorf("%d tiers in use", used)
	}
	missing := Kernel{Name: "missing", tier: keccak.Tier{Name: "missing"}}
	if _, err := missing.Time(0, time.Nanosecond); err == nil {
		t.Error("a tier that is not there was timed")
	}
}
