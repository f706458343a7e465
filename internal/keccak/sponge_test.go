package keccak

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"golang.org/x/crypto/sha3"
)

// maxLength is the longest message of the exhaustive tests: three blocks and
// both sides of the edge after them.
const maxLength = 3*Rate + 1

func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(uint64(len(t.Name())), 0x5eed))
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// reference is the digest by x/crypto.
func reference(p []byte) (out [Size]byte) {
	h := sha3.NewLegacyKeccak256()
	h.Write(p)
	h.Sum(out[:0])
	return out
}

func sum(s *State) (out [Size]byte) {
	s.Sum(&out)
	return out
}

func TestEveryLength(t *testing.T) { eachTier(t, testEveryLength) }

func testEveryLength(t *testing.T) {
	msg := randomBytes(newRand(t), maxLength)
	for n := range maxLength + 1 {
		var s State
		if k, err := s.Write(msg[:n]); k != n || err != nil {
			t.Fatalf("Write of %d bytes = %d, %v", n, k, err)
		}
		if got, want := sum(&s), reference(msg[:n]); got != want {
			t.Fatalf("digest of %d bytes is %x, want %x", n, got, want)
		}
	}
}

func TestChunking(t *testing.T) { eachTier(t, testChunking) }

// testChunking splits a message in three: first at every place of its first
// block, then at every place.
func testChunking(t *testing.T) {
	msg := randomBytes(newRand(t), maxLength)
	want := make([][Size]byte, len(msg)+1)
	for n := range want {
		want[n] = reference(msg[:n])
	}
	for i := range Rate + 1 {
		var head State
		head.Write(msg[:i])
		if got := sum(&head); got != want[i] {
			t.Fatalf("digest after %d bytes is %x, want %x", i, got, want[i])
		}
		for j := i; j <= len(msg); j++ {
			s := head
			s.Write(msg[i:j])
			if sum(&s) != want[j] {
				t.Fatalf("split at %d and %d: wrong digest", i, j)
			}
		}
	}
}

func TestChunkSizes(t *testing.T) { eachTier(t, testChunkSizes) }

// testChunkSizes writes a long message in pieces of every size.
func testChunkSizes(t *testing.T) {
	msg := randomBytes(newRand(t), 5*maxLength)
	want := reference(msg)
	for size := 1; size <= maxLength; size++ {
		var s State
		for p := msg; len(p) > 0; {
			n := min(size, len(p))
			s.Write(p[:n])
			p = p[n:]
		}
		if sum(&s) != want {
			t.Fatalf("in pieces of %d: wrong digest", size)
		}
	}
}

func TestSumLeavesState(t *testing.T) { eachTier(t, testSumLeavesState) }

// testSumLeavesState takes digests between writes, as the frame MAC does.
func testSumLeavesState(t *testing.T) {
	r := newRand(t)
	h := sha3.NewLegacyKeccak256()
	var s State
	for i := range 2000 {
		p := randomBytes(r, r.IntN(2*Rate))
		h.Write(p)
		s.Write(p)
		before := s
		got := sum(&s)
		if s != before {
			t.Fatalf("step %d: Sum changed the state", i)
		}
		if want := h.Sum(nil); !bytes.Equal(got[:], want) {
			t.Fatalf("step %d: digest is %x, want %x", i, got, want)
		}
	}
}

func TestCopyIsClone(t *testing.T) {
	var s State
	s.Write([]byte("common"))
	c := s
	c.Write([]byte(" copy"))
	s.Write([]byte(" original"))
	if sum(&c) != reference([]byte("common copy")) {
		t.Error("the copy does not stand alone")
	}
	if sum(&s) != reference([]byte("common original")) {
		t.Error("the original follows its copy")
	}
}
