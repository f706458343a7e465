package bench

import (
	"testing"
	"time"
)

// cpuMeter measures the CPU time of the whole process, all threads. Where other
// work runs on the same machine it is steadier than time on the clock.
type cpuMeter struct {
	used, since time.Duration
}

func (m *cpuMeter) start() { m.since = cpuTime() }
func (m *cpuMeter) stop()  { m.used += cpuTime() - m.since }

// report stops the meter and reports what an operation used, where that is known.
func (m *cpuMeter) report(b *testing.B) {
	m.stop()
	if m.used > 0 {
		b.ReportMetric(float64(m.used)/float64(b.N), "cpu-ns/op")
	}
}
