package bench

import "testing"

// One connection: a goroutine that writes and one that reads.

var messageSizes = []size{32, 128, 1 << 10, 4 << 10, 16 << 10, 128 << 10, 1 << 20}

// BenchmarkPipe is messages over net.Pipe. Each Write waits for its Read, so at
// small sizes most of the time is the hand-over between goroutines.
func BenchmarkPipe(b *testing.B) {
	forEach(b, messageSizes, func(b *testing.B, im impl, size size, snappy bool) {
		stream(b, im, load{network: "pipe", conns: 1, size: size, snappy: snappy})
	})
}

// BenchmarkTCP is messages over TCP on the loopback interface.
func BenchmarkTCP(b *testing.B) {
	forEach(b, messageSizes, func(b *testing.B, im impl, size size, snappy bool) {
		stream(b, im, load{network: "tcp", conns: 1, size: size, snappy: snappy})
	})
}

// BenchmarkLone is one message of 16 MiB over TCP from the start of Write to
// the end of Read, with nothing before or behind it. The connection has carried such
// messages before, so buffers that are kept have their size.
func BenchmarkLone(b *testing.B) {
	for _, snappy := range []bool{false, true} {
		each(b, "net=tcp/size=16MiB/snappy="+onOff(snappy), func(b *testing.B, im impl) { lone(b, im, snappy) })
	}
}

func lone(b *testing.B, im impl, snappy bool) {
	from, to := pair(b, im, "tcp", 0, snappy)
	data := payload(largest)
	start, written := make(chan struct{}), make(chan error, 1)
	defer close(start)
	go func() {
		for range start {
			_, err := from.Write(msgCode, data)
			if err != nil {
				to.Close() // or Read would wait for ever
			}
			written <- err
		}
	}()
	carry := func() {
		start <- struct{}{}
		mustRead(b, to, largest)
		if err := <-written; err != nil {
			fail(b, err)
		}
	}
	carry()
	b.SetBytes(int64(largest))
	b.ReportAllocs()
	var cpu cpuMeter
	cpu.start()
	for b.Loop() {
		carry()
	}
	cpu.report(b)
}
