package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A diagnosis says which instructions may be wrong.
type diagnosis struct {
	k        *kernel
	what     string
	suspects []int // lines
}

// maxSuspects is how many lines a message names.
const maxSuspects = 12

func (d *diagnosis) Error() string {
	var b strings.Builder
	at := d.k.line
	if len(d.suspects) > 0 {
		at = d.suspects[0]
	}
	fmt.Fprintf(&b, "%s:%d: %s: %s", d.k.file.path, at, d.k.name, d.what)
	if len(d.suspects) == 0 {
		return b.String()
	}
	b.WriteString(". What is wrong is among, or before, or missing beside")
	for i, line := range d.suspects {
		if i == maxSuspects {
			fmt.Fprintf(&b, "\n\tand %d more", len(d.suspects)-i)
			break
		}
		fmt.Fprintf(&b, "\n\t%s:%d: %s", d.k.file.path, line, d.k.text(line))
	}
	return b.String()
}

// text is what is at a line.
func (k *kernel) text(line int) string {
	for _, in := range k.code {
		if in.line == line {
			return in.String()
		}
	}
	for _, t := range k.file.tables {
		if i := slices.Index(t.lines, line); i >= 0 {
			return fmt.Sprintf("DATA %s<>+%d(SB)/8, $%#016x", t.name, laneBytes*i, t.words[i])
		}
	}
	return "?"
}

// suspects are the lines that all failures depend on, but nothing that is right; or, if there are none,
// that all failures depend on.
func suspects(failed []*cone, right *cone) []int {
	var common, best []int
	for _, line := range failed[0].lines() {
		if slices.ContainsFunc(failed, func(c *cone) bool { return !c.has(line) }) {
			continue
		}
		common = append(common, line)
		if !right.has(line) {
			best = append(best, line)
		}
	}
	switch {
	case len(best) > 0:
		return best
	case len(common) > 0:
		return common
	}
	return failed[0].lines()
}

// explain finds the instructions that a failed proof points at.
func (t *trace) explain(err error) error {
	var r *resultError
	switch {
	case errors.Is(err, errStalled), errors.Is(err, errIncomplete):
		for s, st := range t.c.states {
			for level := 1; st.used && level <= roundCount; level++ {
				if d := t.explainRound(cut{s, level}); d != nil {
					return d
				}
			}
		}
		return err
	case !errors.As(err, &r):
		return err // it points at one
	}
	f, _ := r.want.terms[0].factors()
	s, level, _ := laneOf(f.atom())
	for l := 1; l <= level; l++ {
		if d := t.explainRound(cut{s, l}); d != nil {
			return d
		}
	}
	// The lane was computed, but not brought to its place, or something else was.
	d := &diagnosis{k: t.k, what: r.Error()}
	for _, st := range t.stores {
		switch {
		case st.where.region == r.where.region && st.where.offset == r.where.offset:
			d.suspects = append(d.suspects, st.line)
		case st.same(r.want):
			d.what += fmt.Sprintf("; line %d stores that at %s+%d", st.line, st.where.region.name, st.where.offset)
			d.suspects = append(d.suspects, st.line)
		}
	}
	if level == 0 {
		d.what += " (a state that must be left as it is)"
	}
	for _, line := range r.got.cone.lines() {
		if !slices.Contains(d.suspects, line) {
			d.suspects = append(d.suspects, line)
		}
	}
	return d
}

// explainRound says what is wrong with the lanes at c, or nil if all are there.
func (t *trace) explainRound(c cut) error {
	var failed []*cone
	var missing []string
	var lines []string
	first := drop{}
	for i := range laneCount {
		if t.m.found[c.state][c.level]>>i&1 != 0 {
			continue
		}
		missing = append(missing, fmt.Sprintf("(%d, %d)", i%5, i/5))
		v, share := t.nearest(c, i)
		if v.cone == nil {
			continue
		}
		failed = append(failed, v.cone)
		lines = append(lines, fmt.Sprintf("line %d has %d %% of its terms", v.line, share))
		if d, ok := t.dropIn(v.form); ok && (first.cone == nil || d.turn < first.turn) {
			first = d
		}
	}
	if len(missing) == 0 {
		return nil
	}
	d := &diagnosis{k: t.k}
	if first.cone != nil {
		return t.explainDrops(first.turn)
	}
	d.what = fmt.Sprintf("round %d: nothing computes lanes %s of state %d as specified", c.level, strings.Join(missing, " "), c.state)
	if len(failed) > 0 {
		d.what += " (" + lines[0] + ")"
		d.suspects = suspects(failed, t.passed[c])
	}
	return d
}

// dropIn finds the earliest dropped fact that v depends on.
func (t *trace) dropIn(v form) (first drop, ok bool) {
	for _, u := range v.terms {
		f, g := u.factors()
		for _, a := range [2]factor{f, g} {
			if a == 0 || isLane(a.atom()) || isBlock(a.atom()) {
				continue
			}
			if d, isDrop := t.drops[t.m.others.name(a.atom())]; isDrop && (!ok || d.turn < first.turn) {
				first, ok = d, true
			}
		}
	}
	return first, ok
}

// explainDrops says which of the facts that were dropped in one turn matter: those that values of
// the first round depend on.
func (t *trace) explainDrops(turn int) error {
	var why []string
	var failed []*cone
	var right *cone
	for _, all := range t.nearly {
		for _, v := range all {
			for _, u := range v.terms {
				f, g := u.factors()
				for _, a := range [2]factor{f, g} {
					if a == 0 || isLane(a.atom()) || isBlock(a.atom()) {
						continue
					}
					name := t.m.others.name(a.atom())
					if d, ok := t.drops[name]; ok && d.turn == turn && !slices.Contains(why, name) {
						why = append(why, name)
						right = d.held
						if d.cone != nil {
							failed = append(failed, d.cone)
						}
					}
				}
			}
		}
	}
	slices.Sort(why)
	d := &diagnosis{k: t.k, what: "after absorbing a block: " + why[0]}
	if len(why) > 1 {
		d.what += fmt.Sprintf(", and %d more", len(why)-1)
	}
	if len(failed) > 0 {
		d.suspects = suspects(failed, right)
	}
	return d
}
