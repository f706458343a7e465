package command

import (
	"strings"
	"testing"

	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/measure"
)

func TestBenchKernels(t *testing.T) {
	kernels, lacking := measure.Kernels()
	r := run(t, "bench", "-kernels", "-rounds", "2", "-time", "1ms")
	r.wantSuccess(t, "Keccak of rlpx ", cpuModel(), " 1 state ", " 2 states ", " 8 states\n", "In use is ", "here")
	for _, k := range kernels {
		wantAll(t, r.stdout, k.Name+" ")
		if k.InUse {
			wantAll(t, r.stdout, "in use: "+k.Name, "In use is "+k.Name+", ")
		}
	}
	for _, name := range lacking {
		wantAll(t, r.stdout, name)
	}
	if strings.Contains(r.stdout, " - ") {
		t.Errorf("an empty cell:\n%s", r.stdout)
	}

	r = run(t, "bench", "-kernels", "-rounds", "2", "-time", "1ms", "-json")
	r.wantSuccess(t)
	rows := records[hashedRecord](t, r.stdout)
	if len(rows) != len(kernels) {
		t.Fatalf("%d rows: %s", len(rows), r.stdout)
	}
	for i, row := range rows {
		if row.Tier != kernels[i].Name || row.InUse != kernels[i].InUse || row.Rounds != 2 || len(row.Nanoseconds) != len(measure.KernelStates) {
			t.Errorf("%+v", row)
		}
		for _, ns := range row.Nanoseconds {
			if ns <= 0 {
				t.Errorf("%+v", row)
			}
		}
	}
}

// The verdict, by numbers that are given.
func TestKernelVerdict(t *testing.T) {
	for _, tc := range []struct {
		name, variable string
		fast, used     float64 // nanoseconds
		want           string
	}{
		{"the fastest", "", 100, 50, "In use is used, the library's choice. None is faster here."},
		{"about as fast", "", 100, 102, "None is faster here."},
		{"slower", "", 100, 150, "Faster here: fast with 1 state (1.50 times as fast), fast with 2 states (1.50"},
		{"chosen", "used", 100, 50, "In use is used, chosen by RLPX_KECCAK. "},
		{"chosen in vain", "no\x1bsuch", 100, 50, `the library's choice, since RLPX_KECCAK=no\x1bsuch is no tier of this machine. `},
	} {
		t.Setenv(measure.KernelVariable, tc.variable)
		h := &hashing{kernels: []measure.Kernel{{Name: "other library"}, {Name: "fast", Ours: true}, {Name: "used", Ours: true, InUse: true}}, results: make([]hashed, 3)}
		if text := h.note(); !strings.HasSuffix(text, "None is faster here.") {
			t.Errorf("before anything was measured: %s", text)
		}
		for i := range measure.KernelStates {
			for row, ns := range []float64{1, tc.fast, tc.used} {
				h.results[row][i] = []float64{ns + 7, ns, ns + 9}
			}
		}
		if text := h.note(); !strings.Contains(text, tc.want) {
			t.Errorf("%s: %s", tc.name, text)
		}
	}
}
