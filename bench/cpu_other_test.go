//go:build !unix

package bench

import "time"

// cpuTime is not known here; no CPU time is reported.
func cpuTime() time.Duration { return 0 }
