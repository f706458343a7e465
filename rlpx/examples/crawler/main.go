package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run is the program: it prints a line for each node, and how often each outcome came.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("crawler", flag.ContinueOnError)
	flags.SetOutput(out)
	file := flags.String("file", "", "`file` with an enode URL in each line; - for standard input")
	timeout := flags.Duration("timeout", 5*time.Second, "longest time for connecting to a node, and again for the handshakes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *timeout <= 0 {
		return errors.New("crawler: -timeout must be positive")
	}
	urls := flags.Args()
	if *file != "" {
		more, err := readList(*file)
		if err != nil {
			return err
		}
		urls = append(urls, more...)
	}
	if len(urls) == 0 {
		return errors.New("crawler: no nodes, give enode URLs or -file")
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		return err
	}
	counts := map[Outcome]int{}
	New(key, *timeout, nil).Crawl(ctx, slices.Values(urls), func(r Result) {
		counts[r.Outcome]++
		fmt.Fprintln(out, r)
	})
	visited := 0
	for _, n := range counts {
		visited += n
	}
	fmt.Fprintf(out, "\n%d of %d nodes\n", visited, len(urls))
	for _, o := range slices.SortedFunc(maps.Keys(counts), func(a, b Outcome) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	}) {
		fmt.Fprintf(out, "%5d  %s\n", counts[o], o)
	}
	return ctx.Err()
}

// String is the result in one line, safe to print whatever the node and the list say.
func (r Result) String() string {
	where := "?"
	if node, err := p2p.ParseNode(r.URL); err == nil {
		where = node.Addr()
	}
	switch {
	case r.Outcome == Met:
		return fmt.Sprintf("%s  %v", where, r.Hello)
	case r.Hello != nil:
		return fmt.Sprintf("%s  %s (%v)", where, r.Outcome, r.Hello)
	}
	return fmt.Sprintf("%s  %s (%v)", where, r.Outcome, r.Err)
}

// readList reads the lines of a file.
func readList(name string) (urls []string, err error) {
	file := os.Stdin
	if name != "-" {
		if file, err = os.Open(name); err != nil {
			return nil, err
		}
		defer file.Close()
	}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			urls = append(urls, line)
		}
	}
	return urls, lines.Err()
}
