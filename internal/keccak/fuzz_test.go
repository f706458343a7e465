package keccak

import (
	"encoding/binary"
	"testing"
)

// FuzzTiersAgree cuts the input into lanes, by lengths that the input itself
// gives, and has every tier absorb them in every way there is. All must agree
// with x/crypto.
func FuzzTiersAgree(f *testing.F) {
	r := newRand(f)
	f.Add([]byte{})
	f.Add(make([]byte, Rate))
	for _, n := range []int{Rate - 1, Rate + 1, maxLength, 40 * Rate} {
		f.Add(randomBytes(r, n))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var parts [][]byte
		for rest := data; len(rest) >= 2 && len(parts) < 3*Lanes; {
			n := int(binary.LittleEndian.Uint16(rest)) % 2048
			rest = rest[2:]
			n = min(n, len(rest))
			parts = append(parts, rest[:n])
			rest = rest[n:]
		}
		n := len(parts)
		want := make([][Size]byte, n)
		for i, p := range parts {
			want[i] = reference(p)
		}
		wantAll := reference(data)

		for _, tier := range available() {
			restore, ok := SetTier(tier)
			if !ok {
				t.Fatalf("tier %s is refused", tier)
			}
			var all State
			all.Write(data)
			if sum(&all) != wantAll {
				t.Errorf("%s: wrong digest of the whole", tier)
			}
			for _, cut := range []int{0, n, len(data) / 2, len(data)} {
				var s State
				var before, after [Size]byte
				s.Write(data[:cut])
				alone := sum(&s)
				s.SumWriteSum(&before, data[cut:], &after)
				if before != alone || after != wantAll || s != all {
					t.Errorf("%s: cut at %d: wrong digests", tier, cut)
				}
			}
			states := make([]State, n)
			batch := make([]Lane, n)
			ptrs := make([]*State, n)
			outs := make([]*[Size]byte, n)
			for i, p := range parts {
				batch[i] = Lane{&states[i], p}
				ptrs[i], outs[i] = &states[i], new([Size]byte)
			}
			AbsorbLanes(batch)
			SumLanes(ptrs, outs)
			for i := range parts {
				if *outs[i] != want[i] {
					t.Errorf("%s: wrong digest of lane %d of %d", tier, i, n)
				}
			}
			restore()
		}
	})
}
