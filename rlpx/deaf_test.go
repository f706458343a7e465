package rlpx

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-rlpx/transport/internal/bufpool"
	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// One message to many peers over TCP, time and again, of whom some never read: the calls do not
// wait, those who read get all messages in order, one who does not costs no more than its queue and
// is reported, and memory returns to where it was. The sender keeps a few messages ahead of the
// slowest reader, so that the speed of the machine does not matter.
func TestSendAllBesideDeafPeers(t *testing.T) {
	peers, messages := 100, 40
	if testing.Short() || raceEnabled {
		peers, messages = 20, 20
	}
	const (
		deaf  = 5
		size  = 128 << 10
		ahead = 4
		queue = 1 << 20
	)
	rlpxtest.CheckGoroutines(t)
	tracker := bufpool.Track()
	defer tracker.Stop()
	before := rlpxtest.HeapInUse()
	cfg := &Config{SendQueue: queue}
	var targets []Target
	var conns, ends []*Conn
	for range peers {
		a, b := tcpPipe(t)
		// So that the system does not hold megabytes for who does not read.
		a.(*net.TCPConn).SetWriteBuffer(64 << 10)
		b.(*net.TCPConn).SetReadBuffer(64 << 10)
		sa, sb := rlpxtest.NewSecrets(1)
		ca, cb := initConn(a, cfg, sa), initConn(b, nil, sb)
		ca.SetSnappy(true)
		cb.SetSnappy(true)
		targets, conns, ends = append(targets, Target{ca, 7}), append(conns, ca), append(ends, cb)
	}
	var slowest atomic.Int64
	read := make([]atomic.Int64, peers)
	var readers sync.WaitGroup
	for i, c := range ends[deaf:] {
		readers.Go(func() {
			for n := range messages {
				code, data, _, err := c.Read()
				if err != nil || code != 7 || len(data) != size || data[0] != byte(n) {
					t.Errorf("peer %d, message %d: code %d, %d bytes, %v", deaf+i, n, code, len(data), err)
					read[deaf+i].Store(1 << 30) // or the sender would wait for it
					return
				}
				read[deaf+i].Add(1)
			}
		})
	}
	data := make([]byte, size) // that does not compress
	rand.NewChaCha8([32]byte{9}).Read(data)
	reported := make([]int, peers)
	for n := range messages {
		if !rlpxtest.Eventually(func() bool {
			slowest.Store(1 << 30)
			for i := deaf; i < peers; i++ {
				slowest.Store(min(slowest.Load(), read[i].Load()))
			}
			return slowest.Load() >= int64(n-ahead)
		}) {
			t.Fatal("healthy peers wait for the others")
		}
		data[0] = byte(n)
		returned := rlpxtest.Within(func() {
			for i, err := range SendAll(targets, data) {
				switch {
				case err == nil:
				case i < deaf && errors.Is(err, ErrQueueFull):
					reported[i]++
				default:
					t.Errorf("peer %d: %v", i, err)
				}
			}
		})
		if !returned {
			t.Fatal("SendAll waits")
		}
	}
	readers.Wait()
	for i := range deaf {
		if reported[i] == 0 {
			t.Errorf("deaf peer %d was not reported", i)
		}
		conns[i].out.mu.Lock()
		if posted := conns[i].out.posted; posted > queue {
			t.Errorf("%d bytes for a deaf peer", posted)
		}
		conns[i].out.mu.Unlock()
	}
	for i := range conns {
		conns[i].Close()
		ends[i].Close()
		ends[i].Read() // to give back what was lent
	}
	if !rlpxtest.Eventually(func() bool { return tracker.Lent() == 0 }) {
		t.Errorf("%d buffers are lent", tracker.Lent())
	}
	targets, conns, ends = nil, nil, nil
	if !rlpxtest.Eventually(func() bool { return rlpxtest.HeapInUse() < before+16<<20 }) {
		t.Errorf("%d MiB in use, %d before", rlpxtest.HeapInUse()>>20, before>>20)
	}
}

// No way to send allocates in steady state.
func TestNoAllocationOfTheQueue(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates; the run without it checks this")
		return
	}
	sizes := []int{32, 2 << 10, 128 << 10}
	if testing.Short() {
		sizes = sizes[:2]
	}
	for _, snappyOn := range []bool{false, true} {
		for _, size := range sizes {
			data := pattern(size, 1)
			sec, _ := rlpxtest.NewSecrets(3)
			conn := initConn(rlpxtest.Discard(), nil, sec)
			conn.SetSnappy(snappyOn)
			a, b := tcpPipe(t)
			sa, sb := rlpxtest.NewSecrets(4)
			socket, end := initConn(a, nil, sa), initConn(b, nil, sb)
			socket.SetSnappy(snappyOn)
			end.SetSnappy(snappyOn)
			go func() {
				for {
					if _, _, _, err := end.Read(); err != nil {
						return
					}
				}
			}()
			t.Cleanup(func() { socket.Close(); end.Close() })
			payload := Compress(data)
			batch := []Message{{1, data}, {2, data}}
			targets := []Target{{conn, 1}, {conn, 2}, {socket, 3}}
			idle := func() {
				for _, c := range []*Conn{conn, socket} {
					for owned := true; owned; {
						c.out.mu.Lock()
						owned = c.out.owned
						c.out.mu.Unlock()
						runtime.Gosched()
					}
				}
			}
			conns := []*Conn{conn, conn, socket}
			for name, send := range map[string]func(){
				"Write":        func() { conn.Write(1, data) },
				"WriteContext": func() { conn.WriteContext(t.Context(), 1, data) },
				"WriteBatch":   func() { conn.WriteBatch(batch) },
				"WritePayload": func() { conn.WritePayload(1, payload) },
				"Send":         func() { conn.Send(1, data) },
				"SendControl":  func() { conn.SendControl(1, data[:32]) },
				"SendPayload":  func() { conn.SendPayload(1, payload) },
				"WriteAll":     func() { WriteAll(context.Background(), targets, data) },
				"Broadcast":    func() { Broadcast(conns, 1, data) },
				"SendAll":      func() { SendAll(targets, data) },
			} {
				run := func() { send(); idle() }
				for range 20 {
					run()
				}
				if n := testing.AllocsPerRun(100, run); n != 0 {
					t.Errorf("snappy=%v, %d bytes: %s allocates %v times", snappyOn, size, name, n)
				}
			}
		}
	}
}
