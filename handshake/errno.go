//go:build !plan9

package handshake

import (
	"errors"
	"syscall"
)

// What Windows says of a connection that the remote reset: there, package syscall's ECONNRESET and
// EPIPE are inventions. They are written out since syscall has them for Windows only. No other
// system uses these numbers.
const (
	wsaConnAborted = syscall.Errno(10053)
	wsaConnReset   = syscall.Errno(10054)
)

// isReset reports whether err says that the remote has reset the connection.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, wsaConnReset) || errors.Is(err, wsaConnAborted)
}
