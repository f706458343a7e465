package main

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/rlpx"
)

// mainnetGenesis is the hash of block 0 of the main network, whose id is 1.
const mainnetGenesis = "0xd4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run is the program: it prints what the node says of itself and a line for each header.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("lightclient", flag.ContinueOnError)
	flags.SetOutput(out)
	id := flags.Uint64("network", 1, "network `id`")
	genesis := flags.String("genesis", mainnetGenesis, "`hash` of the network's block 0")
	from := flags.Uint64("from", 0, "`number` of the first header")
	count := flags.Uint64("count", 10, "how many headers to fetch")
	timeout := flags.Duration("timeout", 10*time.Second, "longest time for all of it up to Status, and for each answer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("lightclient: want one enode URL")
	}
	network := Network{ID: *id}
	if digits, err := hex.DecodeString(strings.TrimPrefix(*genesis, "0x")); err != nil || len(digits) != len(network.Genesis) {
		return fmt.Errorf("lightclient: -genesis %q is no hash", *genesis)
	} else {
		network.Genesis = Hash(digits)
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		return err
	}
	within := func(f func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, *timeout)
		defer cancel()
		return f(ctx)
	}
	var c *Client
	if err := within(func(ctx context.Context) (err error) {
		c, err = Dial(ctx, flags.Arg(0), &rlpx.Config{Key: key}, network)
		return err
	}); err != nil {
		return err
	}
	defer c.Close()
	s := c.Status()
	fmt.Fprintf(out, "%s, eth/%d, network %d, newest block %v\n", c.Session().Remote().PrintableName(), s.Version, s.Network, s.HeadHash)

	const atOnce = 192
	var last *Header
	for next, left := *from, *count; left > 0; {
		var headers []*Header
		if err := within(func(ctx context.Context) (err error) {
			headers, err = c.HeadersFrom(ctx, next, min(left, atOnce))
			return err
		}); err != nil {
			return err
		}
		if last != nil && headers[0].Parent != last.Hash() {
			return fmt.Errorf("%w: number %d is no child of %d", ErrHeaders, next, last.Number)
		}
		last = headers[len(headers)-1]
		for _, h := range headers {
			fmt.Fprintf(out, "%10d  %v  %s\n", h.Number, h.Hash(), time.Unix(int64(h.Time), 0).UTC().Format(time.DateTime))
		}
		next, left = next+uint64(len(headers)), left-uint64(len(headers))
	}
	return nil
}
