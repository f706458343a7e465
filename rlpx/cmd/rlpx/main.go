// Command rlpx is a toolbox for developers of Ethereum nodes: it shows what
// happens on an RLPx connection.
//
//	rlpx demo          two nodes in one process exchange messages and check them
//	rlpx ping ENODE    dial a node, show its Hello, measure round trips
//	rlpx serve         listen, answer Hello and Ping, echo messages
//	rlpx bench         compare with go-ethereum's transport, or measure an echo
//	rlpx decode FILE   show the messages of a packet capture
//	rlpx key FILE      show or make a node key file
//
// Each has flags, which 'rlpx help COMMAND' lists. The exit status is 0 for success, 1 for a
// failure, which is one line on the standard error, 2 for wrong usage, and 130 for what Ctrl-C
// interrupted. The commands that go on until Ctrl-C have succeeded then.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal ends gracefully, a second one at once
	os.Exit(command.Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
