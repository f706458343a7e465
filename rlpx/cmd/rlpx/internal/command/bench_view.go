package command

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// table is the results so far.
type table struct {
	head []string
	rows [][]string // an empty cell was not measured
	note string
}

// String prints numbers under each other, to the right.
func (t table) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{t.head}, t.rows...) {
		for _, cell := range row {
			if cell == "" {
				cell = "-"
			}
			fmt.Fprint(w, cell, "\t")
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // into memory
	return text.String()
}

// view shows a subject while it is measured, and in the end: on a terminal the table, rewritten
// whenever a row comes in; else the progress on the standard error, and in the end the table or a
// line of JSON for each row.
type view struct {
	*bench
	subject  subject
	total    time.Duration // about what all of it takes
	screen   *screen       // nil: none
	progress *progress     // nil if there is a screen
}

func (b *bench) newView(s subject, total time.Duration) *view {
	v := &view{bench: b, subject: s, total: total}
	if !b.json {
		b.out.printf("%s\n", s.title())
		v.screen = newScreen(b.out)
	}
	if v.screen == nil {
		v.showProgress()
	}
	return v
}

func (v *view) showProgress() {
	v.progress = newProgress(v.err, isTerminal(v.err), "bench", v.total)
}

// text is the table and a line below it.
func (v *view) text(round, row int) string {
	rows, _ := v.subject.rows()
	left := v.total - v.elapsed(round, row)
	return fmt.Sprintf("%sround %d of %d, row %d of %d, about %s left\n", v.subject.table(), round+1, v.rounds, row+1, rows, left.Round(time.Second/10))
}

// show shows how far it is.
func (v *view) show(round, row int, moved int64) {
	if v.screen != nil {
		text := v.text(round, row)
		if v.screen.fits(text) {
			v.screen.draw(text)
			return
		}
		v.screen = nil
		v.showProgress()
	}
	v.progress.show(v.elapsed(round, row), moved)
}

// elapsed is what it should have taken up to a row.
func (v *view) elapsed(round, row int) time.Duration {
	rows, _ := v.subject.rows()
	return duration(float64(v.total) * (float64(round) + float64(row)/float64(rows)) / float64(v.rounds))
}

// finish prints the results.
func (v *view) finish() {
	rows, _ := v.subject.rows()
	if v.progress != nil {
		v.progress.finish()
	}
	if v.json {
		for row := range rows {
			if v.subject.done(row) == 0 {
				continue
			}
			line, err := json.Marshal(v.subject.record(row))
			if err != nil {
				panic(err) // numbers and texts
			}
			v.out.printf("%s\n", line)
		}
		return
	}
	if v.subject.done(0) == 0 {
		return
	}
	t := v.subject.table()
	text := fmt.Sprintf("%s\n%s\n", t, t.note)
	if n := v.subject.done(rows - 1); n < v.rounds {
		text += fmt.Sprintf("Ended early, after %d of %d rounds.\n", n, v.rounds)
	}
	if v.screen != nil {
		v.screen.draw(text)
		return
	}
	v.out.printf("%s", text)
}

// screen is a text on a terminal that is written over the one before.
type screen struct {
	out   *output
	size  func() (width, height int, err error)
	lines int // of the text that is there
}

// newScreen returns nil if out is no terminal.
func newScreen(out *output) *screen {
	if !isTerminal(out.w) {
		return nil
	}
	fd := int(out.w.(*os.File).Fd())
	return &screen{out: out, size: func() (int, int, error) { return term.GetSize(fd) }}
}

// fits reports whether there is room for the text: what has left the screen or was wrapped
// cannot be written over.
func (s *screen) fits(text string) bool {
	width, height, err := s.size()
	if err != nil || strings.Count(text, "\n") >= height {
		return false
	}
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > width {
			return false
		}
	}
	return true
}

// draw writes the text, whose last line ends with a newline.
func (s *screen) draw(text string) {
	var b strings.Builder
	b.WriteByte('\r') // a Ctrl-C leaves its echo in the line
	if s.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.lines) // up
	}
	for line := range strings.Lines(text) {
		// Clears the line, before it is written: behind one that is as wide as the screen its last
		// character would go.
		b.WriteString("\x1b[K" + line)
	}
	b.WriteString("\x1b[J") // clears what is below
	s.lines = strings.Count(text, "\n")
	s.out.printf("%s", b.String())
}
