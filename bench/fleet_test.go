package bench

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// What BenchmarkShared and BenchmarkSharedLatency measure with.

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

// endCode is the code of the message after the last of a slice.
const endCode = msgCode + 1

// smallMessage is less than what is worth sharing.
const smallMessage = 4 << 10

// fleet is some connections of one implementation, each of which carries messages of one size.
type fleet struct {
	boats []boat
	mixed bool // some carry small messages and some do not
}

type boat struct {
	from, to transport
	data     []byte
}

// newFleet connects a boat for each of the sizes, which is that of its messages. With the network
// "sink", what is written is discarded, and there is nobody who reads.
func newFleet(b *testing.B, im impl, network string, sizes []int, snappy bool) *fleet {
	f := &fleet{mixed: slices.Min(sizes) < smallMessage && slices.Max(sizes) >= smallMessage}
	for n, size := range sizes {
		if network == "sink" {
			from := im.resume(sink{}, newSecrets(n))
			from.SetSnappy(snappy)
			f.boats = append(f.boats, boat{from, nil, payload(size)})
			continue
		}
		from, to := pair(b, im, network, n, snappy)
		f.boats = append(f.boats, boat{from, to, payload(size)})
	}
	return f
}

// amount is what was carried in one slice of time.
type amount struct {
	bytes     int64
	small     int64 // messages that are small, if there are others
	took, cpu time.Duration
}

func (a amount) rate() float64      { return float64(a.bytes) / float64(a.took) }
func (a amount) smallRate() float64 { return float64(a.small) / float64(a.took) }
func (a amount) cpuRate() float64   { return float64(a.bytes) / float64(a.cpu) }

// carry writes for the given time on all connections at once, one message at
// least, and reads until everything has arrived.
func (f *fleet) carry(d time.Duration) (amount, error) {
	var running sync.WaitGroup
	counts := make([]int64, len(f.boats))
	errs := make(chan error, 2*len(f.boats))
	start := make(chan struct{})
	var begin time.Time
	for i, boat := range f.boats {
		running.Go(func() {
			<-start
			n, err := boat.write(begin.Add(d))
			if err != nil {
				errs <- err
				boat.from.Close() // ends what reads, too
			}
			if boat.to == nil {
				counts[i] = n
			}
		})
		if boat.to == nil {
			continue
		}
		running.Go(func() {
			<-start
			var err error
			if counts[i], err = boat.read(); err != nil {
				errs <- err
				boat.from.Close()
			}
		})
	}
	cpu := cpuTime()
	begin = time.Now()
	close(start)
	running.Wait()
	a := amount{took: time.Since(begin), cpu: cpuTime() - cpu}
	for i, boat := range f.boats {
		a.bytes += counts[i] * int64(len(boat.data))
		if f.mixed && len(boat.data) < smallMessage {
			a.small += counts[i]
		}
	}
	select {
	case err := <-errs:
		return a, err
	default:
		return a, nil
	}
}

func (b boat) write(until time.Time) (n int64, err error) {
	for n == 0 || time.Now().Before(until) {
		if _, err := b.from.Write(msgCode, b.data); err != nil {
			return n, err
		}
		n++
	}
	_, err = b.from.Write(endCode, nil)
	return n, err
}

func (b boat) read() (n int64, err error) {
	for {
		code, got, _, err := b.to.Read()
		switch {
		case err != nil:
			return n, err
		case code == endCode:
			return n, nil
		case code != msgCode || len(got) != len(b.data):
			return n, fmt.Errorf("read code %d, %d bytes; want code %d, %d bytes", code, len(got), msgCode, len(b.data))
		}
		n++
	}
}

// line is one connection whose messages are timed one by one.
type line struct {
	boat
	arrived chan error // nil: whoever writes reads as well
}

func newLine(b *testing.B, im impl, network string, size int) line {
	l := line{boat: boat{data: payload(size)}}
	if network != "memory" {
		l.from, l.to = pair(b, im, network, 0, false)
		l.arrived = make(chan error)
		go func() {
			for {
				err := l.readOne()
				l.arrived <- err
				if err != nil {
					return
				}
			}
		}()
		b.Cleanup(func() { // the reader's last word
			l.from.Close()
			for err := range l.arrived {
				if err != nil {
					return
				}
			}
		})
		return l
	}
	s := newSecrets(0)
	memory := new(loopback)
	l.from, l.to = im.resume(memory, s), im.resume(memory, s.peer())
	return l
}

// carry sends one message and returns how long it took to arrive.
func (l line) carry() (time.Duration, error) {
	start := time.Now()
	_, err := l.from.Write(msgCode, l.data)
	if err != nil {
		return 0, err
	}
	if l.arrived == nil {
		err = l.readOne()
	} else {
		err = <-l.arrived
	}
	return time.Since(start), err
}

func (l line) readOne() error {
	code, got, _, err := l.to.Read()
	if err == nil && (code != msgCode || len(got) != len(l.data)) {
		err = fmt.Errorf("read code %d, %d bytes", code, len(got))
	}
	return err
}

// loopback hands what is written to whoever reads.
type loopback struct {
	inert
	buf bytes.Buffer
}

func (l *loopback) Write(p []byte) (int, error) { return l.buf.Write(p) }
func (l *loopback) Read(p []byte) (int, error) {
	if l.buf.Len() == 0 {
		return 0, io.EOF
	}
	return l.buf.Read(p)
}

// spread is where a sample lies.
type spread struct {
	median    float64
	bounded   bool    // there are values enough for the next
	low, high float64 // bounds of the median's 95 % confidence interval
	q1, q3    float64
}

// spreadOf makes no assumption about the distribution: that so many of n values are
// below the median is as likely as so many heads of n coins.
func spreadOf(values []float64) spread {
	s := slices.Sorted(slices.Values(values))
	n := float64(len(s))
	off := 1.96 * math.Sqrt(n) / 2
	at := func(i float64) float64 { return s[min(max(int(i), 0), len(s)-1)] }
	return spread{
		median:  quantile(s, 0.5),
		bounded: len(s) > 5, // that all of five are on one side happens once in 16 times
		low:     at(math.Floor(n/2 - off)),
		high:    at(math.Ceil(n/2 + off)),
		q1:      quantile(s, 0.25),
		q3:      quantile(s, 0.75),
	}
}

// quantile returns the value below which the given part of the values is.
func quantile(values []float64, part float64) float64 {
	s := slices.Sorted(slices.Values(values))
	at := part * float64(len(s)-1)
	low := int(at)
	high := min(low+1, len(s)-1)
	return s[low] + (at-float64(low))*(s[high]-s[low])
}

func TestSpread(t *testing.T) {
	var values []float64
	for i := range 101 {
		values = append(values, float64((37*i)%101)) // 0 to 100 in some order
	}
	if got, want := spreadOf(values), (spread{median: 50, bounded: true, low: 40, high: 61, q1: 25, q3: 75}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := spreadOf([]float64{7}), (spread{median: 7, low: 7, high: 7, q1: 7, q3: 7}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := quantile([]float64{4, 1, 2, 3}, 0.5); got != 2.5 {
		t.Errorf("median of an even number: %v", got)
	}
}
