package mac

import (
	"bytes"
	"crypto/aes"
	"encoding/binary"
	"hash"
	"math/rand/v2"
	"testing"

	"golang.org/x/crypto/sha3"

	"github.com/go-rlpx/transport/internal/keccak"
)

// maxFuzzLanes is more than one batch of the widest kernel, so that what is left over is met too.
const maxFuzzLanes = 2*keccak.Lanes + 3

// FuzzBatchLanes seals frames for several connections at once. The input gives each lane its
// length, two bytes, and its content; lanes run in several rounds, so that their states are at
// different offsets. Every tier, and lanes whose hash is foreign, must make the tags that each
// connection makes alone, which follow the literal formulas.
func FuzzBatchLanes(f *testing.F) {
	r := rand.New(rand.NewPCG(21, 23))
	lanes := func(lengths ...int) []byte {
		var input []byte
		for _, n := range lengths {
			input = binary.LittleEndian.AppendUint16(input, uint16(n))
			input = append(input, random(r, n)...)
		}
		return input
	}
	f.Add([]byte{}, uint8(0), uint64(0))
	f.Add(lanes(0), uint8(1), uint64(1))
	f.Add(lanes(16, 32, 16, 32, 16, 32, 16, 32), uint8(1), uint64(0))
	f.Add(lanes(16, 4096, 0, 136, 144, 128, 272, 256, 1024, 16), uint8(2), uint64(1<<3))
	f.Add(lanes(5000, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16), uint8(3), uint64(0))
	f.Fuzz(func(t *testing.T, input []byte, rounds uint8, foreign uint64) {
		var parts [][]byte
		for rest := input; len(rest) >= 2 && len(parts) < maxFuzzLanes; {
			n := min(int(binary.LittleEndian.Uint16(rest)), len(rest)-2) &^ 15 // ciphertexts are whole blocks
			parts = append(parts, rest[2:2+n])
			rest = rest[2+n:]
		}
		for _, tier := range keccak.Tiers() {
			ok := tier.Run(func() { batchAgainstAlone(t, tier.Name, parts, int(rounds%4)+1, foreign) })
			if ok != tier.Available {
				t.Fatalf("tier %s, available: %v, runs: %v", tier.Name, tier.Available, ok)
			}
		}
	})
}

func batchAgainstAlone(t *testing.T, tier string, parts [][]byte, rounds int, foreign uint64) {
	macs, alone, spec := make([]*MAC, len(parts)), make([]*MAC, len(parts)), make([]*literal, len(parts))
	for i := range parts {
		key := make([]byte, 32)
		binary.LittleEndian.PutUint64(key, uint64(i)+1)
		block, err := aes.NewCipher(key)
		if err != nil {
			t.Fatal(err)
		}
		state := func() hash.Hash {
			h := sha3.NewLegacyKeccak256()
			h.Write(key[:i%32])
			if foreign>>(i%64)&1 != 0 {
				return opaque{h}
			}
			return h
		}
		macs[i], alone[i], spec[i] = New(block, state()), New(block, state()), &literal{block, state()}
	}
	for round := range rounds {
		frames := make([]Frame, len(parts))
		for i := range parts {
			part := parts[(i+round)%len(parts)]
			header := make([]byte, 16)
			copy(header, part)
			header[15] ^= byte(i)
			frames[i] = Frame{MAC: macs[i], Header: header, Ciphertext: part}
		}
		Batch(frames)
		for i := range frames {
			f := &frames[i]
			h, tag := alone[i].Both(f.Header, f.Ciphertext)
			if f.HeaderMAC != h || f.Tag != tag {
				t.Fatalf("%s, round %d, lane %d of %d with %d bytes: %x %x, alone %x %x",
					tier, round, i, len(frames), len(f.Ciphertext), f.HeaderMAC, f.Tag, h, tag)
			}
			if !bytes.Equal(h[:], spec[i].header(f.Header)) || !bytes.Equal(tag[:], spec[i].frame(f.Ciphertext)) {
				t.Fatalf("%s, round %d, lane %d: not what the specification says", tier, round, i)
			}
		}
	}
}
