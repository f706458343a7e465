package bufpool

import (
	"runtime"
	"sync"
	"time"
)

// A process that collects garbage all the time empties a sync.Pool before the
// next large message comes. So large buffers wait in lists of our own.
const (
	// The buffers that are kept. Smaller ones are used so often that a sync.Pool
	// has them, and cost little to make; larger ones are for messages that nodes do not send
	// each other, and a few of them would fill maxKept.
	minKeptSize = 16 << 10
	maxKeptSize = 4 << 20

	// maxKept bounds the bytes that are kept, for all classes together: enough for a dozen
	// connections that carry 2 MiB messages at the same time. What is beyond goes to a sync.Pool.
	maxKept = 32 << 20

	// A buffer that nobody used for maxAge ticks is dropped. A tick is a garbage
	// collection, but not all of them when they follow each other closely: a tick lasts
	// tickTime at least. So what is used once in two seconds stays, whatever the collector does.
	maxAge   = 8
	tickTime = 250 * time.Millisecond
)

func isKept(class int) bool {
	return class >= minKept && class <= maxKeptClass
}

var minKept, maxKeptClass = classOf(minKeptSize), classOf(maxKeptSize)

// kept has the large buffers that are free.
var kept keeper

// keeper is a list of free buffers for each class. It shrinks without a goroutine
// or a timer of its own: the garbage collector calls tick.
type keeper struct {
	mu       sync.Mutex
	free     [numClasses][]*slab // the last one was given back last
	bytes    int                 // of all that is free
	ticks    int
	lastTick time.Time
	watching bool // tick will be called
}

// get returns a free buffer, or nil. It is the one that was given back last, so
// that those which are not needed grow old.
func (k *keeper) get(class int) *slab {
	k.mu.Lock()
	defer k.mu.Unlock()
	free := k.free[class]
	if len(free) == 0 {
		return nil
	}
	s := free[len(free)-1]
	free[len(free)-1] = nil
	k.free[class] = free[:len(free)-1]
	k.bytes -= len(s.mem)
	return s
}

// put takes a buffer, or reports that there is no room.
func (k *keeper) put(s *slab) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.bytes+len(s.mem) > maxKept {
		return false
	}
	k.bytes += len(s.mem)
	s.age = k.ticks
	k.free[s.class] = append(k.free[s.class], s)
	if !k.watching {
		k.watching = true
		k.watch()
	}
	return true
}

// watch has tick called after the next garbage collection. It is called with k.mu held.
func (k *keeper) watch() {
	// An object that nobody refers to. It has a pointer, or it might share its memory with others.
	type unused struct{ _ *byte }
	runtime.AddCleanup(new(unused), func(k *keeper) { k.tick(time.Now()) }, k)
}

// tick drops what grew too old.
func (k *keeper) tick(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Sub(k.lastTick) >= tickTime {
		k.lastTick = now
		k.ticks++
		k.drop(maxAge)
	}
	if k.watching = k.bytes > 0; k.watching {
		k.watch()
	}
}

// drop drops what nobody used for so many ticks. It is called with k.mu held.
func (k *keeper) drop(age int) {
	for class, free := range k.free {
		n := 0
		for n < len(free) && k.ticks-free[n].age >= age {
			k.bytes -= len(free[n].mem)
			n++
		}
		if n == 0 {
			continue
		}
		rest := copy(free, free[n:])
		clear(free[rest:])
		k.free[class] = free[:rest]
	}
}

// Trim drops the free large buffers, whatever their age. Together with two garbage
// collections, which empty a sync.Pool, it leaves nothing: for tests that measure memory.
func Trim() {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	kept.drop(0)
}
