package main

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// With many peers, some of whom never read: nothing waits, all others get every message in order,
// the deaf ones are reported and disconnected, and memory returns. The sender keeps a few messages
// ahead of the slowest reader, so that the speed of the machine does not matter.
func TestManyPeersSomeDeaf(t *testing.T) {
	peers := 200
	if testing.Short() || raceEnabled {
		peers = 40
	}
	const (
		deaf     = 5
		messages = 40
		size     = 64 << 10
		ahead    = 3
		dropped  = 8 // in a row
	)
	rlpxtest.CheckGoroutines(t)
	before := rlpxtest.HeapInUse()
	func() {
		r := start(t, nil, Config{MaxPeers: peers, SendQueue: 512 << 10, MaxDropped: dropped})
		isDeaf := map[string]bool{}
		for range deaf {
			isDeaf[dialDeaf(t, r)] = true
		}
		r.eventually("the deaf peers", func() bool { return len(r.Peers()) == deaf })
		received := make([]atomic.Int64, peers-deaf-1)
		for i := range received {
			r.mustDial(func(_ *p2p.Channel, id uint64, data []byte) error {
				n := received[i].Load()
				if id != 3 || len(data) != size || int64(binary.BigEndian.Uint64(data)) != n {
					t.Errorf("peer %d: id %d, %d bytes instead of message %d", i, id, len(data), n)
				}
				received[i].Store(n + 1)
				return nil
			})
		}
		source := r.mustDial(func(*p2p.Channel, uint64, []byte) error {
			t.Error("a message came back")
			return nil
		})
		data := make([]byte, size) // that does not compress
		rand.NewChaCha8([32]byte{1}).Read(data)
		all := func(n int64) func() bool {
			return func() bool {
				for i := range received {
					if received[i].Load() < n {
						return false
					}
				}
				return true
			}
		}
		for n := range int64(messages) {
			r.eventually("healthy peers", all(n-ahead))
			binary.BigEndian.PutUint64(data, uint64(n))
			written := make(chan error, 1)
			go func() { written <- source.Capability("relay").Write(3, data) }()
			r.eventually("the relay to take a message", func() bool { return len(written) == 1 })
			if err := <-written; err != nil {
				t.Fatal(err)
			}
		}
		r.eventually("all messages", all(messages))
		r.eventually("the end of deaf peers", func() bool { return len(r.of(PeerGone)) == deaf })

		reported := map[string]int{}
		for _, e := range r.of(PeerSlow) {
			if !errors.Is(e.Err, rlpx.ErrQueueFull) {
				t.Error(e)
			}
			reported[e.Addr]++
		}
		for _, e := range r.of(PeerGone) {
			want := &p2p.DisconnectError{Reason: p2p.DiscUselessPeer}
			if !isDeaf[e.Addr] || !errors.Is(e.Err, want) || reported[e.Addr] < dropped {
				t.Errorf("%v after %d reports", e, reported[e.Addr])
			}
		}
		if len(reported) != deaf {
			t.Errorf("%d peers were reported, want %d", len(reported), deaf)
		}
		r.close()
	}()
	if !rlpxtest.Eventually(func() bool { return rlpxtest.HeapInUse() < before+8<<20 }) {
		t.Errorf("%d KiB in use, %d before", rlpxtest.HeapInUse()>>10, before>>10)
	}
}

// dialDeaf makes a peer that reads nothing after Hello, and returns its address.
func dialDeaf(t *testing.T, r *running) string {
	t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	c := rlpx.Client(conn, &r.key.PublicKey, &rlpx.Config{Key: newKey(t), HandshakeTimeout: -1})
	if _, err := c.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, err := p2p.Handshake(ctx, c, &p2p.Hello{Caps: []p2p.Cap{Capability.Cap}}); err != nil {
		t.Fatal(err)
	}
	return conn.LocalAddr().String()
}
