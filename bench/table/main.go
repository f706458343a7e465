// Command table reads the output of interleaved rounds of the benchmarks, from the named files or
// standard input, and prints the results as Markdown: the headline of the library's README, the
// goals, the rows where this library is slower, every row, and what the shared queue and a Trace
// gain and cost.
//
// Peers compress, and so does the headline, unless -snappy off is given. With -headline it comes
// alone.
//
// A ratio is what go-ethereum needed divided by what this library needed, taken in each round by
// itself, in which the two ran one right after the other; the median of the rounds is shown, and
// the lowest and highest. "best" compares the best round of each, and "CPU" is the median for CPU
// time.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("table: ")
	alone := flag.Bool("headline", false, "print the headline and nothing else")
	snappy := flag.String("snappy", "on", "compression in the headline, `on or off`")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: table [-headline] [-snappy on|off] [FILE]...\n"+
			"A FILE is the output of go test -bench; standard input if there is none.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *snappy != "on" && *snappy != "off" {
		log.Fatalf("-snappy: %q is neither on nor off", *snappy)
	}
	var in io.Reader = os.Stdin
	if flag.NArg() > 0 {
		var files []io.Reader
		for _, name := range flag.Args() {
			f, err := os.Open(name)
			if err != nil {
				log.Fatal(err)
			}
			defer f.Close()
			files = append(files, f)
		}
		in = io.MultiReader(files...)
	}
	r, err := parse(in)
	if err == nil && len(r.rows) == 0 && len(r.paired) == 0 {
		err = fmt.Errorf("no benchmark was run by both implementations, and none of pairs")
	}
	if err != nil {
		log.Fatal(err)
	}
	if *alone {
		renderHeadline(os.Stdout, r, *snappy)
	} else {
		render(os.Stdout, r, *snappy)
	}
}
