package main

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run is the program: it prints the enode URL of the relay and then what happens, until ctx is
// done.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("relay", flag.ContinueOnError)
	flags.SetOutput(out)
	addr := flags.String("addr", "127.0.0.1:30303", "address to listen on")
	keyFile := flags.String("key", "", "`file` with the node key in hexadecimal digits; a new key if empty")
	peers := flags.Int("peers", 50, "maximum number of peers")
	perAddress := flags.Int("per-address", 0, "maximum number of connections from one IP address; 0 for no limit")
	if err := flags.Parse(args); err != nil {
		return err
	}
	key, err := loadKey(*keyFile)
	if err != nil {
		return err
	}
	logger := log.New(out, "", log.LstdFlags)
	cfg := Config{
		Key: key, MaxPeers: *peers, MaxPerAddress: *perAddress,
		Event: func(e Event) { logger.Print(e) },
	}
	for _, url := range flags.Args() {
		node, err := p2p.ParseNode(url)
		if err != nil {
			return err
		}
		cfg.Nodes = append(cfg.Nodes, node)
	}
	relay, err := New(cfg)
	if err != nil {
		return err
	}
	inner, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	at := inner.Addr().(*net.TCPAddr)
	node := p2p.Node{Key: &key.PublicKey, Host: at.IP.String(), TCP: uint16(at.Port), UDP: uint16(at.Port)}
	fmt.Fprintln(out, node.String())
	return relay.Run(ctx, inner)
}

func loadKey(file string) (*ecdsa.PrivateKey, error) {
	if file == "" {
		return crypto.GenerateKey()
	}
	return crypto.LoadECDSA(file)
}
