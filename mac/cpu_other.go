//go:build !unix

package mac

import "time"

// cpuTime is not known here: every slow yield counts.
func cpuTime() (used time.Duration, ok bool) { return 0, false }
