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

// How long one side of a pair runs where goroutines or processes beside it take turns with it, how
// long one runs where it is compared with always sharing, and the longest time to wait for the
// queue's first comparison under a load.
var (
	besideSliceTime = 300 * time.Millisecond
	keptSliceTime   = 100 * time.Millisecond
	settleTime      = 5 * time.Second
)

// neighbours are goroutines of the same process that compute for some time, let others run, and so
// on.
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

// BenchmarkSharedBeside is what the shared queue does to connections beside goroutines that have
// nothing to do with it. Connections write 16 KiB each to a sink that never blocks, while the given
// number of goroutines compute for the given time and let others run, again and again; on a machine
// that has nothing else to do, and beside as many processes as it has cores.
//
// An operation is a pair, and shared/alone is reported, both as in BenchmarkShared. CPU time says
// nothing here: it is that of the neighbours, too.
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
				reportPairs(b, "shared/alone", sides, besideSliceTime, nil)
			})
		}
	}
}

// BenchmarkSharedKept is how much of what sharing can give is left by the queue's controller, which
// looks now and then whether sharing pays. An operation is a pair: many connections for 100 ms with
// the shared queue as it is, and for as long with a queue in which everybody always waits for
// others. kept/always is the ratio of throughput, with bounds and quartiles as in BenchmarkShared.
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
						reportPairs(b, "kept/always", [2]*fleet{f, f}, keptSliceTime, func(side int) { sharing.Always.Store(side == 0) })
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

// reportPairs carries as many pairs as b wants, of which every second begins with the second side.
// It reports the ratio of the second side's throughput to that of the first, and if prepare, which
// is called before each turn, is not nil, that of bytes per CPU time.
func reportPairs(b *testing.B, unit string, sides [2]*fleet, slice time.Duration, prepare func(side int)) {
	var all, cpu []float64
	before := rlpx.SharedHashing()
	for b.Loop() {
		var a [2]amount
		first := len(all) % 2
		for _, side := range []int{first, 1 - first} {
			if prepare != nil {
				prepare(side)
			}
			var err error
			if a[side], err = sides[side].carry(slice); err != nil {
				fail(b, err)
			}
		}
		all = append(all, a[1].rate()/a[0].rate())
		if prepare != nil && a[0].cpu > 0 && a[1].cpu > 0 {
			cpu = append(cpu, a[1].cpuRate()/a[0].cpuRate())
		}
	}
	b.ReportMetric(0, "ns/op") // says nothing: hide it
	reportShared(b, before)
	reportSpread(b, unit, "", all)
	if len(cpu) > 0 {
		reportBounds(b, "cpu-"+unit, "cpu-", cpu)
	}
}

// reportShared reports how much of what went to the queue since before was hashed together with
// others.
func reportShared(b *testing.B, before mac.QueueStats) {
	after := rlpx.SharedHashing()
	if lanes, alone := after.Lanes-before.Lanes, after.Alone-before.Alone; lanes+alone > 0 {
		b.ReportMetric(100*float64(lanes)/float64(lanes+alone), "%shared")
	}
}

// reportSpread reports the median of values with its bounds, and their quartiles. What is not the
// median has the prefix.
func reportSpread(b *testing.B, unit, prefix string, values []float64) {
	reportBounds(b, unit, prefix, values)
	s := spreadOf(values)
	b.ReportMetric(s.q1, prefix+"q1")
	b.ReportMetric(s.q3, prefix+"q3")
}

// reportBounds reports the median of values with its bounds, which have the prefix.
func reportBounds(b *testing.B, unit, prefix string, values []float64) {
	s := spreadOf(values)
	b.ReportMetric(s.median, unit)
	if s.bounded {
		b.ReportMetric(s.low, prefix+"lo95")
		b.ReportMetric(s.high, prefix+"hi95")
	}
}
