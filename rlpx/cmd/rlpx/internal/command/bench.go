package command

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/measure"
)

const (
	// maxBenchConns keeps file descriptors, two for each connection, to what most systems allow.
	maxBenchConns = 2048

	// maxBenchBytes bounds connections times message size. go-ethereum holds every message about
	// three times, so this comes to some 3 GiB.
	maxBenchBytes = 1 << 30
)

func (e *env) benchCommand() *cli.Command {
	return &cli.Command{
		Name:  "bench",
		Usage: "compare with go-ethereum's transport, or measure an echo",
		Description: "Without -to, go-ethereum's transport and this one carry the same messages over connections within\n" +
			"this process, in turns, by message size and by number of connections. Two connections of this library\n" +
			"or more share hashing (Config.SharedHashing), which is off by default. With -to, messages go to a\n" +
			"peer that runs 'rlpx serve', and back. All contents are compared. Ctrl-C ends it and leaves what was\n" +
			"measured so far. Sizes are in bytes, KiB or MiB (32,1KiB,1MiB), in short k or m.\n\n" +
			"With -kernels, it is Keccak alone that is measured, which most of the time for a message goes into: every\n" +
			"tier of this machine, with one to eight states at once, beside other libraries. The result says which tier\n" +
			"is in use and whether that is the fastest, and can be pasted into a report. The environment variable\n" +
			measure.KernelVariable + " makes a program with this library use a tier by its name.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "to", Usage: "measure the echo of the node `ENODE` instead"},
			&cli.BoolFlag{Name: "kernels", Usage: "measure the ways to compute Keccak instead"},
			&cli.StringFlag{Name: "sizes", Usage: "message `SIZES`, separated by commas", Value: "32,1KiB,16KiB,128KiB,1MiB"},
			&cli.StringFlag{Name: "conns", Usage: "`NUMBERS` of connections, separated by commas; not with -to", Value: "1,4,16,64"},
			&cli.IntFlag{Name: "rounds", Usage: "measure everything `N` times; medians are shown, with -kernels the best", Value: 5},
			&cli.DurationFlag{Name: "time", Usage: "`DURATION` of one measurement", Value: 100 * time.Millisecond},
			&cli.BoolFlag{Name: "pipe", Usage: "connections over net.Pipe instead of TCP on the loopback interface; not with -to"},
			&cli.BoolFlag{Name: "snappy", Value: true, Usage: "compress messages, as all peers do; -snappy=false does not; not with -to, where Hello decides"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object for each row"},
			&cli.DurationFlag{Name: "timeout", Usage: "longest `WAIT` for the connection, for the handshakes and for an echo; only with -to", Value: 5 * time.Second},
			keyFlag(),
			keyLogFlag(),
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := noArguments(cmd); err != nil {
				return err
			}
			b := &bench{env: e, rounds: cmd.Int("rounds"), each: cmd.Duration("time"), json: cmd.Bool("json")}
			var err error
			if b.sizes, err = numbers(cmd, "sizes", parseSize, measure.MaxSize); err != nil {
				return err
			}
			switch {
			case b.rounds < 1:
				return usagef(cmd, "-rounds must be positive")
			case b.each <= 0:
				return usagef(cmd, "-time must be positive")
			}
			switch {
			case cmd.Bool("kernels"):
				return b.kernels(ctx, cmd)
			case cmd.IsSet("to"):
				return b.echo(ctx, cmd)
			default:
				return b.compare(ctx, cmd)
			}
		},
	}
}

// bench is one run of the bench command.
type bench struct {
	*env
	sizes  []int
	rounds int
	each   time.Duration // of a measurement
	json   bool
}

// onlyWith fails if one of the flags is set, which have no meaning with or without another.
func onlyWith(cmd *cli.Command, how string, flags ...string) error {
	for _, name := range flags {
		if cmd.IsSet(name) {
			return usagef(cmd, "-%s has no meaning %s", name, how)
		}
	}
	return nil
}

// compare measures both implementations.
func (b *bench) compare(ctx context.Context, cmd *cli.Command) error {
	if err := onlyWith(cmd, "without -to", "timeout", "key", "keylog"); err != nil {
		return err
	}
	conns, err := numbers(cmd, "conns", strconv.Atoi, maxBenchConns)
	if err != nil {
		return err
	}
	if n := int64(slices.Max(conns)) * int64(slices.Max(b.sizes)); n > maxBenchBytes {
		return usagef(cmd, "-conns and -sizes: %d connections with messages of %s would need too much memory", slices.Max(conns), sizeName(slices.Max(b.sizes)))
	}
	c := newComparison(b, conns, cmd.Bool("pipe"), cmd.Bool("snappy"))
	return b.run(ctx, c)
}

// echo measures a peer.
func (b *bench) echo(ctx context.Context, cmd *cli.Command) error {
	if err := onlyWith(cmd, "with -to", "conns", "pipe", "snappy"); err != nil {
		return err
	}
	r := &echoing{bench: b, timeout: cmd.Duration("timeout")}
	if r.timeout <= 0 {
		return usagef(cmd, "-timeout must be positive")
	}
	var err error
	if r.to, err = parseTarget(cmd.String("to")); err != nil {
		return usagef(cmd, "-to: %w", err)
	}
	key, err := b.nodeKey(cmd)
	if err != nil {
		return err
	}
	cfg := rlpx.Config{Key: key}
	if err := b.openKeyLog(cmd, &cfg); err != nil {
		return err
	}
	if err := r.dial(ctx, &cfg); err != nil {
		return err
	}
	defer r.session.Close()
	return b.run(ctx, r)
}

// subject is what is measured in rows and rounds.
type subject interface {
	title() string

	// rows is how many there are, and steps how long one takes, in measurements.
	rows() (n, steps int)

	// measure measures a row once more and returns the bytes that were carried.
	measure(ctx context.Context, row, round int) (bytes int64, err error)

	// table describes all rows, and record a row that was measured.
	table() table
	record(row int) any

	// done is how often a row was measured.
	done(row int) int
}

// run measures every row in every round, while somebody watches, and prints the results. Between
// two rounds of a row all others have their turn, so that nothing that comes and goes on the
// machine hits only one.
func (b *bench) run(ctx context.Context, s subject) error {
	rows, steps := s.rows()
	view := b.newView(s, duration(float64(rows*steps)*float64(b.rounds)*float64(b.each)))
	var err error
	var moved int64
measuring:
	for round := range b.rounds {
		for row := range rows {
			view.show(round, row, moved)
			var n int64
			if n, err = s.measure(ctx, row, round); err != nil {
				break measuring
			}
			moved += n
		}
	}
	if err != nil && ctx.Err() != nil {
		err = errInterrupted
	}
	view.finish()
	return err
}

// duration is so many nanoseconds, at most some decades, of which no small multiple overflows.
func duration(nanoseconds float64) time.Duration {
	return time.Duration(min(nanoseconds, math.MaxInt64/8))
}

// numbers parses a flag that is a list of positive numbers, and sorts it.
func numbers(cmd *cli.Command, flag string, parse func(string) (int, error), limit int) (list []int, err error) {
	for field := range strings.SplitSeq(cmd.String(flag), ",") {
		n, err := parse(strings.TrimSpace(field))
		switch {
		case err != nil && !errors.Is(err, strconv.ErrRange):
			return nil, usagef(cmd, "-%s: %q is no number, with or without KiB or MiB", flag, field)
		case err != nil || n < 1 || n > limit:
			return nil, usagef(cmd, "-%s: %s is not between 1 and %d", flag, strings.TrimSpace(field), limit)
		}
		list = append(list, n)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// parseSize parses a number of bytes, KiB or MiB.
func parseSize(text string) (int, error) {
	unit := 1
	for _, u := range []struct {
		suffix string
		bytes  int
	}{{"kib", kib}, {"mib", mib}, {"kb", kib}, {"mb", mib}, {"k", kib}, {"m", mib}, {"b", 1}} {
		if number, ok := strings.CutSuffix(strings.ToLower(text), u.suffix); ok {
			text, unit = strings.TrimSpace(number), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 32) // so that the product fits, if there are 64 bits for it
	if err != nil {
		return 0, err
	}
	return int(min(n*int64(unit), 1<<31-1)), nil
}

// sizeName is short for a number of bytes that parseSize would read.
func sizeName(n int) string {
	switch {
	case n%mib == 0:
		return fmt.Sprintf("%d MiB", n/mib)
	case n%kib == 0:
		return fmt.Sprintf("%d KiB", n/kib)
	default:
		return fmt.Sprintf("%d B", n)
	}
}

// perSecond prints a number of bytes a second.
func perSecond(rate float64) string { return byteCount(int64(rate)) + "/s" }
