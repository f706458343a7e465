package main

import "fmt"

// A layout says at which place (a register, a memory slot) each lane is.
type layout [lanes]int

// startLayout has lane i at place i.
func startLayout() (l layout) {
	for i := range l {
		l[i] = i
	}
	return l
}

// nowhere is no place.
const nowhere = -1

// A row is what one row of a round's result is made from.
type row struct {
	y      int    // the row
	from   [5]int // by x of the result: column of the source lane before pi
	rotate [5]int // by x of the result: its rotation
	src    [5]int // by x of the result: its place before the round
	dst    [5]int // by x of the result: the place of the result
}

// row describes row y of the next round's result. The places of its sources are
// given to its results, each result getting the place whose number is its own
// column modulo five.
func (l layout) row(y int) row {
	r := row{y: y}
	offsets := rho()
	for x := range 5 {
		sx, sy := piSource(x, y)
		r.from[x] = sx
		r.rotate[x] = offsets[lane(sx, sy)]
		r.src[x] = l[lane(sx, sy)]
	}
	for x := range 5 {
		r.dst[x] = nowhere
		for _, place := range r.src {
			if place%5 == x {
				r.dst[x] = place
			}
		}
	}
	return r
}

// put books the results of r.
func (l *layout) put(r row) {
	for x := range 5 {
		l[lane(x, r.y)] = r.dst[x]
	}
}

// mustEqual stops the generator if a loop would not begin with the same layout
// each time.
func (l layout) mustEqual(start layout) {
	if l != start {
		panic(fmt.Sprintf("layout is %v at the end of the loop, was %v", l, start))
	}
}
