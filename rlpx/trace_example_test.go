package rlpx_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/rlpx"
)

// Print what happens on a connection. A program with many of them prints c.RemoteAddr() as well.
func ExampleTrace() {
	trace := &rlpx.Trace{
		AuthSent:    func(c *rlpx.Conn, s rlpx.TraceStep) { fmt.Println("auth sent:", s.Size > 0) },
		AckReceived: func(c *rlpx.Conn, s rlpx.TraceStep) { fmt.Println("ack received:", s.Took > 0) },
		HandshakeDone: func(c *rlpx.Conn, took time.Duration, err error) {
			fmt.Println("handshake done:", err)
		},
		FrameWritten: func(c *rlpx.Conn, f rlpx.TraceFrame) {
			fmt.Printf("frame written: code %d, %d bytes, %d on the wire\n", f.Code, f.PlainSize, f.WireSize)
		},
		Flushed: func(c *rlpx.Conn, f rlpx.TraceFlush) {
			fmt.Printf("flushed: %d frames, %d bytes\n", f.Frames, f.Size)
		},
		ReadFailed: func(c *rlpx.Conn, err error) { fmt.Println("reading ended:", err) },
	}

	ctx := context.Background()
	nodeKey, _ := crypto.GenerateKey()
	node, err := rlpx.Listen("tcp", "127.0.0.1:0", &rlpx.Config{Key: nodeKey})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	go func() { // a peer that takes three messages and hangs up
		conn, err := node.Accept(ctx)
		if err != nil {
			return
		}
		defer conn.Close()
		conn.SetSnappy(true)
		for range 3 {
			conn.Read()
		}
	}()

	key, _ := crypto.GenerateKey()
	conn, err := rlpx.Dial(ctx, "tcp", node.Addr().String(), &nodeKey.PublicKey, &rlpx.Config{Key: key, Trace: trace})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	conn.SetSnappy(true)
	conn.Write(16, make([]byte, 1000))
	conn.WriteBatch([]rlpx.Message{{Code: 17}, {Code: 18, Data: []byte("hello")}})
	conn.Read()
	// Output:
	// auth sent: true
	// ack received: true
	// handshake done: <nil>
	// frame written: code 16, 1000 bytes, 112 on the wire
	// flushed: 1 frames, 112 bytes
	// frame written: code 17, 0 bytes, 64 on the wire
	// frame written: code 18, 5 bytes, 64 on the wire
	// flushed: 2 frames, 128 bytes
	// reading ended: EOF
}
