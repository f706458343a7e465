//go:build !plan9

package rlpx

import (
	"errors"
	"syscall"
)

// isErrno reports whether err came from a call of the system.
func isErrno(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno)
}

// isShortage reports whether err says that the system is short of what a connection
// takes: file descriptors or memory. Not every one of these errors calls itself temporary.
func isShortage(err error) bool {
	// As Windows has EMFILE and ENOBUFS. No other system uses these numbers.
	const wsaMfile, wsaNoBufs = syscall.Errno(10024), syscall.Errno(10055)
	for _, shortage := range [...]syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, wsaMfile, wsaNoBufs,
	} {
		if errors.Is(err, shortage) {
			return true
		}
	}
	return false
}
