package bufpool

import (
	"bytes"
	"runtime"
	"sync"
	"testing"
)

func TestClasses(t *testing.T) {
	for _, tc := range []struct{ ask, get int }{
		{0, 1 << 10}, {1, 1 << 10}, {1 << 10, 1 << 10}, {1<<10 + 1, 1 << 11},
		{4096, 4096}, {4097, 8192}, {1 << 20, 1 << 20}, {1<<23 - 1, 1 << 23}, {1 << 23, 1 << 23},
		{1<<23 + 1, MaxSize}, {1<<24 + 48, MaxSize}, {MaxSize, MaxSize}, {MaxSize + 1, MaxSize + 1},
	} {
		b := Get(tc.ask)
		if len(b.B) != tc.get {
			t.Errorf("Get(%d) lends %d bytes, want %d", tc.ask, len(b.B), tc.get)
		}
		if got := ClassSize(tc.ask); got != tc.get {
			t.Errorf("ClassSize(%d) = %d, want %d", tc.ask, got, tc.get)
		}
		if !b.Held() {
			t.Errorf("Get(%d): handle says that it holds nothing", tc.ask)
		}
		b.Release(0)
		if b.Held() || b.B != nil {
			t.Errorf("Get(%d): handle not emptied by Release", tc.ask)
		}
	}
}

func TestSmaller(t *testing.T) {
	for _, tc := range []struct{ size, want int }{
		{MaxSize + 1, MaxSize}, {MaxSize, 1 << 23}, {1 << 23, 1 << 22}, {1 << 11, 1 << 10}, {1 << 10, 1 << 10},
	} {
		if got := Smaller(tc.size); got != tc.want {
			t.Errorf("Smaller(%d) = %d, want %d", tc.size, got, tc.want)
		}
	}
}

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
	for _, size := range []int{100, 1 << 16, MaxSize + 1} {
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
	b := Get(2000)
	mem := b.B
	for i := range mem {
		mem[i] = 0xAA
	}
	b.Release(1500)
	if !bytes.Equal(mem[:1500], make([]byte, 1500)) {
		t.Error("bytes declared dirty were not cleared")
	}
}

func TestIdleMemoryIsCollected(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	held := make([]Buffer, 8)
	for i := range held {
		held[i] = Get(1 << 22)
	}
	for i := range held {
		held[i].Release(0)
	}
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if after.HeapAlloc > before.HeapAlloc+1<<20 {
		t.Errorf("pool keeps %d bytes after two collections", after.HeapAlloc-before.HeapAlloc)
	}
}

func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Log("sync.Pool drops at random under the race detector; the uninstrumented run checks this")
		return
	}
	for _, size := range []int{1, 4096, 1 << 20} {
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
				b := Get(1 << (10 + i%5))
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
