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
	sharp    bool  // nothing that is right depends on them
	right    *cone // what depends on these is right, as far as that is known
	repair   string
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
	if d.repair != "" {
		fmt.Fprintf(&b, ". A change makes it right:\n\t%s:%d: %s: %s", d.k.file.path, at, d.k.text(at), d.repair)
		return b.String()
	}
	if len(d.suspects) == 0 {
		return b.String()
	}
	b.WriteString(". What is wrong is among these, or missing beside them:")
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

// suspects are the lines that all failures depend on, but nothing that is right; or, if there
// are none, that all failures depend on, which says less.
func suspects(failed []*cone, right *cone) (lines []int, sharp bool) {
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
		return best, true
	case len(common) > 0:
		return common, false
	}
	return failed[0].lines(), false
}

// explain finds the instructions that a failed proof points at.
func (t *trace) explain(err error) error {
	err = t.diagnose(err)
	var d *diagnosis
	if errors.As(err, &d) {
		for _, right := range t.passed {
			d.right = d.right.union(right, 0)
		}
	}
	return err
}

func (t *trace) diagnose(err error) error {
	var r *resultError
	switch {
	case errors.Is(err, errStalled), errors.Is(err, errIncomplete):
		for level := 1; level <= roundCount; level++ {
			for _, s := range t.m.used {
				if d := t.explainRound(cut{s, level}); d != nil {
					return d
				}
			}
		}
		return &diagnosis{k: t.k, what: err.Error()}
	case !errors.As(err, &r):
		return err // it points at one
	}
	f, _ := r.want.terms[0].factors()
	if !isLane(f.atom()) {
		return err
	}
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
	if t.m.found[c.state][c.level] == 1<<laneCount-1 {
		return nil
	}
	if clashes := t.clashes(cut{c.state, c.level - 1}); len(clashes) > 0 {
		return &diagnosis{k: t.k, what: fmt.Sprintf("two lanes of state %d are stored in one place after round %d", c.state, c.level-1), suspects: clashes, sharp: true}
	}
	var missing []step
	for i, lane := range rounds.lane {
		if t.m.found[c.state][c.level]>>i&1 == 0 {
			missing = append(missing, step{fmt.Sprintf("lane (%d, %d)", i%5, i/5), lane})
		}
	}
	// Lanes that are not there after a block are the first thing to tell.
	turn := 0
	for _, v := range slices.Concat(t.nearly[c], t.nearly[cut{}], t.linear[c], t.linear[cut{}]) {
		if d, ok := t.dropIn(v.form); ok && (turn == 0 || d.turn < turn) {
			turn = d.turn
		}
	}
	if turn > 0 {
		return t.explainDrops(turn)
	}
	// Then steps that are missing, parities or lanes after theta.
	const parities = 5
	for _, part := range [2][2]int{{0, parities}, {parities, len(steps.all)}} {
		var left []step
		for i := part[0]; i < part[1]; i++ {
			if !t.steps[c][i] {
				left = append(left, steps.all[i])
			}
		}
		if near := t.closest(c, left, t.linear[c]); len(near) > 0 {
			return t.roundDiagnosis(c, left, near)
		}
	}
	d := t.roundDiagnosis(c, missing, t.closest(c, missing, t.nearly[c]))
	if !d.sharp && len(t.lost[c]) > 0 {
		// Instructions whose results have no form were not meant like that.
		d.suspects, d.sharp = suspects(t.lost[c][:1], t.passed[c])
	}
	return d
}

// closest has the candidate for each step that is most like it, if there is any.
func (t *trace) closest(c cut, missing []step, all []candidate) (near []candidate) {
	for _, s := range missing {
		if v, share := nearest(all, s.form); v.cone != nil && share >= 60 {
			near = append(near, v)
		}
	}
	return near
}

func (t *trace) roundDiagnosis(c cut, missing []step, near []candidate) *diagnosis {
	var names []string
	for _, s := range missing {
		names = append(names, s.name)
	}
	if len(missing) == laneCount {
		names = []string{"any lane"}
	}
	d := &diagnosis{k: t.k, what: fmt.Sprintf("round %d of state %d: nothing computes %s as specified", c.level, c.state, strings.Join(names, ", "))}
	if len(near) > 0 {
		if near[0].line > 0 {
			d.what += fmt.Sprintf(" (line %d comes near)", near[0].line)
		}
		var failed []*cone
		for _, v := range near {
			failed = append(failed, v.cone)
		}
		d.suspects, d.sharp = suspects(failed, t.passed[c])
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
			if d, isDrop := t.drops[t.m.others.name(a.atom())]; isDrop && d.lane && (!ok || d.turn < first.turn) {
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
	var stores []int
	var failed []*cone
	var right *cone
	for name, d := range t.drops {
		if d.turn == turn && d.lane && t.isUsed(name) {
			why = append(why, name)
			right = d.held
			stores = append(stores, d.stores...)
			if d.cone != nil {
				failed = append(failed, d.cone)
			}
		}
	}
	slices.Sort(why)
	d := &diagnosis{k: t.k, what: "after absorbing a block: " + why[0]}
	if len(why) > 1 {
		d.what += fmt.Sprintf(", and %d more", len(why)-1)
	}
	if len(failed) > 0 {
		d.suspects, d.sharp = suspects(failed, right)
	}
	if len(why) <= 8 { // states
		d.suspects = append(stores, d.suspects...)
	}
	return d
}

// isUsed reports whether values of the first round depend on a dropped fact.
func (t *trace) isUsed(name string) bool {
	for _, some := range [2]map[cut][]candidate{t.nearly, t.linear} {
		for _, all := range some {
			for _, v := range all {
				for _, u := range v.terms {
					f, g := u.factors()
					for _, a := range [2]factor{f, g} {
						if a != 0 && !isLane(a.atom()) && !isBlock(a.atom()) && t.m.others.name(a.atom()) == name {
							return true
						}
					}
				}
			}
		}
	}
	return false
}
