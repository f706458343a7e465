package bench

import (
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var (
	memoryConns = flag.String("conns", "1,10,100", "numbers of connections for BenchmarkMemory, separated by commas")
	memoryMax   = flag.Int("maxmem", 2<<10, "MiB of memory that BenchmarkMemory may need; what needs more is skipped")
)

// BenchmarkMemory is the heap that a connection holds after garbage collection,
// while its Read waits for the peer:
//
//   - state=idle: it has carried one message of the size each way and waits for the next;
//   - state=announced: the header of a frame of the size has come, and nothing of its data.
//
// What the net.Conn holds is not counted, nor what a handshake leaves.
func BenchmarkMemory(b *testing.B) {
	var counts []int
	for field := range strings.SplitSeq(*memoryConns, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			b.Fatalf("-conns: %q is not a number of connections", field)
		}
		counts = append(counts, n)
	}
	for _, state := range []struct {
		name   string
		size   int
		arrive int // bytes of the message's frame that arrive; 0: all
		kept   int // MiB that a connection may hold, to see whether that fits
	}{
		{name: "state=idle/size=1KiB", size: 1 << 10},
		{name: "state=announced/size=16MiB", size: largest, arrive: 32, kept: 17},
		{name: "state=idle/size=16MiB", size: largest, kept: 70},
	} {
		for _, snappy := range []bool{false, true} {
			for _, conns := range counts {
				each(b, fmt.Sprintf("%s/snappy=%s/conns=%d", state.name, onOff(snappy), conns), func(b *testing.B, im impl) {
					if need := state.kept * conns; need > *memoryMax {
						b.Skipf("go-ethereum may need %d MiB for it, -maxmem is %d", need, *memoryMax)
					}
					data := payload(state.size)
					s := newSecrets(0)
					recording := record(b, s, data, 1, snappy)
					if state.arrive > 0 {
						recording, data = recording[:state.arrive], nil
					}
					var total uint64
					for range b.N {
						total += held(b, im, s, recording, data, conns, snappy)
					}
					b.ReportMetric(float64(total)/float64(b.N)/float64(conns), "B/conn")
					b.ReportMetric(0, "ns/op") // says nothing: hide it
				})
			}
		}
	}
}

// held is the heap that so many connections hold, each of which has written
// data, unless that is nil, read recording, and waits.
func held(b *testing.B, im impl, s secrets, recording, data []byte, conns int, snappy bool) uint64 {
	b.Helper()
	// What is needed besides the connections is there before the heap is first measured.
	links := make([]*staller, conns)
	opened := make([]transport, conns)
	start := make([]chan transport, conns)
	var readers sync.WaitGroup
	for i := range conns {
		links[i] = newStaller(recording)
		start[i] = make(chan transport)
		readers.Go(func() {
			c := <-start[i]
			for {
				if _, _, _, err := c.Read(); err != nil {
					return
				}
			}
		})
	}
	before := heap()
	for i, link := range links {
		c := im.resume(link, s)
		c.SetSnappy(snappy)
		opened[i] = c
		if data != nil {
			mustWrite(b, c, data)
		}
		start[i] <- c
		<-link.stalled
	}
	after := heap()
	for _, c := range opened {
		c.Close()
	}
	readers.Wait()
	return max(after, before) - before
}

// heap is what is in use once everything that can go is gone: what a sync.Pool
// holds goes with the second collection.
func heap() uint64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
