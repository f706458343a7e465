// Command chart draws what the benchmarks measured:
//
//	cd bench/chart && go run . rounds.txt ../throughput.svg
//
// It reads the output of rounds of BenchmarkTCP and BenchmarkConns (with -net pipe, of
// BenchmarkPipe), from the named files, and writes an SVG of two panels, throughput by message size
// and by number of connections, for go-ethereum's transport and this one. Peers compress, and so do
// the rows that are drawn, unless -snappy off is given. A point is the median of the rounds, the
// bar through it goes from the lowest to the highest, and the number above the panel is the median
// of the ratios of each round. The same input gives the same bytes.
//
// It is a module of its own, so that nobody else needs the plotting library.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("chart: ")
	network := flag.String("net", "tcp", "`NETWORK` of the rows to draw, tcp or pipe")
	snappy := flag.String("snappy", "on", "compression in the rows to draw, `on or off`")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: chart [-net tcp|pipe] [-snappy on|off] ROUNDS... OUT.svg")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(*network, *snappy, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func run(network, snappy string, args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("the rounds or the SVG to write are missing (see -help)")
	}
	in, out := args[:len(args)-1], args[len(args)-1]
	var text []io.Reader
	for _, name := range in {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text = append(text, bytes.NewReader(data), bytes.NewReader([]byte{'\n'}))
	}
	r, err := parse(io.MultiReader(text...), network, snappy)
	if err != nil {
		return err
	}
	svg, err := draw(r)
	if err != nil {
		return err
	}
	return os.WriteFile(out, svg, 0o644)
}
