package keccak

import (
	"encoding"
	"encoding/binary"
	"hash"
)

// The form in which golang.org/x/crypto/sha3 and go-ethereum's crypto/keccak
// marshal a sponge: magic, rate, state, position in the block, direction.
const (
	magicKeccak = "sha\x0b"

	offRate      = len(magicKeccak)
	offState     = offRate + 1
	offPosition  = offState + stateSize
	offDirection = offPosition + 1
	marshaled    = offDirection + 1

	directionAbsorbing = 0
)

// Import takes over the state of a legacy Keccak-256 hash of
// golang.org/x/crypto/sha3 or of go-ethereum's crypto package, both of which
// marshal it. It reports false for anything else, such as another function, a
// hash that does not marshal, or one that has been read from. h is not
// changed, and the State does not follow what is written to h later.
func Import(h hash.Hash) (s State, ok bool) {
	// Whatever the caller hands us (a typed nil, a fake) is refused rather
	// than allowed to crash us.
	defer func() {
		if recover() != nil {
			s, ok = State{}, false
		}
	}()
	m, ok := h.(encoding.BinaryMarshaler)
	if !ok || h.Size() != Size || h.BlockSize() != Rate {
		return State{}, false
	}
	b, err := m.MarshalBinary()
	defer clear(b) // a MAC's state is a secret
	if err != nil || len(b) != marshaled || string(b[:offRate]) != magicKeccak ||
		b[offRate] != Rate || b[offPosition] >= Rate || b[offDirection] != directionAbsorbing {
		return State{}, false
	}
	for i := range s.a {
		s.a[i] = binary.LittleEndian.Uint64(b[offState+i*laneSize:])
	}
	s.n = int(b[offPosition])

	// The form does not name the padding, so let one digest prove that it is
	// ours (SHA3-256 has the same rate and size).
	var sum [Size]byte
	s.Sum(&sum)
	if string(h.Sum(b[:0])) != string(sum[:]) {
		return State{}, false
	}
	return s, true
}
