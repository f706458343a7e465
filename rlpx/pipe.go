package rlpx

import (
	"context"
	"net"

	"github.com/ethereum/go-ethereum/crypto"
)

// Pipe returns two connections with each other in memory, for the tests of programs that embed this
// package. Their handshake is done. Like [net.Pipe], on which they are, a pipe has no buffer: Write
// waits for Read. The first is the initiator. A Config that is nil or has no Key gets a new one.
func Pipe(initiator, recipient *Config) (*Conn, *Conn, error) {
	cfgs := [2]*Config{initiator, recipient}
	for i, cfg := range cfgs {
		if cfg = cfg.Clone(); cfg == nil {
			cfg = new(Config)
		}
		if cfg.Key == nil {
			key, err := crypto.GenerateKey()
			if err != nil {
				return nil, nil, err
			}
			cfg.Key = key
		}
		cfgs[i] = cfg
	}
	here, there := net.Pipe()
	a, b := Client(here, &cfgs[1].Key.PublicKey, cfgs[0]), Server(there, cfgs[1])
	done := make(chan error, 1)
	go func() {
		_, err := b.HandshakeContext(context.Background())
		done <- err
	}()
	_, err := a.HandshakeContext(context.Background())
	if other := <-done; err == nil {
		err = other
	}
	if err != nil {
		a.Close()
		b.Close()
		return nil, nil, err
	}
	return a, b, nil
}
