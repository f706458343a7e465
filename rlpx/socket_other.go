//go:build !unix

package rlpx

import "net"

// socket needs system calls of Unix: see socket_unix.go. Elsewhere there is none.
type socket struct{}

func newSocket(net.Conn) *socket { return nil }

func (*socket) read(*readHalf) (int, error) { panic("rlpx: no socket") }
func (*socket) write([]byte) (int, error)   { panic("rlpx: no socket") }
