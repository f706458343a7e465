package command

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/measure"
)

const unknownCPU = "unknown processor"

// asFast is how much slower may still count as equally fast: two runs differ by as much.
const asFast = 1.03

// hashing is the rows of the ways to compute Keccak.
type hashing struct {
	*bench
	kernels []measure.Kernel
	lacking []string
	results []hashed
}

// hashed is one row: for each of measure.KernelStates the nanoseconds for a block, one of each
// round.
type hashed [len(measure.KernelStates)][]float64

// kernels measures the kernels of the MAC.
func (b *bench) kernels(ctx context.Context, cmd *cli.Command) error {
	if err := onlyWith(cmd, "with -kernels", "to", "sizes", "conns", "pipe", "snappy", "timeout", "key", "keylog"); err != nil {
		return err
	}
	h := &hashing{bench: b}
	h.kernels, h.lacking = measure.Kernels()
	h.results = make([]hashed, len(h.kernels))
	return b.run(ctx, h)
}

func (h *hashing) rows() (n, steps int) { return len(h.kernels), len(measure.KernelStates) }
func (h *hashing) done(row int) int     { return len(h.results[row][len(measure.KernelStates)-1]) }

func (h *hashing) title() string {
	return fmt.Sprintf("Keccak of rlpx %s, x/crypto %s and go-ethereum %s\n%s, %s, %s/%s\n",
		version().version, dependency("golang.org/x/crypto"), gethVersion(),
		printable(cpuModel(), 80), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (h *hashing) measure(ctx context.Context, row, _ int) (bytes int64, err error) {
	for i := range measure.KernelStates {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		ns, err := h.kernels[row].Time(i, h.each)
		if err != nil {
			return 0, err
		}
		h.results[row][i] = append(h.results[row][i], ns)
	}
	return 0, nil
}

func (h *hashing) table() table {
	t := table{head: []string{"tier"}, note: h.note()}
	for _, n := range measure.KernelStates {
		t.head = append(t.head, plural(n, "state"))
	}
	for row := range h.kernels {
		k := &h.kernels[row]
		name := k.Name
		if k.InUse {
			name = "in use: " + name
		}
		cells := []string{name}
		for i := range measure.KernelStates {
			cell := ""
			if h.done(row) > 0 {
				cell = fmt.Sprintf("%.1f ns", h.lowest(row, i))
			}
			cells = append(cells, cell)
		}
		t.rows = append(t.rows, cells)
	}
	return t
}

// lowest is the time of the best round: what makes another slower is others on the machine.
func (h *hashing) lowest(row, i int) float64 { return slices.Min(h.results[row][i]) }

// note says what the numbers are and whether the right tier is in use.
func (h *hashing) note() string {
	text := "The time for 136 bytes of one state, where so many states absorb 16 KiB each, at\nbest. Digests were compared with x/crypto's.\n"
	if len(h.lacking) > 0 {
		text += "This machine does not have: " + strings.Join(h.lacking, ", ") + ".\n"
	}
	used := slices.IndexFunc(h.kernels, func(k measure.Kernel) bool { return k.InUse })
	by := "the library's choice"
	if name := os.Getenv(measure.KernelVariable); name == h.kernels[used].Name {
		by = "chosen by " + measure.KernelVariable
	} else if name != "" {
		by += fmt.Sprintf(", since %s=%s is no tier of this machine", measure.KernelVariable, printable(name, 32))
	}
	text += fmt.Sprintf("In use is %s, %s. ", h.kernels[used].Name, by)
	var faster []string
	for i, n := range measure.KernelStates {
		best := used
		for row := range h.kernels {
			if h.kernels[row].Ours && h.done(row) > 0 && h.done(best) > 0 && h.lowest(row, i) < h.lowest(best, i) {
				best = row
			}
		}
		if best != used && h.lowest(used, i) > asFast*h.lowest(best, i) {
			faster = append(faster, fmt.Sprintf("%s with %s (%.2f times as fast)", h.kernels[best].Name, plural(n, "state"), h.lowest(used, i)/h.lowest(best, i)))
		}
	}
	if len(faster) == 0 {
		return text + "None is faster here."
	}
	return text + "Faster here: " + strings.Join(faster, ", ") + "."
}

// hashedRecord is a row in JSON.
type hashedRecord struct {
	CPU         string    `json:"cpu"`
	OS          string    `json:"os"`
	Arch        string    `json:"arch"`
	Go          string    `json:"go"`
	Tier        string    `json:"tier"`
	Ours        bool      `json:"ours"`
	InUse       bool      `json:"inUse"`
	Rounds      int       `json:"rounds"`
	States      []int     `json:"states"`
	Nanoseconds []float64 `json:"nanosecondsPerBlock"` // of one state
}

func (h *hashing) record(row int) any {
	k := &h.kernels[row]
	r := hashedRecord{
		CPU: cpuModel(), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(),
		Tier: k.Name, Ours: k.Ours, InUse: k.InUse, Rounds: h.done(row), States: measure.KernelStates[:],
	}
	for i := range measure.KernelStates {
		r.Nanoseconds = append(r.Nanoseconds, h.lowest(row, i))
	}
	return r
}
