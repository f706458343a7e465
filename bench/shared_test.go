package bench

import (
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-rlpx/transport/rlpx"
)

// hashing are this library with the shared queue of frame MACs and without.
var hashing = []impl{hashingImpl("alone", true), hashingImpl("shared", false)}

func hashingImpl(name string, alone bool) impl {
	return impl{name: name, resume: func(conn net.Conn, s secrets) transport {
		c := rlpx.Server(conn, &rlpx.Config{DisableSharedHashing: alone})
		c.InitWithSecrets(rlpx.Secrets{AES: s.aes, MAC: s.mac, EgressMAC: seeded(s.egress), IngressMAC: seeded(s.ingress)})
		return c
	}}
}

// BenchmarkShared is what the shared queue gains, and what it costs where there
// is nothing to gain: one lone connection, messages too small to be shared, a mix of connections,
// and either beside goroutines that have nothing to do with it and never rest. An operation is one
// message on each connection.
func BenchmarkShared(b *testing.B) {
	for _, load := range []struct {
		name  string
		sizes []int // of the messages of each connection
		busy  int   // goroutines for each core that compute all the time
	}{
		{"lone-16KiB", []int{16 << 10}, 0},
		{"lone-128KiB", []int{128 << 10}, 0},
		{"small-16x1KiB", repeat(16, 1<<10), 0},
		{"mixed-8x200B+1x64KiB", append(repeat(8, 200), 64<<10), 0},
		{"mixed-16x200B+16x32KiB", append(repeat(16, 200), repeat(16, 32<<10)...), 0},
		{"many-32x16KiB", repeat(32, 16<<10), 0},
		{"lone-16KiB-busy", []int{16 << 10}, 1},
		{"many-32x16KiB-busy", repeat(32, 16<<10), 1},
	} {
		for _, network := range []string{"pipe", "tcp"} {
			for _, im := range hashing {
				b.Run(fmt.Sprintf("load=%s/net=%s/hashing=%s", load.name, network, im.name), func(b *testing.B) {
					stop := spin(load.busy * runtime.GOMAXPROCS(0))
					defer stop()
					carry(b, im, network, load.sizes)
				})
			}
		}
	}
}

func repeat(n, size int) []int {
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = size
	}
	return sizes
}

// spin keeps n goroutines busy until stop is called.
func spin(n int) (stop func()) {
	var ended atomic.Bool
	var spinning sync.WaitGroup
	for range n {
		spinning.Go(func() {
			for !ended.Load() {
			}
		})
	}
	return func() {
		ended.Store(true)
		spinning.Wait()
	}
}

// carry sends b.N messages over each of several connections.
func carry(b *testing.B, im impl, network string, sizes []int) {
	var running sync.WaitGroup
	var cpu cpuMeter
	bytes := 0
	start := make(chan struct{})
	errs := make(chan error, 2*len(sizes))
	for n, size := range sizes {
		from, to := pair(b, im, network, n, false)
		data := payload(size)
		bytes += size
		running.Go(func() {
			<-start
			for range b.N {
				if _, err := from.Write(msgCode, data); err != nil {
					errs <- err
					to.Close()
					return
				}
			}
		})
		running.Go(func() {
			<-start
			for range b.N {
				if _, got, _, err := to.Read(); err != nil || len(got) != size {
					errs <- fmt.Errorf("read %d bytes of %d: %v", len(got), size, err)
					from.Close()
					return
				}
			}
		})
	}
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	b.ResetTimer()
	cpu.start()
	close(start)
	running.Wait()
	b.StopTimer()
	cpu.report(b)
	select {
	case err := <-errs:
		fail(b, err)
	default:
	}
}
