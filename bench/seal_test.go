package bench

import "testing"

// Sealing and opening alone: no scheduler, no system call, one goroutine.

var frameSizes = []size{32, 128, 1 << 10, 16 << 10, 128 << 10, 1 << 20}

// BenchmarkSeal is one Write on a connection that discards what is written.
func BenchmarkSeal(b *testing.B) {
	forEach(b, frameSizes, func(b *testing.B, im impl, size size, snappy bool) {
		c := im.resume(sink{}, newSecrets(0))
		c.SetSnappy(snappy)
		data := payload(int(size))
		mustWrite(b, c, data) // so that buffers have their size
		b.SetBytes(int64(size))
		b.ReportAllocs()
		var cpu cpuMeter
		cpu.start()
		for b.Loop() {
			if _, err := c.Write(msgCode, data); err != nil {
				fail(b, err)
			}
		}
		cpu.report(b)
	})
}

// tapeBytes is how much is read before a recording starts over: small enough to stay in the CPU's
// cache, as what a socket delivers is, and long enough that starting over is rare.
const tapeBytes = 1 << 20

// minFrames is the fewest frames on a tape, of which the first is not timed.
const minFrames = 5

// BenchmarkOpen is one Read of a frame that is there already. Opening a frame
// moves the session on, so a recording is played from its beginning by a session from its
// beginning: whenever the tape ends, one is made and reads one frame with the timer stopped.
func BenchmarkOpen(b *testing.B) {
	forEach(b, frameSizes, func(b *testing.B, im impl, size size, snappy bool) {
		count := max(minFrames, tapeBytes/int(size))
		s := newSecrets(0)
		recording := record(b, s, payload(int(size)), count, snappy)
		var c transport
		left := 0
		rewind := func() {
			c = im.resume(&tape{rest: recording}, s)
			c.SetSnappy(snappy)
			mustRead(b, c, int(size))
			left = count - 1
		}
		rewind()
		b.SetBytes(int64(size))
		b.ReportAllocs()
		var cpu cpuMeter
		cpu.start()
		for b.Loop() {
			if left == 0 {
				b.StopTimer()
				cpu.stop()
				c.Read() // io.EOF: the session gives back its buffers
				rewind()
				cpu.start()
				b.StartTimer()
			}
			mustRead(b, c, int(size))
			left--
		}
		cpu.report(b)
	})
}
