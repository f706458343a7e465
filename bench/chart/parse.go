package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// results are the rows that are drawn, and where they come from.
type results struct {
	network string
	snappy  string            // "on" or "off"
	header  map[string]string // "cpu", "go", "goos", ...
	procs   string            // GOMAXPROCS
	sizes   []*point          // one connection, in ascending order of message size
	conns   []*point          // messages of one size, in ascending order of connections
}

// point is one benchmark: the throughput of both implementations in each round, in 10^6 bytes a
// second.
type point struct {
	label      string // as in the name
	x          float64
	geth, rlpx []float64
}

var (
	// A result: name, GOMAXPROCS unless 1, iterations, pairs of value and unit.
	line = regexp.MustCompile(`^Benchmark(\S+)/impl=(geth|rlpx)(?:-(\d+))?\s+\d+\s+(.*)$`)

	header    = regexp.MustCompile(`^([a-z][a-z-]*): (.+)$`)
	sizeName  = regexp.MustCompile(`^(Pipe|TCP)/size=(\w+)/snappy=(on|off)$`)
	connsName = regexp.MustCompile(`^Conns/net=(\w+)/conns=(\d+)/size=` + message + `/snappy=(on|off)$`)
)

const (
	unit    = "MB/s"
	message = "16KiB" // size of the messages by number of connections
)

// parse reads the rows over a network, tcp or pipe, with compression on or off.
func parse(in io.Reader, network, snappy string) (*results, error) {
	if snappy != "on" && snappy != "off" {
		return nil, fmt.Errorf("-snappy: %q is neither on nor off", snappy)
	}
	if network != "tcp" && network != "pipe" {
		return nil, fmt.Errorf("-net: %q is neither tcp nor pipe", network)
	}
	r := &results{network: network, snappy: snappy, header: map[string]string{}}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if m := header.FindStringSubmatch(lines.Text()); m != nil {
			if old := r.header[m[1]]; old != "" && old != m[2] {
				return nil, fmt.Errorf("rounds of different machines: %s is %q and %q", m[1], old, m[2])
			}
			r.header[m[1]] = m[2]
			continue
		}
		m := line.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		p, err := r.point(m[1])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m[1], err)
		}
		if p == nil {
			continue
		}
		procs := m[3]
		if procs == "" {
			procs = "1"
		}
		if r.procs != "" && r.procs != procs {
			return nil, fmt.Errorf("rounds with different GOMAXPROCS: %s and %s", r.procs, procs)
		}
		r.procs = procs
		v, err := throughput(m[4])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m[1], err)
		}
		if m[2] == "geth" {
			p.geth = append(p.geth, v)
		} else {
			p.rlpx = append(p.rlpx, v)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	for _, points := range []*[]*point{&r.sizes, &r.conns} {
		*points = slices.DeleteFunc(*points, func(p *point) bool { return len(p.geth) == 0 || len(p.rlpx) == 0 })
		slices.SortFunc(*points, func(a, b *point) int { return int(a.x - b.x) })
		if len(*points) < 2 {
			return nil, fmt.Errorf("too few rows that both implementations ran over %s with snappy %s: "+
				"the benchmarks TCP (or Pipe) and Conns are needed", network, snappy)
		}
	}
	return r, nil
}

// point returns the point to which a benchmark belongs, nil if it is not drawn.
func (r *results) point(name string) (*point, error) {
	if m := sizeName.FindStringSubmatch(name); m != nil && strings.ToLower(m[1]) == r.network && m[3] == r.snappy {
		n, err := parseSize(m[2])
		return find(&r.sizes, m[2], n), err
	}
	if m := connsName.FindStringSubmatch(name); m != nil && m[1] == r.network && m[3] == r.snappy {
		n, err := strconv.Atoi(m[2])
		return find(&r.conns, m[2], n), err
	}
	return nil, nil
}

func find(points *[]*point, label string, x int) *point {
	for _, p := range *points {
		if p.label == label {
			return p
		}
	}
	p := &point{label: label, x: float64(x)}
	*points = append(*points, p)
	return p
}

// parseSize reads a size as benchmark names have it.
func parseSize(text string) (int, error) {
	for _, u := range []struct {
		suffix string
		bytes  int
	}{{"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}} {
		if number, ok := strings.CutSuffix(text, u.suffix); ok {
			n, err := strconv.Atoi(number)
			if err == nil && n < 1 {
				err = fmt.Errorf("%q is not a size", text)
			}
			return n * u.bytes, err
		}
	}
	return 0, fmt.Errorf("%q has no unit", text)
}

// throughput finds it among pairs of value and unit.
func throughput(text string) (float64, error) {
	fields := strings.Fields(text)
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i+1] != unit {
			continue
		}
		v, err := strconv.ParseFloat(fields[i], 64)
		if err == nil && !(v > 0) {
			err = fmt.Errorf("a throughput of %v cannot be drawn", v)
		}
		return v, err
	}
	return 0, fmt.Errorf("no %s", unit)
}

// ratio is the median of the rounds' ratios.
func (p *point) ratio() float64 {
	var all []float64
	for i := range min(len(p.geth), len(p.rlpx)) {
		all = append(all, p.rlpx[i]/p.geth[i])
	}
	return median(all)
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
