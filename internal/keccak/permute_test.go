package keccak

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/crypto/sha3"
)

func randomLanes(r *rand.Rand) (a [lanes]uint64) {
	for i := range a {
		a[i] = r.Uint64()
	}
	return a
}

// TestPermuteGeneric holds the oracle of all other tests to the first 1000
// blocks of x/crypto's sponge.
func TestPermuteGeneric(t *testing.T) {
	r := newRand(t)
	h := sha3.NewLegacyKeccak256()
	var a [lanes]uint64
	for i := range 1000 {
		block := randomBytes(r, Rate)
		h.Write(block)
		xorBlock(&a, (*[Rate]byte)(block))
		permuteGeneric(&a)
		s, ok := Import(h)
		if !ok {
			t.Fatal("x/crypto's hash is refused")
		}
		if s.a != a {
			t.Fatalf("block %d: state is %x, want %x", i, a, s.a)
		}
	}
}

func TestPermuteAbsorb(t *testing.T) { eachTier(t, testPermuteAbsorb) }

// testPermuteAbsorb compares the kernel for one state with the portable code.
func testPermuteAbsorb(t *testing.T) {
	r := newRand(t)
	for range 200 {
		for blocks := range 5 {
			got := randomLanes(r)
			want := got
			p := randomBytes(r, blocks*Rate)
			permuteAbsorb(&got, p)
			permuteAbsorbGeneric(&want, p)
			if got != want {
				t.Fatalf("%d blocks: state is %x, want %x", blocks, got, want)
			}
		}
	}
}

func TestDigestPermute(t *testing.T) { eachTier(t, testDigestPermute) }

func testDigestPermute(t *testing.T) {
	r := newRand(t)
	for range 1000 {
		a, b := randomLanes(r), randomLanes(r)
		permuted, wantA, wantB := a, a, b
		permuteGeneric(&permuted)
		permuteGeneric(&wantB)
		var out, want [Size]byte
		squeeze(&want, &permuted)
		digestPermute(&out, &a, &b)
		if out != want {
			t.Fatalf("digest is %x, want %x", out, want)
		}
		if a != wantA || b != wantB {
			t.Fatalf("states are %x and %x, want %x and %x", a, b, wantA, wantB)
		}
	}
}

func TestAdvance(t *testing.T) { eachTier(t, testAdvance) }

// testAdvance compares the kernels for groups with the portable code: every
// number of columns and blocks, other data in each column.
func testAdvance(t *testing.T) {
	r := newRand(t)
	for range 50 {
		for n := 1; n <= LaneWidth(); n++ {
			for blocks := range 4 {
				var room, wantRoom groupRoom
				got := group{a: room.aligned()}
				for i := range LaneWidth() {
					a := randomLanes(r)
					got.set(i, &a)
					got.point(i, randomBytes(r, blocks*Rate))
				}
				want := group{a: wantRoom.aligned(), p: got.p}
				*want.a = *got.a
				got.advance(n, blocks)
				want.advanceGeneric(n, blocks)
				if got.p != want.p {
					t.Fatal("the pointers have changed")
				}
				for i := range n {
					var g, w [lanes]uint64
					got.get(i, &g)
					want.get(i, &w)
					if g != w {
						t.Fatalf("%d columns, %d blocks: column %d is %x, want %x", n, blocks, i, g, w)
					}
				}
			}
		}
	}
}
