package bufpool

import "math/bits"

// The sizes of buffers: powers of two from 1 to 16 KiB, and from there on four
// to each doubling, up to 20 MiB. What is lent is a frame or a message with some
// bytes more, so that with powers of two it would often be half empty.
const (
	minShift  = 10 // 1 KiB: below it the handle's overhead outweighs the saving
	fineShift = 14 // 16 KiB: from here on in quarter steps
	maxShift  = 24

	// MaxSize is the largest pooled size, in bytes: the largest RLPx frame is a
	// little over 16 MiB, and the largest snappy block that can stand for one is 18.7 MiB.
	MaxSize = 1<<maxShift + 1<<maxShift/4

	fineClass  = fineShift - minShift // the class of 16 KiB
	numClasses = fineClass + 4*(maxShift-fineShift) + 2
	unpooled   = numClasses
)

// classSizes[i] is the size of buffers of class i.
var classSizes = func() (sizes [numClasses]int) {
	for i := range sizes {
		if i <= fineClass {
			sizes[i] = 1 << (minShift + i)
			continue
		}
		doublings, quarters := (i-fineClass)/4, (i-fineClass)%4
		sizes[i] = (4 + quarters) << (fineShift - 2 + doublings)
	}
	return sizes
}()

// classOf is the class of the smallest buffers that hold n bytes.
func classOf(n int) int {
	switch {
	case n <= 1<<minShift:
		return 0
	case n <= 1<<fineShift:
		return bits.Len(uint(n-1)) - minShift
	case n <= MaxSize:
		last := uint(n - 1) // from 1<<shift on
		shift := bits.Len(last) - 1
		return fineClass + 4*(shift-fineShift) + int(last>>(shift-2))&3 + 1
	default:
		return unpooled
	}
}

// ClassSize returns the length of the buffer that Get(n) lends.
func ClassSize(n int) int {
	if class := classOf(n); class != unpooled {
		return classSizes[class]
	}
	return n
}

// Smaller returns the size of the class below that of the given size.
func Smaller(size int) int {
	return classSizes[max(classOf(size)-1, 0)]
}
