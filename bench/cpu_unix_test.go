//go:build unix

package bench

import (
	"syscall"
	"time"
)

// cpuTime is what the process has used so far, all threads together.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
