package bufpool

import (
	"bytes"
	"sync"
	"testing"
)

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}

func TestReleaseTwicePanics(t *testing.T) {
	for _, size := range []int{100, 1 << 16, MaxSize, MaxSize + 1} {
		b := Get(size)
		stale := b
		b.Release(0)
		mustPanic(t, "second Release of a handle", func() { b.Release(0) })
		mustPanic(t, "Release of a stale copy", func() { stale.Release(0) })

		// Lent out again to somebody else, a stale handle still must not free it.
		again := Get(size)
		mustPanic(t, "Release of a stale copy after the buffer was lent again", func() { stale.Release(0) })
		again.Release(0)
	}
	var zero Buffer
	mustPanic(t, "Release of a zero handle", func() { zero.Release(0) })
}

func TestReleaseClearsPlaintext(t *testing.T) {
	for _, size := range []int{2000, 20 << 10, 1 << 20, MaxSize, MaxSize + 1} {
		b := Get(size)
		mem := b.B
		for i := range mem {
			mem[i] = 0xAA
		}
		dirty := size - 500
		b.Release(dirty)
		if !bytes.Equal(mem[:dirty], make([]byte, dirty)) {
			t.Errorf("%d bytes: those declared dirty were not cleared", size)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Log("sync.Pool drops at random under the race detector; the uninstrumented run checks this")
		return
	}
	for _, size := range []int{1, 4096, 20 << 10, 1 << 20, maxKeptSize + 1} {
		if n := testing.AllocsPerRun(100, func() {
			b := Get(size)
			b.Release(0)
		}); n != 0 {
			t.Errorf("size %d: %v allocations for Get and Release", size, n)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				b := Get(1 << (10 + i%7))
				for j := range b.B {
					b.B[j] = byte(g)
				}
				for j := range b.B {
					if b.B[j] != byte(g) {
						t.Errorf("buffer shared between two owners")
						return
					}
				}
				b.Release(len(b.B))
			}
		})
	}
	wg.Wait()
}

func init() { EnableTracking() }

func TestTrackingIsOff(t *testing.T) {
	tracking = false
	defer EnableTracking()
	mustPanic(t, "Track without EnableTracking", func() { Track() })
}

func TestTrack(t *testing.T) {
	before := Get(100)
	tracker := Track()
	defer tracker.Stop()
	sizes := []int{0, 5000, MaxSize, MaxSize + 1}
	var held []Buffer
	for i, size := range sizes {
		held = append(held, Get(size))
		if n := tracker.Lent(); n != i+1 {
			t.Errorf("%d lent, want %d", n, i+1)
		}
	}
	before.Release(0)
	if n := tracker.Lent(); n != len(sizes) {
		t.Errorf("%d lent after one came back that was not counted", n)
	}
	tracker.Stop()
	after := Get(100)
	for i := range held {
		held[i].Release(0)
	}
	if n := tracker.Lent(); n != 0 {
		t.Errorf("%d lent in the end", n)
	}
	after.Release(0)
	if n := tracker.Lent(); n != 0 {
		t.Errorf("%d lent after one that was lent later came back", n)
	}
}
