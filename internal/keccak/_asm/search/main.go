// Command search looks for an order of a kernel's instructions that is faster than the present
// one. Run it in the module _asm, on a machine that is quiet:
//
//	go run ./search -order quad    for permute4AVX2
//	go run ./search -order lines   for permuteAVX512, on a machine that has AVX-512
//
// It moves steps of the order at random. A move that breaks a dependency is refused by the
// generator or by the proof. A kernel that is left is run in turns with the best one so far, and
// takes its place if it is faster. At the end the best order is printed, as the generator's flag of
// the same name and the list in its source take it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/cpu"
)

// A target is an order to search, and the kernel that is measured.
type target struct {
	kernel string
	call   string // what the measuring program calls, with %s for the kernel
	has    func() bool
	needs  string
}

var targets = map[string]target{
	"quad": {"permute4AVX2", "%s(&group, &data, blocks)", func() bool { return cpu.X86.HasAVX2 && cpu.X86.HasBMI2 }, "AVX2 and BMI2"},
	"lines": {"permuteAVX512", "%s(&single, &block[0], blocks)", func() bool {
		return cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasBMI2
	}, "AVX-512F, AVX-512VL and BMI2"},
}

func main() {
	s := search{out: os.Stdout}
	flag.StringVar(&s.name, "order", "quad", "which order: quad or lines")
	flag.IntVar(&s.candidates, "n", 1000, "how many orders to measure")
	flag.IntVar(&s.turns, "turns", 31, "how often each of two kernels is run to compare them")
	flag.IntVar(&s.calls, "calls", 200, "how many calls are timed at once; each permutes 32 times")
	flag.Uint64Var(&s.seed, "seed", 1, "of the random moves")
	flag.StringVar(&s.asm, "asm", ".", "the directory of the generator")
	flag.Parse()
	if _, err := s.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A search is what to search, and how.
type search struct {
	name       string
	candidates int
	turns      int
	calls      int
	seed       uint64
	asm        string
	out        io.Writer

	target target
	bench  *bench
	random *rand.Rand
}

// needed is how much faster a kernel must be to be taken: less may be chance.
const needed = 0.997

// maxRefused is how many moves in a row may be refused.
const maxRefused = 1000

// errRefused says that an order is not possible.
var errRefused = errors.New("the order is not possible")

// run searches. It returns the best order.
func (s *search) run() (best []string, err error) {
	t, ok := targets[s.name]
	switch {
	case !ok:
		return nil, fmt.Errorf("there is no order %q, but quad and lines", s.name)
	case runtime.GOARCH != "amd64" || !t.has():
		return nil, fmt.Errorf("the order %s is that of %s, which this processor cannot run: it needs %s", s.name, t.kernel, t.needs)
	}
	s.target, s.random = t, rand.New(rand.NewPCG(s.seed, 0))
	if s.bench, err = newBench(s); err != nil {
		return nil, err
	}
	defer s.bench.close()
	present, err := s.bench.present()
	if err != nil {
		return nil, err
	}
	best = present
	if err := s.bench.keep(best); err != nil {
		return nil, fmt.Errorf("the present order: %w", err)
	}
	for n, refused := 0, 0; n < s.candidates; {
		order := s.move(best)
		ratio, err := s.bench.compare(order)
		if errors.Is(err, errRefused) {
			if refused++; refused > maxRefused {
				return nil, fmt.Errorf("%d moves in a row were refused, the last: %w", refused, err)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		n, refused = n+1, 0
		// What seems faster must be so twice.
		if ratio < needed {
			if ratio, err = s.bench.measure(); err != nil {
				return nil, err
			}
		}
		taken := ratio < needed
		fmt.Fprintf(s.out, "%d: %.4f of the time of the best so far%s\n", n, ratio, map[bool]string{true: ", taken"}[taken])
		if taken {
			best = order
			if err := s.bench.keep(best); err != nil {
				return nil, err
			}
		}
	}
	if slices.Equal(best, present) {
		fmt.Fprintln(s.out, "No order was faster than the present one:")
	} else {
		if err := s.bench.keep(present); err != nil {
			return nil, err
		}
		ratio, err := s.bench.compare(best)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(s.out, "The best order takes %.4f of the time of the present one:\n", ratio)
	}
	fmt.Fprint(s.out, wrapped(best))
	return best, nil
}

// move brings one step of an order, or a few that follow each other, to another place.
func (s *search) move(order []string) []string {
	n := 1 + s.random.IntN(3)
	from := s.random.IntN(len(order) - n)
	moved := slices.Clone(order[from : from+n])
	rest := slices.Delete(slices.Clone(order), from, from+n)
	// Most moves over a short distance are possible.
	to := from + 1 + s.random.IntN(12)
	if s.random.IntN(2) == 0 {
		to = from - 1 - s.random.IntN(12)
	}
	return slices.Insert(rest, min(max(to, 0), len(rest)), moved...)
}

// wrapped has an order in lines, as it is in the generator's source.
func wrapped(order []string) string {
	const width = 96
	var b strings.Builder
	column := 0
	for _, step := range order {
		switch {
		case column == 0:
			b.WriteByte('\t')
		case column+1+len(step) > width:
			b.WriteString("\n\t")
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(step)
		column += len(step)
	}
	b.WriteByte('\n')
	return b.String()
}
