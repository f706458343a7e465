package rlpx

import (
	"errors"
	"strings"
	"syscall"
)

// isErrno reports whether err came from a call of the system. Plan 9 has words for its errors, and
// no numbers.
func isErrno(err error) bool {
	var text syscall.ErrorString
	return errors.As(err, &text)
}

// isShortage reports whether err says that the system is short of what a connection
// takes: file descriptors, conversations or memory.
func isShortage(err error) bool {
	var text syscall.ErrorString
	if !errors.As(err, &text) {
		return false
	}
	for _, shortage := range [...]string{"no free file descriptors", "too many open files", "no free devices", "out of memory"} {
		if strings.Contains(string(text), shortage) {
			return true
		}
	}
	return false
}
