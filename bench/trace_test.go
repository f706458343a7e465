package bench

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/go-rlpx/transport/rlpx"
)

// tracing are the Traces whose cost is measured, against none.
var tracing = []struct {
	name  string
	trace *rlpx.Trace
}{
	{"unset", nil}, // nothing but the noise of the measurement
	{"empty", new(rlpx.Trace)},
	{"frames", &rlpx.Trace{
		FrameRead:    func(*rlpx.Conn, rlpx.TraceFrame) {},
		FrameWritten: func(*rlpx.Conn, rlpx.TraceFrame) {},
	}},
	{"all", &rlpx.Trace{ // Flushed asks the clock before and after each call on the net.Conn
		FrameRead:    func(*rlpx.Conn, rlpx.TraceFrame) {},
		FrameWritten: func(*rlpx.Conn, rlpx.TraceFrame) {},
		Flushed:      func(*rlpx.Conn, rlpx.TraceFlush) {},
		ReadFailed:   func(*rlpx.Conn, error) {},
		WriteFailed:  func(*rlpx.Conn, error) {},
	}},
}

// traceBytes is about how much one side of a pair carries before the other has its turn, in at
// most traceFrames frames: a few hundred microseconds.
const (
	traceBytes  = 512 << 10
	traceFrames = 256
)

// BenchmarkTrace is what Config.Trace costs a frame: sealing and opening alone, as in BenchmarkSeal
// and BenchmarkOpen, where the cost has nothing to hide behind.
//
// An operation is a pair: some frames on a connection without a Trace and as many on one with it,
// in turns the one first and the other. The time with it divided by the time without is reported as
// set/unset, the median of the pairs, with the bounds of its 95 % confidence interval (lo95, hi95),
// and unset-ns as the median time of a frame without. The rows trace=unset compare nothing with
// nothing, to show what differences mean nothing.
func BenchmarkTrace(b *testing.B) {
	for _, work := range []struct {
		name string
		make func(b *testing.B, trace *rlpx.Trace, size, frames int) (turn func() time.Duration)
	}{{"seal", sealTurn}, {"open", openTurn}} {
		for _, size := range []size{32, 1 << 10, 128 << 10} {
			for _, t := range tracing {
				b.Run(fmt.Sprintf("work=%s/size=%v/trace=%s", work.name, size, t.name), func(b *testing.B) {
					frames := min(traceFrames, traceBytes/int(size))
					sides := [2]func() time.Duration{
						work.make(b, nil, int(size), frames),
						work.make(b, t.trace, int(size), frames),
					}
					sides[0]() // so that buffers have their size
					sides[1]()
					var ratios, unset []float64
					for b.Loop() {
						var took [2]time.Duration
						first := len(ratios) % 2
						took[first] = sides[first]()
						took[1-first] = sides[1-first]()
						ratios = append(ratios, float64(took[1])/float64(took[0]))
						unset = append(unset, float64(took[0])/float64(frames))
					}
					b.ReportMetric(0, "ns/op") // it is that of both
					s := spreadOf(ratios)
					b.ReportMetric(s.median, "set/unset")
					if s.bounded {
						b.ReportMetric(s.low, "lo95")
						b.ReportMetric(s.high, "hi95")
					}
					b.ReportMetric(quantile(unset, 0.5), "unset-ns")
				})
			}
		}
	}
}

// traced starts a session with a Trace.
func traced(conn net.Conn, s secrets, trace *rlpx.Trace) *rlpx.Conn {
	c := rlpx.Server(conn, &rlpx.Config{Trace: trace})
	c.InitWithSecrets(rlpx.Secrets{AES: s.aes, MAC: s.mac, EgressMAC: seeded(s.egress), IngressMAC: seeded(s.ingress)})
	return c
}

func sealTurn(b *testing.B, trace *rlpx.Trace, size, frames int) func() time.Duration {
	c := traced(sink{}, newSecrets(0), trace)
	data := payload(size)
	return func() time.Duration {
		start := time.Now()
		for range frames {
			mustWrite(b, c, data)
		}
		return time.Since(start)
	}
}

// openTurn plays a recording from its beginning, whose first frame is not timed.
func openTurn(b *testing.B, trace *rlpx.Trace, size, frames int) func() time.Duration {
	s := newSecrets(0)
	recording := record(b, s, payload(size), frames+1, false)
	return func() time.Duration {
		c := traced(&tape{rest: recording}, s, trace)
		mustRead(b, c, size)
		start := time.Now()
		for range frames {
			mustRead(b, c, size)
		}
		took := time.Since(start)
		c.Read() // io.EOF: the session gives back its buffers
		return took
	}
}
