package main

import (
	"crypto/sha3"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// numbers is the algebra of numbers.
var numbers = algebra[uint64]{
	xor:      func(a, b uint64) uint64 { return a ^ b },
	and:      func(a, b uint64) uint64 { return a & b },
	not:      func(a uint64) uint64 { return ^a },
	rotate:   bits.RotateLeft64,
	constant: func(c uint64) uint64 { return c },
}

// specPermute is Keccak-f[1600].
func specPermute(a [laneCount]uint64) [laneCount]uint64 {
	for r := range roundCount {
		a = specRound(numbers, a, r)
	}
	return a
}

// TestSpecification computes SHA3-256, which has the same permutation and rate, and compares
// it with the standard library's.
func TestSpecification(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 3*rateBytes + 2 {
		message := make([]byte, n)
		for i := range message {
			message[i] = byte(r.Uint32())
		}
		padded := append(message[:n:n], 6)
		for len(padded)%rateBytes != 0 {
			padded = append(padded, 0)
		}
		padded[len(padded)-1] ^= 0x80
		var a [laneCount]uint64
		for block := padded; len(block) > 0; block = block[rateBytes:] {
			for i := range rateLanes {
				a[i] ^= binary.LittleEndian.Uint64(block[laneBytes*i:])
			}
			a = specPermute(a)
		}
		var got [digestSize]byte
		for i := range digestSize / laneBytes {
			binary.LittleEndian.PutUint64(got[laneBytes*i:], a[i])
		}
		if want := sha3.Sum256(message); got != want {
			t.Fatalf("%d bytes: %x, want %x", n, got, want)
		}
	}
}

// TestRoundTable evaluates the forms of a round, which the proof compares with, and compares them
// with the specification in numbers.
func TestRoundTable(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for round := range roundCount {
		var in [laneCount]uint64
		for i := range in {
			in[i] = r.Uint64()
		}
		want := specRound(numbers, in, round)
		for i, v := range rounds.lane {
			got := v.evaluate(func(atom int) uint64 {
				_, _, i := laneOf(atom)
				return in[i]
			})
			if i == 0 {
				got ^= rounds.constant[round]
			}
			if got != want[i] {
				t.Fatalf("round %d, lane %d: %#x, want %#x", round, i, got, want[i])
			}
		}
	}
}
