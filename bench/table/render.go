package main

import (
	"fmt"
	"io"
	"math"
	"runtime"
)

// render writes the Markdown, with a headline for compression on or off.
func render(out io.Writer, r *results, snappy string) {
	if r.golang == "" {
		r.golang = runtime.Version()
	}
	fmt.Fprintf(out, "%s, %s, %s/%s", r.cpu, r.golang, runtime.GOOS, runtime.GOARCH)
	if len(r.rows) > 0 {
		renderCompared(out, r, snappy)
	} else {
		fmt.Fprintln(out, ".")
	}
	renderPaired(out, r.paired)
}

// renderCompared writes what both implementations were measured with.
func renderCompared(out io.Writer, r *results, snappy string) {
	rounds := math.MaxInt
	for _, w := range r.rows {
		rounds = min(rounds, len(w.ratios(w.unit())))
	}
	fmt.Fprintf(out, "; rounds: %d.\n", rounds)

	fmt.Fprintf(out, "\n### Headline, compression %s\n\n", snappy)
	renderHeadline(out, r, snappy)

	fmt.Fprint(out, "\n### Goals\n\n| work | benchmark | go-ethereum | this library | ratio | goal |\n|---|---|---|---|---|---|\n")
	for _, g := range goals {
		measured := false
		for _, w := range r.rows {
			if g.rows.MatchString(w.name) && len(w.rlpx[g.unit]) > 0 {
				measured = true
				fmt.Fprintf(out, "| %s | `%s` | %s | %s |\n", g.work, w.name, values(w, g.unit), g.verdict(w))
			}
		}
		if !measured {
			fmt.Fprintf(out, "| %s | not measured | | | | %s |\n", g.work, g)
		}
	}

	fmt.Fprint(out, "\n### Rows where this library loses\n\n")
	none := true
	for _, w := range r.rows {
		if m := median(w.ratios(w.unit())); m < 1 {
			none = false
			fmt.Fprintf(out, "* `%s`: %.2f\n", w.name, m)
		}
	}
	if none {
		fmt.Fprintln(out, "None.")
	}

	fmt.Fprint(out, "\n### Every row\n\n| benchmark | go-ethereum | this library | ratio | lowest | highest | best | CPU |\n|---|---|---|---|---|---|---|---|\n")
	for _, w := range r.rows {
		all := w.ratios(w.unit())
		if len(all) == 0 {
			continue
		}
		cpu := ""
		if c := w.ratios("cpu-ns/op"); len(c) > 0 {
			cpu = fmt.Sprintf("%.2f", median(c))
		}
		fmt.Fprintf(out, "| `%s` | %s | %.2f | %.2f | %.2f | %s |\n",
			w.name, values(w, w.unit()), all[0], all[len(all)-1], w.best(w.unit()), cpu)
	}
}

// values are the cells of both medians and of the ratio.
func values(w *row, unit string) string {
	return fmt.Sprintf("%s | %s | %.2f", quantity(median(w.geth[unit]), unit), quantity(median(w.rlpx[unit]), unit), median(w.ratios(unit)))
}

// verdict is the cell that says what was wanted and whether it was reached.
func (g goal) verdict(w *row) string {
	reached := median(w.ratios(g.unit)) >= g.ratio
	if g.below > 0 {
		reached = median(w.rlpx[g.unit]) < g.below
	}
	if reached {
		return g.String() + ", reached"
	}
	return g.String() + ", **missed**"
}

func (g goal) String() string {
	if g.below > 0 {
		return "under " + quantity(g.below, g.unit)
	}
	return fmt.Sprintf(">= %.3g", g.ratio)
}

// quantity prints three digits in the unit that suits.
func quantity(v float64, unit string) string {
	scale := func(step float64, names ...string) string {
		i := 0
		for ; v >= step && i < len(names)-1; i++ {
			v /= step
		}
		if v >= 100 {
			return fmt.Sprintf("%.0f %s", v, names[i])
		}
		return fmt.Sprintf("%.3g %s", v, names[i])
	}
	switch unit {
	case "ns/op", "cpu-ns/op", "send-ns/op":
		return scale(1000, "ns", "µs", "ms", "s")
	case "B/conn":
		return scale(1024, "B", "KiB", "MiB")
	default:
		return fmt.Sprintf("%.0f", v)
	}
}
