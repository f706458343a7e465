package bench

import (
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-rlpx/transport/internal/bufpool"
)

var (
	memoryConns = flag.String("conns", "1,100", "numbers of connections for BenchmarkMemory, separated by commas")
	memoryMax   = flag.Int("maxmem", 2<<10, "MiB of memory that BenchmarkMemory may need; go-ethereum gets as many connections as fit, at least one")
)

// history is what a connection has been through before its memory is measured.
type history struct {
	name   string
	size   *int // of one message each way; nil: nothing has called Write or Read yet
	arrive int  // bytes of the message's frame that arrive; 0: all
	sparse bool // only one connection in ten has carried that, the others 1 KiB
	geth   int  // MiB that a connection of go-ethereum keeps at most
}

const headerWire = 32 // bytes of a frame's header and its MAC

var (
	small     = 1 << 10
	histories = []history{
		{name: "state=idle/size=1KiB", size: &small},
		{name: "state=announced/size=16MiB", size: &largest, arrive: headerWire, geth: 17},
		{name: "state=idle/size=16MiB", size: &largest, geth: 70},
	}
)

// BenchmarkMemory is what a connection holds after garbage collection, while its Read waits for
// the peer:
//
//   - state=idle: it has carried one message of the size each way and waits for the next;
//   - state=announced: the header of a frame of the size has come, and nothing of its data.
//
// B/conn is the heap, stack-B/conn the stack of the goroutine that waits in Read, which says
// something for many connections only, since stacks are counted 32 KiB at a time. What the
// net.Conn holds is not counted, nor what a handshake leaves: connections are in memory, so
// that no limit of the operating system and no buffer of the kernel has a part in it.
//
// go-ethereum keeps up to 70 MiB for each connection. Where that does not fit into -maxmem, its row
// has fewer connections than its name says; measured-conns is how many.
func BenchmarkMemory(b *testing.B) {
	var counts []int
	for field := range strings.SplitSeq(*memoryConns, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			b.Fatalf("-conns: %q is not a number of connections", field)
		}
		counts = append(counts, n)
	}
	for _, h := range histories {
		for _, snappy := range []bool{false, true} {
			for _, conns := range counts {
				each(b, fmt.Sprintf("%s/snappy=%s/conns=%d", h.name, onOff(snappy), conns), func(b *testing.B, im impl) {
					n := conns
					if im.name == reference.name && h.geth > 0 {
						n = min(conns, max(1, *memoryMax/h.geth))
					}
					var total footprint
					for range b.N {
						f := held(b, im, h, n, snappy)
						total.heap += f.heap
						total.stack += f.stack
					}
					all := float64(b.N) * float64(n)
					b.ReportMetric(float64(total.heap)/all, "B/conn")
					if n > 1 {
						b.ReportMetric(float64(total.stack)/all, "stack-B/conn")
					}
					b.ReportMetric(float64(n), "measured-conns")
					b.ReportMetric(0, "ns/op") // says nothing: hide it
				})
			}
		}
	}
}

// Bounds for one connection whose Read waits, whatever it has been through.
const (
	maxIdle      = 8 << 10  // heap, all in all
	maxBuffers   = 4 << 10  // of that, what it did not hold before it carried anything
	maxAnnounced = 64 << 10 // when a frame of any size was announced
)

// TestMemory holds a hundred connections to the bounds. One in ten has carried the largest
// messages, to save time: a single one that kept a buffer of that size would be far beyond the
// bounds of all.
func TestMemory(t *testing.T) {
	const conns = 100
	ours := impls[1]
	for _, snappy := range []bool{false, true} {
		fresh := held(t, ours, history{}, conns, snappy).heap / conns
		for _, h := range histories {
			h.sparse = h.size == &largest && h.arrive == 0
			t.Run(fmt.Sprintf("%s/snappy=%s", h.name, onOff(snappy)), func(t *testing.T) {
				got := held(t, ours, h, conns, snappy).heap / conns
				t.Logf("%d bytes a connection, %d before it carried anything", got, fresh)
				if fresh == 0 || got <= fresh {
					t.Error("nothing was measured")
				}
				switch {
				case h.arrive > 0:
					if got > maxAnnounced {
						t.Errorf("%d bytes a connection, want at most %d", got, maxAnnounced)
					}
				case got > maxIdle:
					t.Errorf("%d bytes a connection, want at most %d", got, maxIdle)
				case got > fresh+maxBuffers:
					t.Errorf("%d bytes a connection, which are %d of buffers, want at most %d", got, got-fresh, maxBuffers)
				}
			})
		}
	}
}

// footprint is memory in use, in bytes.
type footprint struct{ heap, stack uint64 }

// past is what one connection has written and read.
type past struct{ written, recording []byte }

func newPast(tb testing.TB, s secrets, size int, snappy bool) past {
	data := payload(size)
	return past{data, record(tb, s, data, 1, snappy)}
}

// openers is how many connections are made ready side by side. Large frames share lanes.
const openers = 8

// held is what so many connections hold, each of which has the history and waits in Read.
func held(tb testing.TB, im impl, h history, conns int, snappy bool) footprint {
	tb.Helper()
	s := newSecrets(0)
	var usual, other past
	if h.size != nil {
		usual = newPast(tb, s, *h.size, snappy)
		other = usual
	}
	if h.sparse {
		other = newPast(tb, s, small, snappy)
	}
	if h.arrive > 0 {
		usual = past{recording: usual.recording[:h.arrive]}
		other = usual
	}
	pastOf := func(i int) past {
		if i%10 == 0 {
			return usual
		}
		return other
	}
	first := inUse()

	// What is needed besides the connections is there before the heap is first measured.
	links := make([]*staller, conns)
	opened := make([]transport, conns)
	start := make([]chan transport, conns)
	var readers sync.WaitGroup
	for i := range conns {
		links[i] = newStaller(pastOf(i).recording)
		start[i] = make(chan transport)
		readers.Go(func() {
			c := <-start[i]
			for h.size != nil {
				if _, _, _, err := c.Read(); err != nil {
					return
				}
			}
		})
	}
	before := inUse()
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var opening sync.WaitGroup
	for range min(openers, conns) {
		opening.Go(func() {
			for i := int(next.Add(1)) - 1; i < conns; i = int(next.Add(1)) - 1 {
				c := im.resume(links[i], s)
				c.SetSnappy(snappy)
				opened[i] = c
				if data := pastOf(i).written; data != nil {
					if _, err := c.Write(msgCode, data); err != nil {
						failed.Store(&err)
					}
				}
				start[i] <- c
				if h.size != nil {
					<-links[i].stalled
				}
			}
		})
	}
	opening.Wait()
	after := inUse()
	runtime.KeepAlive([]past{usual, other}) // they were there before
	for _, c := range opened {
		c.Close()
	}
	readers.Wait()
	if err := failed.Load(); err != nil {
		tb.Fatal(*err)
	}
	return footprint{
		heap:  max(after.heap, before.heap) - before.heap,
		stack: max(after.stack, first.stack) - first.stack,
	}
}

// inUse is what is in use once everything that can go is gone: what a sync.Pool
// holds goes with the second collection, and the large buffers that wait for their next user
// belong to no connection.
func inUse() footprint {
	bufpool.Trim()
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{m.HeapAlloc, m.StackInuse}
}
