package keccak

import (
	"os"
	"syscall"
	"testing"
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
