package main

import (
	"bufio"
	"io"
	"regexp"
	"slices"
	"strings"
)

// results is everything that was measured.
type results struct {
	cpu    string
	golang string // version, if the output says
	rows   []*row // in the order in which they ran
	paired []*pairedRow
}

// row is one benchmark, without the part of its name that says whose it is.
type row struct {
	name string
	geth series
	rlpx series
}

// series are the values of each unit, one a round.
type series map[string][]float64

// line is a result: name, GOMAXPROCS unless 1, iterations, pairs of value and unit.
var line = regexp.MustCompile(`^Benchmark(\S+)/impl=(geth|rlpx)(?:-\d+)?\s+\d+\s+(.*)$`)

func parse(in io.Reader) (*results, error) {
	r := new(results)
	byName := make(map[string]*row)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if cpu, ok := strings.CutPrefix(lines.Text(), "cpu: "); ok {
			r.cpu = cpu
		}
		if v, ok := strings.CutPrefix(lines.Text(), "go: "); ok {
			r.golang = v
		}
		if ok, err := r.parsePaired(lines.Text()); ok {
			if err != nil {
				return nil, err
			}
			continue
		}
		m := line.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		w := byName[m[1]]
		if w == nil {
			w = &row{name: m[1], geth: series{}, rlpx: series{}}
			byName[m[1]] = w
			r.rows = append(r.rows, w)
		}
		side := w.geth
		if m[2] == "rlpx" {
			side = w.rlpx
		}
		if err := side.add(m[1], m[3]); err != nil {
			return nil, err
		}
	}
	r.rows = slices.DeleteFunc(r.rows, func(w *row) bool { return len(w.geth) == 0 || len(w.rlpx) == 0 })
	return r, lines.Err()
}

// unit is what a row is about: time, unless it does not measure time.
func (w *row) unit() string {
	if _, ok := w.geth["ns/op"]; ok {
		return "ns/op"
	}
	return "B/conn"
}

// ratios are those of the rounds, in ascending order; none if the unit was not measured.
func (w *row) ratios(unit string) []float64 {
	geth, rlpx := w.geth[unit], w.rlpx[unit]
	var all []float64
	for i := range min(len(geth), len(rlpx)) {
		if rlpx[i] > 0 {
			all = append(all, geth[i]/rlpx[i])
		}
	}
	slices.Sort(all)
	return all
}

// best is the ratio of the best rounds of both, which a busy machine disturbs least; 0 if the unit
// was not measured.
func (w *row) best(unit string) float64 {
	geth, rlpx := w.geth[unit], w.rlpx[unit]
	if len(geth) == 0 || len(rlpx) == 0 {
		return 0
	}
	return slices.Min(geth) / slices.Min(rlpx)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
