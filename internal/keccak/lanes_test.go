package keccak

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// laneCase is a lane, and what it has absorbed before.
type laneCase struct{ before, p []byte }

// checkLanes absorbs cases together and compares states and digests with those
// of single states and of x/crypto.
func checkLanes(t *testing.T, cases []laneCase) {
	t.Helper()
	states := make([]State, len(cases))
	want := make([]State, len(cases))
	batch := make([]Lane, len(cases))
	sums := make([]*State, len(cases))
	outs := make([]*[Size]byte, len(cases))
	for i, c := range cases {
		states[i].Write(c.before)
		want[i] = states[i]
		want[i].Write(c.p)
		batch[i] = Lane{&states[i], c.p}
		sums[i] = &states[i]
		outs[i] = new([Size]byte)
	}
	AbsorbLanes(batch)
	for i, c := range cases {
		if states[i] != want[i] {
			t.Fatalf("lane %d of %d (%d bytes after %d): state is %x, want %x", i, len(cases), len(c.p), len(c.before), states[i], want[i])
		}
		if batch[i].S != &states[i] || len(batch[i].P) != len(c.p) {
			t.Fatalf("lane %d of %d has been changed", i, len(cases))
		}
	}
	SumLanes(sums, outs)
	for i, c := range cases {
		if states[i] != want[i] {
			t.Fatalf("lane %d of %d: SumLanes changed the state", i, len(cases))
		}
		if *outs[i] != reference(append(c.before[:len(c.before):len(c.before)], c.p...)) {
			t.Fatalf("lane %d of %d (%d bytes after %d): wrong digest", i, len(cases), len(c.p), len(c.before))
		}
	}
}

func randomCase(r *rand.Rand, n int) laneCase {
	return laneCase{randomBytes(r, r.IntN(Rate+2)), randomBytes(r, n)}
}

func TestLanesEveryLength(t *testing.T) { eachTier(t, testLanesEveryLength) }

// testLanesEveryLength gives all lanes the same length, and a different one to
// the one of them that is at hand.
func testLanesEveryLength(t *testing.T) {
	r := newRand(t)
	for n := range maxLength + 1 {
		cases := make([]laneCase, Lanes)
		for i := range cases {
			cases[i] = randomCase(r, n)
		}
		checkLanes(t, cases)
		cases[n%Lanes] = randomCase(r, r.IntN(maxLength+1))
		checkLanes(t, cases)
	}
}

func TestLanesEverySubset(t *testing.T) { eachTier(t, testLanesEverySubset) }

// testLanesEverySubset has each subset of eight lanes carry long data while the
// others carry little or none.
func testLanesEverySubset(t *testing.T) {
	r := newRand(t)
	for subset := range 1 << Lanes {
		var together, alone []laneCase
		for i := range Lanes {
			long := randomCase(r, Rate+r.IntN(3*Rate))
			if subset&(1<<i) != 0 {
				together = append(together, long)
				alone = append(alone, long)
			} else {
				together = append(together, randomCase(r, r.IntN(4)))
			}
		}
		checkLanes(t, together)
		checkLanes(t, alone)
	}
}

func TestLanesRefill(t *testing.T) { eachTier(t, testLanesRefill) }

// testLanesRefill has up to 40 lanes of uneven lengths share eight places.
func testLanesRefill(t *testing.T) {
	r := newRand(t)
	for n := range 41 {
		for range 5 {
			cases := make([]laneCase, n)
			for i := range cases {
				size := r.IntN(maxLength)
				if r.IntN(4) == 0 {
					size = r.IntN(20 * Rate)
				}
				cases[i] = randomCase(r, size)
			}
			checkLanes(t, cases)
		}
	}
}

func TestLongRuns(t *testing.T) { eachTier(t, testLongRuns) }

// testLongRuns has more blocks in a row than one call of a kernel may take, with
// one lane, with few and with many.
func testLongRuns(t *testing.T) {
	r := newRand(t)
	for _, n := range []int{1, 2, 3, Lanes, Lanes + 2} {
		cases := make([]laneCase, n)
		for i := range cases {
			edge := (1 + i%2) * (maxBlocks + 1) * Rate
			cases[i] = randomCase(r, edge-Rate+r.IntN(2*Rate))
		}
		checkLanes(t, cases)
	}
}

// TestSumLanesSameState takes one state's digest several times at once.
func TestSumLanesSameState(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		var s State
		s.Write([]byte("one for all"))
		for n := range 2*Lanes + 1 {
			states := make([]*State, n)
			outs := make([]*[Size]byte, n)
			for i := range states {
				states[i], outs[i] = &s, new([Size]byte)
			}
			SumLanes(states, outs)
			for i, out := range outs {
				if *out != sum(&s) {
					t.Fatalf("digest %d of %d is wrong", i, n)
				}
			}
		}
	})
}

func TestNoAllocations(t *testing.T) { eachTier(t, testNoAllocations) }

func testNoAllocations(t *testing.T) {
	const n = 2*Lanes + 3
	msg := make([]byte, 10*Rate+5)
	var states [n]State
	var sums [n][Size]byte
	var batch [n]Lane
	var ptrs [n]*State
	var outs [n]*[Size]byte
	for i := range n {
		batch[i] = Lane{&states[i], msg[:len(msg)-i*Rate/2]}
		ptrs[i], outs[i] = &states[i], &sums[i]
	}
	for _, size := range []int{0, 1, 16, Rate, len(msg)} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			if got := testing.AllocsPerRun(50, func() {
				var s State
				s.Write(msg[:size])
				c := s
				c.Sum(&sums[0])
				Sum2(&s, &c, &sums[1], &sums[2])
				s.SumWriteSum(&sums[3], msg[:size], &sums[4])
				AbsorbLanes(batch[:])
				SumLanes(ptrs[:], outs[:])
			}); got != 0 {
				t.Errorf("%v allocations", got)
			}
		})
	}
}

// TestGroupRoom checks that a group's states are in its room and begin with a cache line,
// wherever the room is.
func TestGroupRoom(t *testing.T) {
	for shift := range cacheLine / laneSize {
		space := make([]uint64, len(groupRoom{})+shift)
		room := (*groupRoom)(space[shift:])
		a := room.aligned()
		if p := uintptr(unsafe.Pointer(a)); p%cacheLine != 0 {
			t.Errorf("room shifted by %d lanes: the states are at %#x", shift, p)
		}
		first, last := &a[0][0], &a[lanes-1][Lanes-1]
		*first, *last = 1, 2
		if !slices.Contains(room[:], 1) || !slices.Contains(room[:], 2) {
			t.Errorf("room shifted by %d lanes: the states are not in it", shift)
		}
	}
}
