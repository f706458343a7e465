package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/rlpx"
)

const (
	callers  = 8                      // connections of alice to bob
	messages = 50                     // that each connection carries before it is replaced
	beat     = 50 * time.Millisecond  // on which all callers send at once, so that they hash together
	nonsense = 500 * time.Millisecond // between strangers at bob's door
	codeEcho = 16                     // the first code that a capability can have
)

// sizes of the messages, in turn.
var sizes = []int{100, 1000, 16 << 10, 200, 128 << 10}

// demo lets alice talk to bob, and strangers knock at bob's, until ctx is done.
func demo(ctx context.Context, alice, bob *Collector) error {
	aliceKey, err := crypto.GenerateKey()
	if err != nil {
		return err
	}
	bobKey, err := crypto.GenerateKey()
	if err != nil {
		return err
	}
	l, err := rlpx.Listen("tcp", "127.0.0.1:0", bob.Instrument(&rlpx.Config{Key: bobKey, SharedHashing: true}))
	if err != nil {
		return err
	}
	defer l.Close()

	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cfg := alice.Instrument(&rlpx.Config{Key: aliceKey, SharedHashing: true})
	for range callers {
		running.Go(func() {
			for ctx.Err() == nil {
				call(ctx, alice, cfg, l.Addr().String(), &bobKey.PublicKey)
				sleep(ctx, beat)
			}
		})
	}
	running.Go(func() {
		for ctx.Err() == nil {
			knock(l.Addr().String())
			sleep(ctx, nonsense)
		}
	})
	for {
		conn, err := l.Accept(ctx)
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		if err != nil {
			return err
		}
		running.Go(func() { use(ctx, bob, conn, echo) })
	}
}

// use runs talk on conn, which is counted meanwhile, and closes conn afterwards or when ctx is
// done.
func use(ctx context.Context, c *Collector, conn *rlpx.Conn, talk func(context.Context, *rlpx.Conn) error) {
	untrack := c.Track(conn)
	defer untrack()
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	conn.SetSnappy(true)
	_ = talk(ctx, conn) // however it ends, it is counted
}

// call dials bob and has some messages echoed.
func call(ctx context.Context, c *Collector, cfg *rlpx.Config, addr string, remote *ecdsa.PublicKey) {
	conn, err := rlpx.Dial(ctx, "tcp", addr, remote, cfg)
	if err != nil {
		return // counted by the Trace, or ctx is done
	}
	data := make([]byte, slices.Max(sizes))
	rand.Read(data[:len(data)/2]) // so that snappy has something to do, and the hash as well
	use(ctx, c, conn, func(ctx context.Context, conn *rlpx.Conn) error {
		for i := range messages {
			if _, err := conn.Write(codeEcho, data[:sizes[i%len(sizes)]]); err != nil {
				return err
			}
			if _, _, _, err := conn.Read(); err != nil {
				return err
			}
			next := time.Now().Truncate(beat).Add(beat)
			sleep(ctx, time.Until(next))
		}
		return nil
	})
}

// echo sends every message back.
func echo(_ context.Context, conn *rlpx.Conn) error {
	for {
		code, data, _, err := conn.Read()
		if err != nil {
			return err
		}
		if _, err := conn.Write(code, data); err != nil {
			return err
		}
	}
}

// knock is a stranger who takes bob for a web server.
func knock(addr string) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\n\r\n"); err == nil {
		_, _ = io.Copy(io.Discard, conn) // until bob hangs up
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
