package bench

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkConns is many busy connections at once, each with a goroutine that
// writes and one that reads. An operation is one message on any of them. Our connections share
// hashing, as Config.SharedHashing allows; rows with sharing=off have the default.
func BenchmarkConns(b *testing.B) {
	for _, network := range []string{"pipe", "tcp"} {
		for _, conns := range []int{1, 2, 4, 8, 16, 64, 256} {
			for _, snappy := range []bool{false, true} {
				connsRow(b, load{network: network, conns: conns, size: 16 << 10, snappy: snappy}, conns == 64)
			}
		}
		connsRow(b, load{network: network, conns: 64, size: 1 << 10, snappy: true}, true)
		connsRow(b, load{network: network, conns: 64, size: 16 << 10, snappy: true, random: true}, true)
	}
}

// connsRow measures a load, on request once more without shared hashing.
func connsRow(b *testing.B, l load, alone bool) {
	row := fmt.Sprintf("net=%s/conns=%d/size=%v/snappy=%s", l.network, l.conns, l.size, onOff(l.snappy))
	if l.random {
		row += "/data=random"
	}
	each(b, row, func(b *testing.B, im impl) { stream(b, im.sharing(), l) })
	if alone {
		each(b, row+"/sharing=off", func(b *testing.B, im impl) { stream(b, im, l) })
	}
}

// load is a number of connections and what they carry.
type load struct {
	network string
	conns   int
	size    size
	snappy  bool
	random  bool // data that does not compress
}

// stream carries b.N messages over the connections together. Whoever is ready
// sends the next one, so that no connection has work left when the others are done.
func stream(b *testing.B, im impl, l load) {
	type ends struct{ from, to transport }
	var pairs []ends
	for n := range l.conns {
		from, to := pair(b, im, l.network, n, l.snappy)
		pairs = append(pairs, ends{from, to})
	}
	data := payload(int(l.size))
	if l.random {
		rand.NewChaCha8([32]byte{1}).Read(data)
	}
	total := int64(b.N)
	var sent, received atomic.Int64
	done := make(chan error, 1)
	finish := func(err error) {
		select {
		case done <- err:
		default:
		}
	}
	write := func(c transport) {
		for sent.Add(1) <= total {
			if _, err := c.Write(msgCode, data); err != nil {
				finish(err)
				return
			}
		}
	}
	read := func(c transport) {
		for {
			code, got, _, err := c.Read()
			if err == nil && (code != msgCode || len(got) != len(data)) {
				err = fmt.Errorf("read code %d, %d bytes", code, len(got))
			}
			if err != nil {
				finish(err) // after the last message it is the connection's end
				return
			}
			if received.Add(1) == total {
				finish(nil)
			}
		}
	}

	b.SetBytes(int64(l.size))
	b.ReportAllocs()
	var running sync.WaitGroup
	var cpu cpuMeter
	b.ResetTimer()
	cpu.start()
	for _, p := range pairs {
		running.Go(func() { write(p.from) })
		running.Go(func() { read(p.to) })
	}
	err := <-done
	b.StopTimer()
	cpu.report(b)
	for _, p := range pairs {
		p.from.Close()
		p.to.Close()
	}
	running.Wait()
	if err != nil {
		fail(b, err)
	}
}
