package keccak

import (
	"fmt"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"golang.org/x/crypto/sha3"
)

// eachTierBench is eachTier for benchmarks. A run with -count interleaves tiers.
func eachTierBench(b *testing.B, bench func(*testing.B)) {
	for _, tier := range available() {
		b.Run("impl="+tier, func(b *testing.B) {
			restore, ok := SetTier(tier)
			if !ok {
				b.Fatalf("SetTier refuses %q, which is available", tier)
			}
			defer restore()
			bench(b)
		})
	}
}

// BenchmarkWrite absorbs into one state.
func BenchmarkWrite(b *testing.B) {
	for _, n := range []int{16, Rate, 1024, 128 << 10} {
		b.Run(fmt.Sprintf("size=%d", n), func(b *testing.B) {
			msg := make([]byte, n)
			eachTierBench(b, func(b *testing.B) {
				var s State
				b.SetBytes(int64(n))
				for b.Loop() {
					s.Write(msg)
				}
			})
			for _, tt := range importable {
				b.Run("impl="+tt.name, func(b *testing.B) {
					h := tt.make()
					b.SetBytes(int64(n))
					for b.Loop() {
						h.Write(msg)
					}
				})
			}
		})
	}
}

// BenchmarkSum takes one digest.
func BenchmarkSum(b *testing.B) {
	var out [Size]byte
	eachTierBench(b, func(b *testing.B) {
		var s State
		for b.Loop() {
			s.Sum(&out)
		}
	})
	b.Run("impl=x/crypto", func(b *testing.B) {
		h := sha3.NewLegacyKeccak256()
		for b.Loop() {
			h.Sum(out[:0])
		}
	})
	b.Run("impl=go-ethereum", func(b *testing.B) {
		h := crypto.NewKeccakState()
		for b.Loop() {
			h.Sum(out[:0])
		}
	})
}

// BenchmarkSumWriteSum is the header's tag and the seed of a small frame.
func BenchmarkSumWriteSum(b *testing.B) {
	var before, after [Size]byte
	frame := make([]byte, 32)
	eachTierBench(b, func(b *testing.B) {
		for b.Loop() {
			var s State
			s.SumWriteSum(&before, frame, &after)
		}
	})
}

// BenchmarkLanes absorbs into several states at once. What it reports is the
// time of one permutation of one state.
func BenchmarkLanes(b *testing.B) {
	const blocks = 120 // a frame of 16 KiB
	msg := make([]byte, blocks*Rate)
	for n := 1; n <= Lanes; n++ {
		b.Run(fmt.Sprintf("lanes=%d", n), func(b *testing.B) {
			eachTierBench(b, func(b *testing.B) {
				states := make([]State, n)
				batch := make([]Lane, n)
				for i := range batch {
					batch[i] = Lane{&states[i], msg}
				}
				b.SetBytes(int64(n * len(msg)))
				for b.Loop() {
					AbsorbLanes(batch)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n*blocks), "ns/permutation")
			})
		})
	}
}

// BenchmarkLanesFar is BenchmarkLanes with bytes that come from memory.
func BenchmarkLanesFar(b *testing.B) {
	const size, frames = 120 * Rate, 3200
	msg := make([]byte, frames*size)
	for i := range msg {
		msg[i] = byte(i)
	}
	for _, n := range []int{4, 8} {
		b.Run(fmt.Sprintf("lanes=%d", n), func(b *testing.B) {
			eachTierBench(b, func(b *testing.B) {
				states := make([]State, n)
				batch := make([]Lane, n)
				at := 0
				b.SetBytes(int64(n * size))
				for b.Loop() {
					for i := range batch {
						batch[i] = Lane{&states[i], msg[at : at+size]}
						at = (at + size) % len(msg)
					}
					AbsorbLanes(batch)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())*Rate/float64(b.N*n*size), "ns/permutation")
			})
		})
	}
}

// BenchmarkSumLanes takes the digests of several states at once.
func BenchmarkSumLanes(b *testing.B) {
	for _, n := range []int{2, 4, 8} {
		b.Run(fmt.Sprintf("lanes=%d", n), func(b *testing.B) {
			eachTierBench(b, func(b *testing.B) {
				states := make([]*State, n)
				outs := make([]*[Size]byte, n)
				for i := range states {
					states[i], outs[i] = new(State), new([Size]byte)
				}
				for b.Loop() {
					SumLanes(states, outs)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/permutation")
			})
		})
	}
}
