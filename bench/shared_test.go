package bench

import (
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/go-rlpx/transport/rlpx"
)

// The two ways of hashing: frame MACs on their own, the default, and by way of the shared queue.
var alone, shared = hashingImpl("alone", false), hashingImpl("shared", true)

func hashingImpl(name string, shared bool) impl {
	return impl{name: name, resume: func(conn net.Conn, s secrets) transport {
		c := rlpx.Server(conn, &rlpx.Config{SharedHashing: shared})
		c.InitWithSecrets(rlpx.Secrets{AES: s.aes, MAC: s.mac, EgressMAC: seeded(s.egress), IngressMAC: seeded(s.ingress)})
		return c
	}}
}

// How long one side of a pair runs before the other has its turn: some messages of each connection,
// and short against the times in which a machine's speed drifts. Where goroutines never rest, a
// wait for the processor is a time slice of 10 ms, so there it takes longer for chance to even out.
var (
	sliceTime     = 5 * time.Millisecond
	busySliceTime = 100 * time.Millisecond
)

// sharedLoad is what some connections carry at once.
type sharedLoad struct {
	name  string
	sizes []int // of the messages of each connection
	busy  int   // goroutines for each core that compute all the time
}

var sharedLoads = []sharedLoad{
	{"lone-16KiB", []int{16 << 10}, 0},
	{"lone-128KiB", []int{128 << 10}, 0},
	{"small-16x1KiB", repeat(16, 1<<10), 0},
	{"mixed-8x200B+1x64KiB", append(repeat(8, 200), 64<<10), 0},
	{"mixed-16x200B+16x32KiB", append(repeat(16, 200), repeat(16, 32<<10)...), 0},
	{"many-32x16KiB", repeat(32, 16<<10), 0},
	{"many-256x16KiB", repeat(256, 16<<10), 0},
	{"lone-16KiB-busy", []int{16 << 10}, 1},
	{"lone-16KiB-busy8", []int{16 << 10}, 8},
	{"mixed-8x200B+1x64KiB-busy", append(repeat(8, 200), 64<<10), 1},
	{"many-32x16KiB-busy", repeat(32, 16<<10), 1},
}

// BenchmarkShared is what the shared queue gains, and what it costs where there
// is nothing to gain: one lone connection, messages too small to be shared, a mix of
// connections, more goroutines than cores, and all of it beside goroutines that have nothing to do
// with it and never rest; with one core and with all.
//
// An operation is a pair: the same load for a few milliseconds without the queue and as long with
// it, in turns the one first and the other. Whatever else the machine does hits both. Throughput
// with the queue divided by throughput without it is reported as shared/alone, the median of the
// pairs, with the bounds of its 95 % confidence interval (lo95, hi95) and the quartiles of the
// pairs (q1, q3). Where connections with short messages are beside long ones, small-shared/alone is
// for their messages only. cpu-shared/alone is the same ratio for bytes per CPU time of the
// process, with its own interval: where other processes keep the machine busy, it is much the
// steadier of the two. %shared is how much of what went to the queue was hashed together with
// others.
func BenchmarkShared(b *testing.B) {
	for _, l := range sharedLoads {
		for _, network := range []string{"pipe", "tcp"} {
			for _, procs := range oneAndAll() {
				b.Run(fmt.Sprintf("load=%s/net=%s/procs=%d", l.name, network, procs), func(b *testing.B) {
					useProcs(b, procs)
					comparePairs(b, l, network)
				})
			}
		}
	}
}

// oneAndAll are the numbers of cores for which there are rows.
func oneAndAll() []int {
	if n := runtime.GOMAXPROCS(0); n > 1 {
		return []int{1, n}
	}
	return []int{1}
}

// useProcs sets GOMAXPROCS for the rest of a benchmark.
func useProcs(b *testing.B, n int) {
	old := runtime.GOMAXPROCS(n)
	b.Cleanup(func() { runtime.GOMAXPROCS(old) })
}

func comparePairs(b *testing.B, l sharedLoad, network string) {
	slice := sliceTime
	if l.busy > 0 {
		slice = busySliceTime
	}
	sides := [2]*fleet{newFleet(b, alone, network, l.sizes, false), newFleet(b, shared, network, l.sizes, false)}
	stop := spin(l.busy * runtime.GOMAXPROCS(0))
	defer stop()
	turn := func(side int) amount {
		a, err := sides[side].carry(slice)
		if err != nil {
			fail(b, err)
		}
		return a
	}
	turn(0) // so that buffers have their size
	turn(1)
	before := rlpx.SharedHashing()
	var all, small, cpu []float64
	for b.Loop() {
		var a [2]amount
		first := len(all) % 2
		a[first] = turn(first)
		a[1-first] = turn(1 - first)
		all = append(all, a[1].rate()/a[0].rate())
		if a[0].small > 0 {
			small = append(small, a[1].smallRate()/a[0].smallRate())
		}
		if l.busy == 0 && a[0].cpu > 0 && a[1].cpu > 0 {
			cpu = append(cpu, a[1].cpuRate()/a[0].cpuRate())
		}
	}
	b.ReportMetric(0, "ns/op") // says nothing: hide it
	reportShared(b, before)
	reportSpread(b, "shared/alone", "", all)
	if len(small) > 0 {
		b.ReportMetric(spreadOf(small).median, "small-shared/alone")
	}
	if len(cpu) > 0 {
		reportBounds(b, "cpu-shared/alone", "cpu-", cpu)
	}
}

// BenchmarkSharedLatency is how long one message takes from the start of Write to the end of Read,
// with nothing else on any connection, beside goroutines that never rest or beside none. An
// operation is a message with the queue and one without, in turns. Over net=memory one goroutine
// writes and reads, so that all it ever waits for is the queue and its share of the processor; over
// TCP a goroutine waits in Read.
func BenchmarkSharedLatency(b *testing.B) {
	const length = 16 << 10
	for _, network := range []string{"memory", "tcp"} {
		for _, busy := range []int{0, 1, 8} {
			for _, procs := range oneAndAll() {
				b.Run(fmt.Sprintf("net=%s/size=%v/busy=%d/procs=%d", network, size(length), busy, procs), func(b *testing.B) {
					useProcs(b, procs)
					lines := [2]line{newLine(b, alone, network, length), newLine(b, shared, network, length)}
					stop := spin(busy * procs)
					defer stop()
					var took [2][]float64
					once := func(side int) {
						d, err := lines[side].carry()
						if err != nil {
							fail(b, err)
						}
						took[side] = append(took[side], float64(d))
					}
					for b.Loop() {
						first := len(took[0]) % 2
						once(first)
						once(1 - first)
					}
					b.ReportMetric(0, "ns/op") // it is that of both
					for _, p := range []struct {
						name string
						at   float64
					}{{"p50", 0.5}, {"p99", 0.99}, {"max", 1}} {
						a, s := quantile(took[0], p.at), quantile(took[1], p.at)
						b.ReportMetric(a, "alone-"+p.name+"-ns")
						b.ReportMetric(s, "shared-"+p.name+"-ns")
						b.ReportMetric(s-a, "added-"+p.name+"-ns")
					}
				})
			}
		}
	}
}
