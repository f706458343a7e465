package main

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"sync"
)

// A verdict is what became of a mutant.
type verdict int

const (
	rejected   verdict = iota // by the proof
	sameEffect                // it does the same as the original, wherever that is executed
	explained                 // it is right for a reason that explanations has
	unexplained
	verdicts
)

var verdictNames = [verdicts]string{"rejected", "same effect", "explained", "NOT EXPLAINED"}

// judge tries the proof on a mutant that has not the same effect as the original.
func (mu *mutant) judge() (verdict, string) {
	k := mu.kernel()
	c := contracts[k.name]
	err := c.check(k)
	if err == nil {
		err = proveAll(k, &c, nil, nil)
	}
	if err != nil {
		return rejected, err.Error()
	}
	if why := mu.explanation(); why != "" {
		return explained, why
	}
	return unexplained, ""
}

// sameEffects runs the proof of a kernel. Wherever that comes to the instructions of a mutant,
// these are executed in a copy of the machine, the original ones in another. It reports which
// mutants always lead to the same registers, flags and memory. Words of tables that are never
// read have no effect, either.
func sameEffects(k *kernel, mutants []*mutant) (map[*mutant]bool, error) {
	at := make([][]*mutant, len(k.code)) // those of which nothing else is known yet
	visited := map[*mutant]bool{}
	for _, mu := range mutants {
		if mu.at >= 0 {
			at[mu.at] = append(at[mu.at], mu)
		}
	}
	read := map[string][]bool{}
	for name, t := range k.file.tables {
		read[name] = make([]bool, len(t.words))
	}
	watch := func(m *machine) {
		for name, r := range read {
			m.regions[name].read = r
		}
		at[m.at()] = slices.DeleteFunc(at[m.at()], func(mu *mutant) bool {
			visited[mu] = true
			same := map[string]value{}
			a, okA := m.after(k.code[mu.at:][:len(mu.changed)], same)
			b, okB := m.after(mu.changed, same)
			if okA && okB && k.flagsUnused(mu.at+len(mu.changed)) {
				a.flags, b.flags = flags{}, flags{}
			}
			return !okA || !okB || !a.equal(b)
		})
	}
	c := contracts[k.name]
	if err := proveAll(k, &c, nil, watch); err != nil {
		return nil, err
	}
	all := map[*mutant]bool{}
	for _, left := range at {
		for _, mu := range left {
			all[mu] = visited[mu]
		}
	}
	for _, mu := range mutants {
		if mu.table != "" && !read[mu.table][mu.word] {
			all[mu] = true
		}
	}
	return all, nil
}

// flagsUnused reports whether the flags before instruction i are replaced before any
// instruction uses them.
func (k *kernel) flagsUnused(i int) bool {
	for ; i < len(k.code); i++ {
		in := &k.code[i]
		switch effect := k.file.arch.flagEffect(in.op); {
		case in.op == "JMP" || in.op == "B":
			i = in.target - 1
		case effect == usesFlags:
			return false
		case effect == setsFlags || in.op == "RET":
			return true
		}
	}
	return false
}

// after is a copy of m after some instructions. It reports false if they fail or jump. What has
// no form is the same if it is made from the same.
func (m *machine) after(code []instr, same map[string]value) (*machine, bool) {
	c := m.clone()
	c.same = same
	if n := len(same); n > 0 { // the numbers of these are taken
		c.others.labels = append(c.others.labels, make([]label, n)...)
	}
	pc := c.pc
	for i := range code {
		c.in = &code[i]
		if code[i].run(c, &code[i]) != nil || c.pc != pc {
			return nil, false
		}
	}
	return c, true
}

// equal reports whether two copies of a machine are in the same state.
func (m *machine) equal(n *machine) bool {
	if m.flags != n.flags || m.dirty != n.dirty || m.returned != n.returned || m.pc != n.pc {
		return false
	}
	mine, theirs := m.allCells(), n.allCells()
	for i := range mine {
		for j, v := range mine[i] {
			w := theirs[i][j]
			if v.kind == address && w.kind == address {
				if v.region.name != w.region.name || v.offset != w.offset {
					return false
				}
			} else if !v.same(w) {
				return false
			}
		}
	}
	return true
}

// mutate judges the mutants of kernels whose names match only, all of them or a sample of the
// given size, and reports. It returns how many are not explained.
func mutate(out io.Writer, files []*file, only *regexp.Regexp, sample int, seed uint64) (int, error) {
	var all []*mutant
	for _, f := range files {
		all = append(all, mutantsOf(f)...)
	}
	all = slices.DeleteFunc(all, func(mu *mutant) bool { return !only.MatchString(mu.was.name) })
	total := len(all)
	if sample > 0 {
		r := rand.New(rand.NewPCG(seed, 0))
		r.Shuffle(total, func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:min(sample, total)]
	}
	fmt.Fprintf(out, "%d of %d mutants, seed %d\n", len(all), total, seed)
	fmt.Fprintf(out, "%-20s", "kernel")
	for _, name := range verdictNames {
		fmt.Fprintf(out, " %12s", name)
	}
	fmt.Fprintln(out)

	var sum [verdicts]int
	reasons := map[string]int{}
	for _, f := range files {
		for _, k := range f.kernels {
			var mine []*mutant
			for _, m := range all {
				if m.was == k {
					mine = append(mine, m)
				}
			}
			if len(mine) == 0 {
				continue
			}
			counts, err := mutateKernel(out, k, mine, reasons)
			if err != nil {
				return 0, err
			}
			fmt.Fprintf(out, "%-20s", k.name)
			for v, n := range counts {
				fmt.Fprintf(out, " %12d", n)
				sum[v] += n
			}
			fmt.Fprintln(out)
		}
	}
	fmt.Fprintf(out, "%-20s", "all")
	for _, n := range sum {
		fmt.Fprintf(out, " %12d", n)
	}
	fmt.Fprintln(out)
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(out, "%d explained: %s\n", reasons[why], why)
	}
	return sum[unexplained], nil
}

// mutateKernel judges the mutants of one kernel.
func mutateKernel(out io.Writer, k *kernel, mutants []*mutant, reasons map[string]int) (counts [verdicts]int, err error) {
	same, err := sameEffects(k, mutants)
	if err != nil {
		return counts, err
	}
	var lock sync.Mutex
	work := make(chan *mutant)
	var done sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		done.Go(func() {
			for m := range work {
				v, why := sameEffect, ""
				if !same[m] {
					v, why = m.judge()
				}
				lock.Lock()
				counts[v]++
				switch v {
				case explained:
					reasons[why]++
				case unexplained:
					fmt.Fprintf(out, "%s: %v\n", verdictNames[v], m)
				}
				lock.Unlock()
			}
		})
	}
	for _, m := range mutants {
		work <- m
	}
	close(work)
	done.Wait()
	return counts, nil
}
