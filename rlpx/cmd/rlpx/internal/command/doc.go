// Package command implements the rlpx command: one file for each of its
// commands, and what they share.
//
//	demo   nodes in one process (demo.go, broadcast.go, traffic.go, progress.go)
//	ping   dial a node, say Hello, send Pings (ping.go, dial.go)
//	serve  listen, answer and echo (serve.go)
//	bench  compare with go-ethereum, or measure an echo (bench*.go, package measure)
//	decode show the messages of a capture (decode*.go; packages keylog, capture, decode)
//	key    node key files (key.go)
//
// [Run] is the whole program but for the process: arguments and streams in, exit
// status out. Results go to the standard output, everything else to the standard error.
// A failure is one line there, whatever a peer sent: no text of a peer reaches a
// stream before it was made printable.
package command
