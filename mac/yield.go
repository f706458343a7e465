package mac

import (
	"runtime"
	"time"
)

const (
	// slowYield is a yield in which others had the processor for about a time slice of 10 ms. Those
	// that share lanes give it back sooner. One may be chance. After it, yields
	// that begin within slowWindow are looked at more closely: if one of them is slow
	// because goroutines that compute without a pause keep all processors busy, nobody yields for quietFactor
	// times as long as it took, so that such neighbours cost a few per cent. If
	// other processes had the processor, yielding is not what costs.
	slowYield   = 8 * time.Millisecond
	slowWindow  = 100 * time.Millisecond
	quietFactor = 50
)

// yields is what is known of earlier yields. Times are by clock.
type yields struct {
	slowUntil  time.Duration // end of the last slow one
	quietUntil time.Duration // 0 for no quiet time
}

var clockStart = time.Now()

func clock() time.Duration { return time.Since(clockStart) }

// quiet reports whether yields do not pay at the moment.
func (y *yields) quiet() bool {
	if y.quietUntil == 0 {
		return false
	}
	if clock() < y.quietUntil {
		return true
	}
	y.quietUntil = 0
	return false
}

// suspicious reports whether a yield that begins now is worth the two system calls that
// tell what the process did meanwhile.
func (y *yields) suspicious(now time.Duration) bool {
	return y.slowUntil > 0 && now < y.slowUntil+slowWindow
}

// note takes note of a yield, in which the process used cpu on all processors together, if that was measured.
func (y *yields) note(start, took, cpu time.Duration, measured bool) {
	if took < slowYield || start < y.slowUntil {
		return // those that overlap have one cause
	}
	if y.suspicious(start) && (!measured || cpu >= busyTime(took, processors())) {
		y.quietUntil = start + took + quietFactor*took
	}
	y.slowUntil = max(start+took, y.quietUntil)
}

// busyTime is the processor time that says that all processors were busy with us: if one
// of them had been idle it would have taken the goroutine that yielded, so the rest of it was used by others.
func busyTime(took time.Duration, processors int) time.Duration {
	return took*time.Duration(processors) - took/2
}

func processors() int { return min(runtime.GOMAXPROCS(0), runtime.NumCPU()) }
