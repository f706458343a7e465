package command

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far something is whose duration is known: as a bar on a terminal, else as a
// line for each quarter.
type progress struct {
	w     io.Writer
	bar   *progressbar.ProgressBar // nil: lines
	what  string
	total time.Duration
	lines int // quarters shown
}

// isTerminal reports whether somebody watches w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func newProgress(w io.Writer, bar bool, what string, total time.Duration) *progress {
	p := &progress{w: w, what: what, total: max(total, 1)}
	if bar {
		p.bar = progressbar.NewOptions64(int64(p.total),
			progressbar.OptionSetWriter(w),
			progressbar.OptionSetDescription(what),
			progressbar.OptionSetWidth(30),
			progressbar.OptionSetPredictTime(false),
			progressbar.OptionSetElapsedTime(false),
			progressbar.OptionShowDescriptionAtLineEnd(),
			progressbar.OptionUseANSICodes(true),
			progressbar.OptionClearOnFinish(),
		)
	}
	return p
}

// show shows that elapsed has passed of the duration and what was done in it. Nothing that it
// cannot write matters.
func (p *progress) show(elapsed time.Duration, moved int64) {
	elapsed = min(elapsed, p.total)
	if p.bar != nil {
		p.bar.Describe(fmt.Sprintf("%s %s", p.what, byteCount(moved)))
		_ = p.bar.Set64(min(int64(elapsed), int64(p.total)-1)) // only finish completes the bar
		return
	}
	// What is moved in the end, and how long that took, is for the result to say.
	if quarters := int(4 * elapsed / p.total); quarters > p.lines && quarters < 4 {
		p.lines = quarters
		fmt.Fprintf(p.w, "%s %3d%% %s\n", p.what, 25*quarters, byteCount(moved))
	}
}

// finish removes the bar. Lines stay.
func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}

// byteCount prints a number of bytes in the unit that suits it.
func byteCount(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case n >= mib:
		return fmt.Sprintf("%.1f MiB", float64(n)/mib)
	case n >= kib:
		return fmt.Sprintf("%.1f KiB", float64(n)/kib)
	default:
		return fmt.Sprintf("%d B", n)
	}
}

// rate prints n bytes per duration.
func rate(n int64, d time.Duration) string {
	if d <= 0 {
		return "-"
	}
	return byteCount(int64(float64(n)/d.Seconds())) + "/s"
}

// short prints a duration with three digits or so.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
	default:
		return fmt.Sprintf("%.1f us", float64(d)/float64(time.Microsecond))
	}
}
