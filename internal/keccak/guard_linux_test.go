package keccak

import (
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// guarded is n bytes with unreadable memory right before and right after them,
// as close as start and end can be to page borders: atEnd chooses which.
func guarded(t *testing.T, data []byte, atEnd bool) []byte {
	t.Helper()
	page := os.Getpagesize()
	size := (len(data) + page - 1) / page * page
	m, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(m); err != nil {
			t.Error(err)
		}
	})
	for _, guard := range [][]byte{m[:page], m[page+size:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	at := page
	if atEnd {
		at += size - len(data)
	}
	p := m[at : at+len(data) : at+len(data)]
	copy(p, data)
	return p
}

func TestReadsNothingBeside(t *testing.T) { eachTier(t, testReadsNothingBeside) }

// testReadsNothingBeside absorbs data that lies between unreadable pages. A
// kernel that reads a byte too many crashes the test.
func testReadsNothingBeside(t *testing.T) {
	r := newRand(t)
	for _, atEnd := range []bool{false, true} {
		all := guarded(t, randomBytes(r, maxLength), atEnd)
		for n := range len(all) + 1 {
			p := all[:n]
			if atEnd {
				p = all[len(all)-n:]
			}
			want := reference(p)
			var s State
			s.Write(p)
			if sum(&s) != want {
				t.Fatalf("%d bytes: wrong digest", n)
			}
			for _, count := range []int{2, 4, Lanes, Lanes + 1} { // for each kernel
				states, lanes := make([]State, count), make([]Lane, count)
				for i := range lanes {
					lanes[i] = Lane{&states[i], p}
				}
				AbsorbLanes(lanes)
				for i := range states {
					if states[i] != s {
						t.Fatalf("%d bytes: wrong state in lane %d of %d", n, i, count)
					}
				}
			}
			var before, after [Size]byte
			var paired State
			paired.SumWriteSum(&before, p, &after)
			if after != want || before != reference(nil) || paired != s {
				t.Fatalf("%d bytes: wrong digests around a write", n)
			}
		}
	}
}

func TestArgumentsOnly(t *testing.T) { eachTier(t, testArgumentsOnly) }

// testArgumentsOnly has states, digests and groups lie between unreadable pages, at the start and
// at the end. A kernel that loads or stores beside them crashes the test.
func testArgumentsOnly(t *testing.T) {
	r := newRand(t)
	for _, atEnd := range []bool{false, true} {
		state := func() *[lanes]uint64 {
			a := (*[lanes]uint64)(unsafe.Pointer(&guarded(t, make([]byte, stateSize), atEnd)[0]))
			*a = randomLanes(r)
			return a
		}
		out := func() *[Size]byte { return (*[Size]byte)(guarded(t, make([]byte, Size), atEnd)) }
		check := func(what string, got, want any) {
			if got != want {
				t.Errorf("at the end: %v: %s is %x, want %x", atEnd, what, got, want)
			}
		}
		digestOf := func(a [lanes]uint64) (d [Size]byte) {
			permuteGeneric(&a)
			squeeze(&d, &a)
			return d
		}

		a, b, outA, outB := state(), state(), out(), out()
		beforeA, beforeB := *a, *b
		digest(outA, a)
		check("a digest", *outA, digestOf(beforeA))
		clear(outA[:])
		digest2(outA, outB, a, b)
		check("the first digest", *outA, digestOf(beforeA))
		check("the second digest", *outB, digestOf(beforeB))
		clear(outA[:])
		digestPermute(outA, a, b)
		check("the digest", *outA, digestOf(beforeA))
		permuteGeneric(&beforeB)
		check("the permuted state", *b, beforeB)
		p := guarded(t, randomBytes(r, 2*Rate), atEnd)
		permuteBlocks(a, p)
		permuteAbsorbGeneric(&beforeA, p)
		check("the state after two blocks", *a, beforeA)

		rows := guarded(t, make([]byte, unsafe.Sizeof([lanes][Lanes]uint64{})), atEnd)
		g := &group{a: (*[lanes][Lanes]uint64)(unsafe.Pointer(&rows[0]))}
		for n := 1; n <= LaneWidth(); n++ {
			for i := range LaneWidth() {
				column := randomLanes(r)
				g.set(i, &column)
				g.point(i, p)
			}
			want, copied := *g, *g.a
			want.a = &copied
			want.advanceGeneric(n, 2)
			g.advance(n, 2)
			for i := range n {
				var x, y [lanes]uint64
				g.get(i, &x)
				want.get(i, &y)
				check("a column", x, y)
			}
		}
	}
}
