package mac

import (
	"runtime"
	"time"
)

const (
	// slowYield is a yield in which others had the processor for about a time slice of 10 ms.
	// Where these are hundreds of connections that share lanes, that is as it should be:
	// see ownWork. Otherwise, one may be chance. After it, yields
	// that begin within slowWindow are looked at more closely: if one of them is slow
	// because goroutines that compute without a pause keep all processors busy, nobody yields for quietMin
	// times as long as it took, and twice as many times whenever it happens again, up to quietMax. So such
	// neighbours cost a few per cent, and a mistake costs little. After quietMemory without
	// slow yields it starts anew. If other processes had the processor, yielding is not what costs.
	slowYield   = 8 * time.Millisecond
	slowWindow  = 100 * time.Millisecond
	quietMin    = 4
	quietMax    = 64
	quietMemory = 10 * time.Second

	// workPerByte is about what a connection takes for each byte that goes through the queue, with
	// encryption, copies and calls. If that accounts for 1/ownShare of a yield, the time went to
	// connections. When they start, their buffers are new to the process, and they take more.
	workPerByte = time.Nanosecond
	ownShare    = 5
)

// yields is what is known of earlier yields. Times are by clock.
type yields struct {
	slowUntil  time.Duration // end of the last slow one
	quietUntil time.Duration // 0 for no quiet time
	factor     int           // of the last quiet time, as a multiple of the yield that led to it
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

// A yield is what is known of one that has ended.
type yield struct {
	start, took time.Duration
	bytes       uint64        // that went through the queue meanwhile
	measured    bool          // whether the next is known
	cpu         time.Duration // that the process used meanwhile, on all processors together
}

// ownWork reports whether connections can have been at work for a good part of the yield.
func (x *yield) ownWork(processors int) bool {
	return time.Duration(x.bytes)*workPerByte >= x.took*time.Duration(processors)/ownShare
}

// note takes note of a yield.
func (y *yields) note(x yield) {
	if x.took < slowYield || x.start < y.slowUntil {
		return // those that overlap have one cause
	}
	n := processors()
	if x.ownWork(n) {
		return
	}
	start, took := x.start, x.took
	if start > y.slowUntil+quietMemory {
		y.factor = 0
	}
	if y.suspicious(start) && (!x.measured || x.cpu >= busyTime(took, n)) {
		y.factor = min(max(2*y.factor, quietMin), quietMax)
		y.quietUntil = start + took + time.Duration(y.factor)*took
	}
	y.slowUntil = max(start+took, y.quietUntil)
}

// busyTime is the processor time that says that all processors were busy with us: if one
// of them had been idle it would have taken the goroutine that yielded, so the rest of it was used by others.
func busyTime(took time.Duration, processors int) time.Duration {
	return took*time.Duration(processors) - took/2
}

func processors() int { return min(runtime.GOMAXPROCS(0), runtime.NumCPU()) }
