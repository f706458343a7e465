//go:build unix

package mac

import (
	"syscall"
	"time"
)

// cpuTime is what the process has used so far on all processors together.
func cpuTime() (used time.Duration, ok bool) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0, false
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), true
}
