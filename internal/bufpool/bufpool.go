package bufpool

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	minShift = 10 // 1 KiB: below it the handle's overhead outweighs the saving
	maxShift = 23 // 8 MiB: the largest power of two that is pooled

	// MaxSize is the largest pooled size, in bytes. It is the one class that is
	// not a power of two: the largest RLPx frame is a little over 16 MiB and the
	// largest snappy block that can stand for one is 18.7 MiB, so the next power
	// of two would waste 12 MiB on each.
	MaxSize = 20 << 20

	numClasses = maxShift - minShift + 2
	unpooled   = numClasses
)

// pools[i] holds *slab of class i.
var pools [numClasses]sync.Pool

// slab is the shared part of a buffer. gen counts the times that it was lent
// out or given back, so that a stale handle can be told from the current one.
type slab struct {
	mem   []byte
	gen   atomic.Uint64
	class int

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

// Get lends a buffer of at least n bytes. The result of the next larger class
// is as good: len(B) says how much there is.
func Get(n int) Buffer {
	class := classOf(n)
	if class == unpooled {
		return lend(&slab{mem: make([]byte, n), class: class})
	}
	if s, ok := pools[class].Get().(*slab); ok {
		return lend(s)
	}
	return lend(&slab{mem: make([]byte, classSize(class)), class: class})
}

func lend(s *slab) Buffer {
	if t := tracker.Load(); t != nil {
		t.lent.Add(1)
		s.tracker = t
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
		s.tracker.lent.Add(-1)
		s.tracker = nil
	}
	if s.class != unpooled {
		pools[s.class].Put(s)
	}
}

// ClassSize returns the length of the buffer that Get(n) lends.
func ClassSize(n int) int {
	if class := classOf(n); class != unpooled {
		return classSize(class)
	}
	return n
}

// Smaller returns the size of the class below that of the given size.
func Smaller(size int) int {
	return classSize(max(classOf(size)-1, 0))
}

func classOf(n int) int {
	switch {
	case n <= 1<<minShift:
		return 0
	case n <= 1<<maxShift:
		return bits.Len(uint(n-1)) - minShift
	case n <= MaxSize:
		return numClasses - 1
	default:
		return unpooled
	}
}

func classSize(class int) int {
	if class == numClasses-1 {
		return MaxSize
	}
	return 1 << (minShift + class)
}
