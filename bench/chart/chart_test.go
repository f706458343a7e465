package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/chart.svg anew")

func sample(t *testing.T) *results {
	t.Helper()
	f, err := os.Open("testdata/rounds.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := parse(f, "tcp", "on")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestParse(t *testing.T) {
	r := sample(t)
	want := &results{
		network: "tcp",
		snappy:  "on",
		header: map[string]string{
			"go": "go1.26.8", "goos": "linux", "goarch": "amd64",
			"pkg": "github.com/go-rlpx/transport/bench", "cpu": "Some <CPU> & Co.",
		},
		procs: "2",
		sizes: []*point{ // in ascending order, without those that only one side ran
			{label: "32B", x: 32, geth: []float64{10, 11}, rlpx: []float64{20, 33}},
			{label: "1KiB", x: 1 << 10, geth: []float64{100, 100}, rlpx: []float64{90, 90}},
			{label: "1MiB", x: 1 << 20, geth: []float64{200, 210}, rlpx: []float64{400, 420}},
		},
		conns: []*point{
			{label: "1", x: 1, geth: []float64{300, 310}, rlpx: []float64{450, 465}},
			{label: "64", x: 64, geth: []float64{320, 330}, rlpx: []float64{960, 990}},
		},
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v", r)
	}
}

func TestParseRefuses(t *testing.T) {
	text, err := os.ReadFile("testdata/rounds.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, network, more, want string }{
		{"network", "udp", "", "neither tcp nor pipe"},
		{"rows that are missing", "pipe", "", "too few rows"},
		{"no number", "tcp", "BenchmarkTCP/size=32B/snappy=on/impl=geth-2 10 x MB/s", "Benchmark"},
		{"not a number", "tcp", "BenchmarkTCP/size=32B/snappy=on/impl=geth-2 10 NaN MB/s", "cannot be drawn"},
		{"zero", "tcp", "BenchmarkTCP/size=32B/snappy=on/impl=geth-2 10 0 MB/s", "cannot be drawn"},
		{"no throughput", "tcp", "BenchmarkTCP/size=32B/snappy=on/impl=geth-2 10 1 ns/op", "no MB/s"},
		{"size", "tcp", "BenchmarkTCP/size=32/snappy=on/impl=geth-2 10 1 MB/s", "no unit"},
		{"size zero", "tcp", "BenchmarkTCP/size=0B/snappy=on/impl=geth-2 10 1 MB/s", "not a size"},
		{"another machine", "tcp", "cpu: Another", "different machines"},
		{"another GOMAXPROCS", "tcp", "BenchmarkTCP/size=32B/snappy=on/impl=geth 10 1 MB/s", "different GOMAXPROCS"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parse(strings.NewReader(string(text)+tc.more+"\n"), tc.network, "on")
			if err == nil || tc.want != "Benchmark" && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Rows without compression are drawn if they are asked for.
func TestParseUncompressed(t *testing.T) {
	text, err := os.ReadFile("testdata/rounds.txt")
	if err != nil {
		t.Fatal(err)
	}
	off := strings.NewReplacer("snappy=on", "snappy=off", "snappy=off", "snappy=on").Replace(string(text))
	got, err := parse(strings.NewReader(off), "tcp", "off")
	if err != nil {
		t.Fatal(err)
	}
	want := sample(t)
	want.snappy = "off"
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if _, err := parse(strings.NewReader(off), "tcp", "on"); err == nil {
		t.Error("rows with compression were found")
	}
	if _, err := parse(strings.NewReader(off), "tcp", "perhaps"); err == nil {
		t.Error("perhaps is on or off")
	}
}

// Nothing is drawn through a ratio: the curves, their bars and the grid end below all of them.
func TestRatiosStandFree(t *testing.T) {
	svg, err := draw(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	lowest, ratios := math.Inf(1), 0
	for _, m := range regexp.MustCompile(`<text x="[^"]*" y="-([\d.]+)"[^>]*>[\d.]+\x{d7}<`).FindAllSubmatch(svg, -1) {
		y, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		lowest, ratios = min(lowest, y), ratios+1
	}
	if ratios != 5 {
		t.Fatalf("%d ratios", ratios)
	}
	// Paths grow upwards, and so do the texts' heights above.
	paths := regexp.MustCompile(`<path d="([^"]*)" style="[^"]*stroke:#`).FindAllSubmatch(svg, -1)
	if len(paths) < 10 {
		t.Fatalf("only %d lines", len(paths))
	}
	for _, path := range paths {
		for _, pt := range regexp.MustCompile(`[\d.]+,([\d.]+)`).FindAllSubmatch(path[1], -1) {
			if y, err := strconv.ParseFloat(string(pt[1]), 64); err != nil || y >= lowest {
				t.Errorf("a line goes up to %v, where the ratios begin at %v: %s", y, lowest, path[1])
				break
			}
		}
	}
}

// TestDraw looks at the document, and compares it with one that was looked at.
func TestDraw(t *testing.T) {
	svg, err := draw(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	again, err := draw(sample(t))
	if err != nil || !bytes.Equal(svg, again) {
		t.Errorf("not the same bytes again, %v", err)
	}
	texts := wellFormed(t, svg)
	for _, want := range []string{
		"Throughput by message size", "Throughput by number of connections",
		"go-ethereum", "this library",
		"32 B", "1 KiB", "1 MiB", "64", "messages of 16 KiB", "million bytes per second",
		"2.50×", "0.90×", "2.00×", "1.50×", "3.00×", // lost rows too
		"Some <CPU> & Co., go1.26.8, linux/amd64, GOMAXPROCS 2",
		"medians of 2 interleaved rounds", "TCP, loopback interface; snappy on",
	} {
		if !strings.Contains(texts, want) {
			t.Errorf("no %q in the texts:\n%s", want, texts)
		}
	}
	for what, color := range map[string]string{"background": "fill:#FFFFFF", "go-ethereum": "stroke:#D55E00", "this library": "stroke:#005A9C"} {
		// A curve in each panel, and more.
		if n := strings.Count(string(svg), color); n < 2 {
			t.Errorf("%s: %d times %s", what, n, color)
		}
	}
	golden := filepath.Join("testdata", "chart.svg")
	if *update {
		if err := os.WriteFile(golden, svg, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(svg, want) {
		t.Error("it differs from testdata/chart.svg; look at it and run the test with -update")
	}
}

// wellFormed parses the document and returns its texts, one a line.
func wellFormed(t *testing.T, svg []byte) string {
	t.Helper()
	var texts strings.Builder
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	for depth := 0; ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			if depth != 0 {
				t.Errorf("%d elements are open at the end", depth)
			}
			return texts.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if depth == 0 && token.Name.Local != "svg" {
				t.Errorf("the root is %s", token.Name.Local)
			}
			depth++
		case xml.EndElement:
			depth--
		case xml.CharData:
			texts.WriteString(strings.TrimSpace(string(token)) + "\n")
		}
	}
}

func TestRound(t *testing.T) {
	for top, want := range map[float64]string{7: "0 2 4 6", 99: "0 20 40 60 80", 100: "0 20 40 60 80 100", 291: "0 50 100 150 200 250", 1336: "0 500 1000", 6: "0 1 2 3 4 5 6"} {
		var labels []string
		for _, tick := range round(top) {
			labels = append(labels, tick.Label)
		}
		if got := strings.Join(labels, " "); got != want {
			t.Errorf("up to %v: %s, want %s", top, got, want)
		}
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out.svg")
	if err := run("tcp", "on", []string{"testdata/rounds.txt", out}); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, svg)
	for _, args := range [][]string{nil, {out}, {filepath.Join(dir, "missing"), out}, {"testdata/rounds.txt", filepath.Join(dir, "no", "such")}} {
		if err := run("tcp", "on", args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
