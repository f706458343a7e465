package bufpool

import (
	"sync"
	"sync/atomic"
)

// slab is the shared part of a buffer. gen counts the times that it was lent
// out or given back, so that a stale handle can be told from the current one.
type slab struct {
	mem   []byte
	gen   atomic.Uint64
	class int

	age     int      // ticks of kept when it was given back; guarded by kept.mu
	tracker *Tracker // that counts it; the holder's alone
}

// Buffer is the handle of a lent buffer. The zero value holds nothing.
type Buffer struct {
	// B is the whole buffer. Its length is its capacity; its content is
	// arbitrary at first. Callers may use it freely but not replace it.
	B []byte

	slab *slab
	gen  uint64
}

// pools[i] holds *slab of class i: all of the small classes, and of the large
// ones those for which kept has no room.
var pools [numClasses]sync.Pool

// Get lends a buffer of at least n bytes: [ClassSize] says how many exactly.
func Get(n int) Buffer {
	class := classOf(n)
	if class == unpooled {
		return lend(&slab{mem: make([]byte, n), class: class})
	}
	if isKept(class) {
		if s := kept.get(class); s != nil {
			return lend(s)
		}
	}
	if s, ok := pools[class].Get().(*slab); ok {
		return lend(s)
	}
	return lend(&slab{mem: make([]byte, classSizes[class]), class: class})
}

func lend(s *slab) Buffer {
	if tracking {
		s.track()
	}
	return Buffer{B: s.mem, slab: s, gen: s.gen.Add(1)}
}

// Held reports whether b holds a buffer.
func (b *Buffer) Held() bool { return b.slab != nil }

// Release gives the buffer back and empties the handle. The first dirty bytes
// are cleared first; pass how much of the buffer may hold plaintext. It panics
// if the buffer was released before.
func (b *Buffer) Release(dirty int) {
	s := b.slab
	if s == nil || !s.gen.CompareAndSwap(b.gen, b.gen+1) {
		panic("bufpool: buffer released twice")
	}
	clear(s.mem[:dirty])
	*b = Buffer{}
	if s.tracker != nil {
		s.untrack()
	}
	switch {
	case s.class == unpooled:
	case isKept(s.class) && kept.put(s):
	default:
		pools[s.class].Put(s)
	}
}
