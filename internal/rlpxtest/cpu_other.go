//go:build !unix

package rlpxtest

import "time"

var started = time.Now()

// cpuTime returns the time that has passed, where the CPU time of the process is not to be had.
func cpuTime() time.Duration { return time.Since(started) }
