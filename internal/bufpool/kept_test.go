package bufpool

import (
	"runtime"
	"testing"
	"time"
)

// newKeeper returns a keeper that collections leave alone.
func newKeeper() *keeper {
	return &keeper{watching: true}
}

// lists counts what the lists have.
func (k *keeper) lists() (bytes, buffers int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, free := range k.free {
		for _, s := range free {
			bytes += len(s.mem)
			buffers++
		}
	}
	return bytes, buffers
}

func newSlab(size int) *slab {
	class := classOf(size)
	return &slab{mem: make([]byte, classSizes[class]), class: class}
}

func TestLargeBuffersOutliveCollections(t *testing.T) {
	for _, size := range []int{minKeptSize, 20 << 10, 160 << 10, 2<<20 + 1, maxKeptSize} {
		Trim()
		b := Get(size)
		mem := &b.B[0]
		b.Release(0)
		for range 3 { // a sync.Pool is empty after two
			runtime.GC()
		}
		b = Get(size)
		if &b.B[0] != mem {
			t.Errorf("%d bytes: another buffer after three collections", size)
		}
		if bytes, _ := kept.lists(); bytes != 0 {
			t.Errorf("%d bytes: %d kept while the buffer is lent", size, bytes)
		}
		b.Release(0)
	}
	Trim()
	for _, size := range []int{minKeptSize / 2, maxKeptSize + 1, MaxSize, MaxSize + 1} {
		b := Get(size)
		b.Release(0)
		if bytes, _ := kept.lists(); bytes != 0 {
			t.Errorf("%d bytes: %d kept, want nothing", size, bytes)
		}
	}
}

func TestKeptBytesAreBounded(t *testing.T) {
	k := newKeeper()
	for _, size := range []int{maxKeptSize, 3 << 20, 160 << 10, 16 << 10} {
		for k.put(newSlab(size)) {
			if bytes, _ := k.lists(); bytes != k.bytes {
				t.Fatalf("counts %d bytes, has %d", k.bytes, bytes)
			}
			if k.bytes > maxKept {
				t.Fatalf("%d bytes are kept, want at most %d", k.bytes, maxKept)
			}
		}
	}
	if k.bytes != maxKept {
		t.Errorf("%d bytes are kept, there was room for %d", k.bytes, maxKept)
	}

	// Through Release too, of buffers that were all lent at the same time.
	Trim()
	defer Trim()
	held := make([]Buffer, 2*maxKept/maxKeptSize)
	lendAll := func() {
		for i := range held {
			held[i] = Get(maxKeptSize)
		}
		for i := range held {
			held[i].Release(0)
		}
	}
	lendAll()
	if bytes, _ := kept.lists(); bytes != maxKept {
		t.Errorf("%d bytes are kept, want %d", bytes, maxKept)
	}
	// The rest is in a sync.Pool: the next time all are there.
	if raceEnabled {
		t.Log("sync.Pool drops at random under the race detector; the uninstrumented run checks it")
		return
	}
	if n := testing.AllocsPerRun(1, lendAll); n > 2 { // but for one that the sync.Pool of another processor has
		t.Errorf("%v allocations to lend as many buffers again", n)
	}
}

// What is not used goes; what is used stays, however long.
func TestKeptBuffersGrowOld(t *testing.T) {
	k := newKeeper()
	now := time.Unix(1000, 0)
	tick := func() {
		now = now.Add(tickTime)
		k.tick(now)
	}
	idle, used, other := newSlab(1<<20), newSlab(1<<20), newSlab(64<<10)
	k.put(idle)
	k.put(used)
	k.put(other)
	for i := range 3 * maxAge {
		if s := k.get(used.class); s != used {
			t.Fatalf("tick %d: get does not return the buffer that was put last", i)
		}
		k.put(used)
		bytes, n := k.lists()
		want := 3
		if i >= maxAge {
			want = 1
		}
		if n != want {
			t.Fatalf("tick %d: %d buffers, want %d", i, n, want)
		}
		if bytes != k.bytes {
			t.Fatalf("tick %d: counts %d bytes, has %d", i, k.bytes, bytes)
		}
		if !k.watching {
			t.Fatalf("tick %d: will not be called again, with %d bytes kept", i, k.bytes)
		}
		tick()
		k.wantForgotten(t)
	}
	for range maxAge {
		tick()
	}
	k.wantForgotten(t)
	if bytes, n := k.lists(); n != 0 || bytes != 0 || k.bytes != 0 {
		t.Errorf("%d buffers, %d bytes in the end; counts %d", n, bytes, k.bytes)
	}
	if k.watching {
		t.Error("nothing is kept, and tick will be called again")
	}
}

// wantForgotten fails the test if lists refer to buffers that they do not have, which would keep
// them alive.
func (k *keeper) wantForgotten(t *testing.T) {
	t.Helper()
	for _, free := range k.free {
		for _, s := range free[len(free):cap(free)] {
			if s != nil {
				t.Fatal("a list refers to a buffer that it does not have")
			}
		}
	}
}

// What get took is referred to by nobody but its holder, who may drop it.
func TestTakenBuffersAreForgotten(t *testing.T) {
	k := newKeeper()
	s := newSlab(1 << 20)
	k.put(s)
	if k.get(s.class) != s || k.get(s.class) != nil {
		t.Fatal("get returns a buffer twice, or not at all")
	}
	k.wantForgotten(t)
}

// Collections that follow each other closely count once.
func TestTicksTakeTime(t *testing.T) {
	k := newKeeper()
	k.put(newSlab(1 << 20))
	now := time.Unix(1000, 0)
	for range 10 * maxAge {
		k.tick(now)
		k.tick(now.Add(tickTime - 1))
	}
	if _, n := k.lists(); n != 1 {
		t.Fatal("collections within one tick dropped a buffer")
	}
	for range maxAge {
		now = now.Add(tickTime)
		k.tick(now)
	}
	if _, n := k.lists(); n != 0 {
		t.Fatal("the buffer stays")
	}
}

func TestTrim(t *testing.T) {
	for _, size := range []int{minKeptSize, 1 << 20, maxKeptSize} {
		b := Get(size)
		b.Release(0)
	}
	if bytes, _ := kept.lists(); bytes == 0 {
		t.Fatal("nothing to trim")
	}
	Trim()
	if bytes, _ := kept.lists(); bytes != 0 || kept.bytes != 0 {
		t.Errorf("%d bytes after Trim, counts %d", bytes, kept.bytes)
	}
}

// The garbage collector is what makes the lists shrink, again after they were empty.
func TestIdleMemoryIsCollected(t *testing.T) {
	heap := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	Trim()
	before := heap()
	for round := range 2 {
		var held []Buffer
		for _, size := range []int{5000, 160 << 10, 1 << 20, maxKeptSize, 5 << 20} {
			for range 3 {
				held = append(held, Get(size))
			}
		}
		for i := range held {
			held[i].Release(0)
		}
		for start := time.Now(); ; time.Sleep(tickTime / 10) {
			after := heap()
			if after <= before+1<<20 {
				break
			}
			if time.Since(start) > 30*time.Second {
				t.Fatalf("round %d: %d bytes are still kept", round, after-before)
			}
		}
	}
}
