// Command table reads the output of interleaved rounds of the benchmarks, from
// the named files or standard input, and prints the results as Markdown: the
// goals, the rows where this library is slower, every row, and what the shared queue and a Trace gain and cost.
//
// A ratio is what go-ethereum needed divided by what this library needed, taken in each round by
// itself, in which the two ran one right after the other; the median of the rounds is shown, and the lowest and
// highest. "best" compares the best round of each, and "CPU" is the median for CPU time.
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
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: table [FILE]...   the output of go test -bench; standard input if no file is given")
	}
	flag.Parse()
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
	render(os.Stdout, r)
}
