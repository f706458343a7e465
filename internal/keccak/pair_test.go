package keccak

import "testing"

func TestSum2(t *testing.T) { eachTier(t, testSum2) }

func testSum2(t *testing.T) {
	msg := randomBytes(newRand(t), maxLength)
	for n := range len(msg) + 1 {
		var a, b State
		a.Write(msg[:n])
		b.Write(msg[n:])
		beforeA, beforeB := a, b
		var outA, outB [Size]byte
		Sum2(&a, &b, &outA, &outB)
		if outA != reference(msg[:n]) || outB != reference(msg[n:]) {
			t.Fatalf("%d and %d bytes: wrong digests", n, len(msg)-n)
		}
		if a != beforeA || b != beforeB {
			t.Fatalf("%d and %d bytes: Sum2 changed a state", n, len(msg)-n)
		}
		Sum2(&a, &a, &outA, &outB)
		if outA != reference(msg[:n]) || outB != outA {
			t.Fatalf("%d bytes: wrong digests of one state twice", n)
		}
	}
}

func TestSumWriteSum(t *testing.T) { eachTier(t, testSumWriteSum) }

// testSumWriteSum takes digests around a write: from every position in a block
// with lengths around each edge, and with every length from some positions.
func testSumWriteSum(t *testing.T) {
	r := newRand(t)
	msg := randomBytes(r, Rate+maxLength)
	want := make([][Size]byte, len(msg)+1)
	for i := range want {
		want[i] = reference(msg[:i])
	}
	check := func(start, n int) {
		var s State
		s.Write(msg[:start])
		a, b := s, s
		a.Write(msg[start : start+n])
		var before, after [Size]byte
		b.SumWriteSum(&before, msg[start:start+n], &after)
		if before != want[start] || after != want[start+n] {
			t.Fatalf("at %d: wrong digests around %d bytes", start, n)
		}
		if a != b {
			t.Fatalf("at %d: the state is wrong after %d bytes", start, n)
		}
	}
	for start := range Rate + 1 {
		for blocks := range 4 {
			for _, n := range []int{0, blocks*Rate - start - 1, blocks*Rate - start, blocks*Rate - start + 1} {
				if n >= 0 {
					check(start, n)
				}
			}
		}
	}
	for _, start := range []int{0, 1, 7, 8, 16, Rate - 16, Rate - 1, Rate} {
		for n := range maxLength + 1 {
			check(start, n)
		}
	}
}
