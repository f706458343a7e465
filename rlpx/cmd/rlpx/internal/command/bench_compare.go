package command

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/measure"
)

// comparison is the rows of go-ethereum's transport and this one.
type comparison struct {
	*bench
	loads   []measure.Load
	payload *measure.Payload
	results []compared
}

// compared are the throughputs of one row, one of each round, in bytes a second.
type compared struct{ geth, ours []float64 }

func newComparison(b *bench, conns []int, pipe, snappy bool) *comparison {
	c := &comparison{bench: b, payload: measure.NewPayload(slices.Max(b.sizes))}
	for _, n := range conns {
		for _, size := range b.sizes {
			c.loads = append(c.loads, measure.Load{Pipe: pipe, Conns: n, Size: size, Snappy: snappy})
		}
	}
	c.results = make([]compared, len(c.loads))
	return c
}

func (c *comparison) rows() (n, steps int) { return len(c.loads), 2 }
func (c *comparison) done(row int) int     { return len(c.results[row].ours) }

func (c *comparison) network() string {
	if c.loads[0].Pipe {
		return "pipe"
	}
	return "tcp"
}

func (c *comparison) title() string {
	where := "TCP on the loopback interface"
	if c.network() == "pipe" {
		where = "net.Pipe"
	}
	return fmt.Sprintf("go-ethereum %s and this library, %s, snappy %s\n%s %s/%s, GOMAXPROCS %d\n",
		gethVersion(), where, onOff(c.loads[0].Snappy), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
}

// measure runs both implementations, one right after the other, in every other round the other way
// round.
func (c *comparison) measure(ctx context.Context, row, round int) (bytes int64, err error) {
	order := [2]measure.Implementation{measure.GoEthereum, measure.Library}
	if sharedHashing(c.loads[row]) {
		order[1] = measure.SharingLibrary
	}
	var rates [2]float64
	for i := range order {
		side := (i + round) % 2
		runtime.GC() // neither pays for what the other left
		a, err := c.loads[row].Run(ctx, order[side], c.payload, c.each)
		if err != nil {
			return bytes, fmt.Errorf("%s: %w", [2]string{"go-ethereum", "this library"}[side], err)
		}
		rates[side] = a.Rate()
		bytes += a.Bytes
	}
	r := &c.results[row]
	r.geth = append(r.geth, rates[0])
	r.ours = append(r.ours, rates[1])
	return bytes, nil
}

// sharedHashing reports whether our connections have Config.SharedHashing in a row: one alone has
// nobody to share with.
func sharedHashing(l measure.Load) bool { return l.Conns > 1 }

// ratios are those of the rounds, how many times as fast this library was.
func (r *compared) ratios() []float64 {
	ratios := make([]float64, len(r.ours))
	for i := range ratios {
		ratios[i] = r.ours[i] / r.geth[i]
	}
	return ratios
}

func (c *comparison) table() table {
	t := table{
		head: []string{"connections", "message", "go-ethereum", "this library", "ratio", "lowest", "highest"},
		note: "Medians of the rounds, in one direction. Ratio: this library to go-ethereum\nin the same round; below 1, this library is slower.",
	}
	if slices.ContainsFunc(c.loads, sharedHashing) {
		t.note += "\nMore than one connection: this library with Config.SharedHashing, which is off by default."
	}
	for i, l := range c.loads {
		cells := []string{fmt.Sprint(l.Conns), sizeName(l.Size), "", "", "", "", ""}
		if r := &c.results[i]; len(r.ours) > 0 {
			ratios := r.ratios()
			cells = append(cells[:2], perSecond(measure.Median(r.geth)), perSecond(measure.Median(r.ours)),
				ratio(measure.Median(ratios)), ratio(slices.Min(ratios)), ratio(slices.Max(ratios)))
		}
		t.rows = append(t.rows, cells)
	}
	return t
}

func ratio(r float64) string { return fmt.Sprintf("%.2f", r) }

// comparedRecord is a row in JSON. Throughputs are medians of the rounds, in bytes and messages a
// second.
type comparedRecord struct {
	Network       string   `json:"network"`
	Snappy        bool     `json:"snappy"`
	Connections   int      `json:"connections"`
	SharedHashing bool     `json:"sharedHashing"` // of this library's connections
	Size          int      `json:"size"`
	Rounds        int      `json:"rounds"`
	GoEthereum    capacity `json:"goEthereum"`
	Library       capacity `json:"library"`
	Ratio         float64  `json:"ratio"`
	RatioLowest   float64  `json:"ratioLowest"`
	RatioHighest  float64  `json:"ratioHighest"`
}

type capacity struct {
	Bytes    float64 `json:"bytesPerSecond"`
	Messages float64 `json:"messagesPerSecond"`
}

func newCapacity(rates []float64, size int) capacity {
	m := measure.Median(rates)
	return capacity{m, m / float64(size)}
}

func (c *comparison) record(row int) any {
	l, r := c.loads[row], &c.results[row]
	ratios := r.ratios()
	return comparedRecord{
		Network: c.network(), Snappy: l.Snappy, Connections: l.Conns, SharedHashing: sharedHashing(l), Size: l.Size, Rounds: len(ratios),
		GoEthereum: newCapacity(r.geth, l.Size), Library: newCapacity(r.ours, l.Size),
		Ratio: measure.Median(ratios), RatioLowest: slices.Min(ratios), RatioHighest: slices.Max(ratios),
	}
}

// gethVersion is the version of go-ethereum that is built in.
func gethVersion() string { return dependency("github.com/ethereum/go-ethereum") }

// dependency is the version of a module that is built in.
func dependency(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, dep := range info.Deps {
		if dep.Path == path {
			return dep.Version
		}
	}
	return ""
}
