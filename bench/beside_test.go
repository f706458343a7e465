package bench

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlpx/transport/internal/sharing"
	"github.com/go-rlpx/transport/mac"
	"github.com/go-rlpx/transport/rlpx"
)

// How long one side of a pair runs where goroutines or processes beside it take turns with it, how long one runs where it is
// compared with always sharing, and the longest time to wait for the queue's first comparison under a load.
var (
	besideSliceTime = 300 * time.Millisecond
	keptSliceTime   = 100 * time.Millisecond
	settleTime      = 5 * time.Second
)

// neighbours are goroutines of the same process that compute for some time, let others run, and so on.
type neighbours struct {
	count int
	turn  time.Duration // 0: they never rest
}

func (n neighbours) String() string {
	if n.turn == 0 {
		return fmt.Sprintf("%dxall", n.count)
	}
	return fmt.Sprintf("%dx%v", n.count, n.turn)
}

// start starts them. They run until stop is called.
func (n neighbours) start() (stop func()) {
	if n.turn == 0 {
		return spin(n.count)
	}
	var ended atomic.Bool
	var computing sync.WaitGroup
	for range n.count {
		computing.Go(func() {
			for !ended.Load() {
				compute(n.turn)
				runtime.Gosched()
			}
		})
	}
	return func() {
		ended.Store(true)
		computing.Wait()
	}
}

// compute computes for d. Time in which others had the processor does not count.
func compute(d time.Duration) {
	const most = 20 * time.Microsecond // of one step, if nobody interrupts
	for last := time.Now(); d > 0; {
		x := uint64(1)
		for range 2000 {
			x *= 6364136223846793005
		}
		runtime.KeepAlive(x)
		now := time.Now()
		d -= min(now.Sub(last), most)
		last = now
	}
}

const spinEnv = "RLPX_BENCH_SPIN"

// spinUntilEOF is what another process does: it keeps one core busy while this one lives.
func spinUntilEOF() {
	stop := spin(1)
	io.Copy(io.Discard, os.Stdin)
	stop()
}

// startOthers starts n processes that never rest, for as long as b runs.
func startOthers(b *testing.B, n int) {
	self, err := os.Executable()
	if err != nil {
		fail(b, err)
	}
	for range n {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), spinEnv+"=1", "GOMAXPROCS=1")
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			fail(b, err)
		}
		b.Cleanup(func() {
			in.Close()
			cmd.Wait()
		})
	}
}

// otherProcesses are how many processes that never rest there are beside the rows.
func otherProcesses() []int { return []int{0, runtime.NumCPU()} }

// BenchmarkSharedBeside is what the shared queue does to connections beside goroutines that have nothing to do with
// it. Connections write 16 KiB each to a sink that never blocks, while the given number of goroutines compute for the given time
// and let others run, again and again; on a machine that has nothing else to do, and beside as many processes as it has cores.
//
// An operation is a pair, and shared/alone is reported, both as in BenchmarkShared.
func BenchmarkSharedBeside(b *testing.B) {
	const us, ms = time.Microsecond, time.Millisecond
	for _, l := range []struct {
		conns int
		neighbours
	}{
		{8, neighbours{10, 100 * us}},
		{8, neighbours{50, 100 * us}},
		{8, neighbours{20, 500 * us}},
		{8, neighbours{10, ms}},
		{8, neighbours{4, 20 * ms}},
		{8, neighbours{4, 0}},
		{3, neighbours{100, 100 * us}},
		{1, neighbours{100, 100 * us}},
		{32, neighbours{4, 20 * ms}},
	} {
		for _, others := range otherProcesses() {
			b.Run(fmt.Sprintf("conns=%d/beside=%v/others=%d", l.conns, l.neighbours, others), func(b *testing.B) {
				sizes := repeat(l.conns, 16<<10)
				sides := [2]*fleet{newFleet(b, alone, "sink", sizes, false), newFleet(b, shared, "sink", sizes, false)}
				startOthers(b, others)
				defer l.start()()
				settle(b, sides[1])
				reportPairs(b, "shared/alone", func(i int) float64 {
					return rates(b, i, sides, besideSliceTime, func(int) {})
				})
			})
		}
	}
}

// BenchmarkSharedKept is how much of what sharing can give is left by the queue's controller, which looks now and then
// whether sharing pays. An operation is a pair: many connections for 100 ms with the shared queue as it is, and for
// as long with a queue in which everybody always waits for others. kept/always is the ratio of
// throughput, with bounds and quartiles as in BenchmarkShared.
func BenchmarkSharedKept(b *testing.B) {
	for _, conns := range []int{8, 16, 64, 256} {
		for _, network := range []string{"sink", "pipe", "tcp"} {
			for _, snappy := range []bool{false, true} {
				for _, others := range otherProcesses() {
					b.Run(fmt.Sprintf("conns=%d/net=%s/snappy=%s/others=%d", conns, network, onOff(snappy), others), func(b *testing.B) {
						f := newFleet(b, shared, network, repeat(conns, 16<<10), snappy)
						startOthers(b, others)
						settle(b, f)
						defer sharing.Always.Store(false)
						reportPairs(b, "kept/always", func(i int) float64 {
							return rates(b, i, [2]*fleet{f, f}, keptSliceTime, func(side int) { sharing.Always.Store(side == 0) })
						})
					})
				}
			}
		}
	}
}

// settle carries something until the queue has made up its mind about this load, if it has to.
func settle(b *testing.B, f *fleet) {
	before := rlpx.SharedHashing().Comparisons
	for start := time.Now(); ; {
		if _, err := f.carry(min(settleTime, 20*time.Millisecond)); err != nil {
			fail(b, err)
		}
		if rlpx.SharedHashing().Comparisons > before || time.Since(start) > settleTime {
			return
		}
	}
}

// rates returns the rate of the second side divided by that of the first. Pair i begins with the one or the other.
func rates(b *testing.B, i int, sides [2]*fleet, slice time.Duration, prepare func(side int)) float64 {
	var a [2]amount
	for _, side := range []int{i % 2, 1 - i%2} {
		prepare(side)
		var err error
		if a[side], err = sides[side].carry(slice); err != nil {
			fail(b, err)
		}
	}
	return a[1].rate() / a[0].rate()
}

// reportPairs reports the ratios of as many pairs as b wants.
func reportPairs(b *testing.B, unit string, pair func(i int) float64) {
	var all []float64
	before := rlpx.SharedHashing()
	for b.Loop() {
		all = append(all, pair(len(all)))
	}
	reportShared(b, before)
	b.ReportMetric(0, "ns/op") // says nothing: hide it
	s := spreadOf(all)
	b.ReportMetric(s.median, unit)
	if s.bounded {
		b.ReportMetric(s.low, "lo95")
		b.ReportMetric(s.high, "hi95")
	}
	b.ReportMetric(s.q1, "q1")
	b.ReportMetric(s.q3, "q3")
}

// reportShared reports how much of what went to the queue since before was hashed together with others.
func reportShared(b *testing.B, before mac.QueueStats) {
	after := rlpx.SharedHashing()
	if lanes, alone := after.Lanes-before.Lanes, after.Alone-before.Alone; lanes+alone > 0 {
		b.ReportMetric(100*float64(lanes)/float64(lanes+alone), "%shared")
	}
}
