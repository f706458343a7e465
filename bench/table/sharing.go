package main

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// pairedRow is a benchmark that runs with the shared queue and without it by itself, in turns, and
// reports how the two compare.
type pairedRow struct {
	name   string // with that of the benchmark
	values series
}

var pairedLine = regexp.MustCompile(`^Benchmark((?:Shared|SharedLatency)/\S*?procs=\d+|Shared(?:Beside|Kept)/\S*?others=\d+|Trace/\S*?trace=[a-z]+)(?:-\d+)?\s+\d+\s+(.*)$`)

// parsePaired takes a line of output; it reports whether it was one of a paired benchmark.
func (r *results) parsePaired(text string) (bool, error) {
	m := pairedLine.FindStringSubmatch(text)
	if m == nil {
		return false, nil
	}
	var p *pairedRow
	for _, old := range r.paired {
		if old.name == m[1] {
			p = old
		}
	}
	if p == nil {
		p = &pairedRow{name: m[1], values: series{}}
		r.paired = append(r.paired, p)
	}
	return true, p.values.add(m[1], m[2])
}

// add adds the pairs of value and unit of one line.
func (s series) add(name, text string) error {
	fields := strings.Fields(text)
	for i := 0; i+1 < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s[fields[i+1]] = append(s[fields[i+1]], v)
	}
	return nil
}

// renderPaired writes the tables of sharing, if there is anything in them. Of several rounds it
// shows medians.
func renderPaired(out io.Writer, rows []*pairedRow) {
	var throughput, beside, kept, latency, traced []*pairedRow
	for _, p := range rows {
		switch {
		case strings.HasPrefix(p.name, "SharedLatency/"):
			latency = append(latency, p)
		case strings.HasPrefix(p.name, "SharedBeside/"):
			beside = append(beside, p)
		case strings.HasPrefix(p.name, "SharedKept/"):
			kept = append(kept, p)
		case strings.HasPrefix(p.name, "Trace/"):
			traced = append(traced, p)
		default:
			throughput = append(throughput, p)
		}
	}
	if len(throughput) > 0 {
		fmt.Fprint(out, "\n### What sharing lanes gains and costs\n\n"+
			"Throughput with the shared queue against without it; below 1 is a loss.\n\n"+
			"| load | ratio | 95 % interval | half of the pairs | short messages | per CPU time | 95 % interval | shared |\n|---|---|---|---|---|---|---|---|\n")
		for _, p := range throughput {
			fmt.Fprintf(out, "| `%s` | %s | %s | %s | %s | %s | %s | %s |\n", strings.TrimPrefix(p.name, "Shared/"),
				p.ratio("shared/alone"), p.between("lo95", "hi95"), p.between("q1", "q3"), p.ratio("small-shared/alone"),
				p.ratio("cpu-shared/alone"), p.between("cpu-lo95", "cpu-hi95"), p.sharedPart())
		}
	}
	renderHarmless(out, "What sharing does to connections beside goroutines that compute",
		"Throughput with the shared queue against without it.", "shared/alone", beside)
	renderHarmless(out, "What is left of sharing",
		"Throughput with the shared queue against that of a queue in which everybody always waits for others.", "kept/always", kept)
	if len(latency) > 0 {
		fmt.Fprint(out, "\n### What it adds to the latency of one frame\n\n"+
			"Without the queue + what the queue adds.\n\n| frame | median | p99 | longest |\n|---|---|---|---|\n")
		for _, p := range latency {
			fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", strings.TrimPrefix(p.name, "SharedLatency/"),
				p.added("p50"), p.added("p99"), p.added("max"))
		}
	}
	renderTraced(out, traced)
}

// harmless is the ratio that each row of SharedBeside and SharedKept has to reach.
const harmless = 0.95

// renderHarmless writes a table of ratios with a verdict for each, if there are any.
func renderHarmless(out io.Writer, title, explanation, unit string, rows []*pairedRow) {
	if len(rows) == 0 {
		return
	}
	reached := 0
	for _, p := range rows {
		if median(p.values[unit]) >= harmless {
			reached++
		}
	}
	fmt.Fprintf(out, "\n### %s\n\n%s %d of %d rows reach %.2f.\n\n"+
		"| load | ratio | 95 %% interval | half of the pairs | per CPU time | shared | >= %.2f |\n|---|---|---|---|---|---|---|\n",
		title, explanation, reached, len(rows), harmless, harmless)
	for _, p := range rows {
		verdict := "reached"
		if median(p.values[unit]) < harmless {
			verdict = "**missed**"
		}
		_, load, _ := strings.Cut(p.name, "/")
		fmt.Fprintf(out, "| `%s` | %s | %s | %s | %s | %s | %s |\n", load, p.ratio(unit), p.between("lo95", "hi95"),
			p.between("q1", "q3"), p.ratio("cpu-"+unit), p.sharedPart(), verdict)
	}
}

// sharedPart is the cell that says how much was hashed together.
func (p *pairedRow) sharedPart() string {
	if v := p.values["%shared"]; len(v) > 0 {
		return fmt.Sprintf("%.0f %%", median(v))
	}
	return ""
}

func (p *pairedRow) ratio(unit string) string {
	if len(p.values[unit]) == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", median(p.values[unit]))
}

func (p *pairedRow) between(low, high string) string {
	if len(p.values[low]) == 0 || len(p.values[high]) == 0 {
		return ""
	}
	return p.ratio(low) + " to " + p.ratio(high)
}

func (p *pairedRow) added(at string) string {
	alone, added := p.values["alone-"+at+"-ns"], median(p.values["added-"+at+"-ns"])
	if len(alone) == 0 {
		return ""
	}
	sign := "+"
	if added < 0 {
		sign, added = "-", -added
	}
	return fmt.Sprintf("%s %s %s", quantity(median(alone), "ns/op"), sign, quantity(added, "ns/op"))
}
