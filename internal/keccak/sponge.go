package keccak

import "encoding/binary"

const (
	// Rate is the number of bytes that one permutation absorbs.
	Rate = (stateSize*8 - capacity) / 8
	// Size is the length of a digest in bytes.
	Size = 32

	stateSize = lanes * laneSize
	capacity  = 2 * Size * 8 // bits

	lanes     = 25
	laneSize  = 8
	rateLanes = Rate / laneSize

	// Padding is pad10*1 without domain bits: a one bit after the message and
	// a one bit at the end of the block, least significant bit first.
	padFirst = 0x01
	padLast  = 0x80 << 56 // in the last lane of the rate
)

// A State is a Keccak-256 sponge in its absorbing phase. The zero value is the
// empty sponge and a copy is a clone.
type State struct {
	// a holds lane (x, y) at x+5y, as numbers: the sponge's bytes in
	// little-endian order on every machine.
	a [lanes]uint64
	// n counts the bytes xored into a since the last permutation. It is always
	// below Rate: a full block is permuted at once.
	n int
}

// Position returns how many bytes of the current block are absorbed, fewer than Rate.
func (s *State) Position() int { return s.n }

// Write absorbs p. It never fails.
func (s *State) Write(p []byte) (int, error) {
	blocks, tail, due := s.begin(p)
	if due {
		permuteAbsorb(&s.a, blocks)
		s.end(tail)
	}
	return len(p), nil
}

// begin starts to absorb p. If p does not fill the current block then that is
// all, and due is false. If it does then the block is complete and a permutation
// due, after which blocks (a multiple of Rate) are to be absorbed, and then end
// is to be called with tail.
func (s *State) begin(p []byte) (blocks, tail []byte, due bool) {
	head := Rate - s.n
	if len(p) < head {
		s.xor(p)
		return nil, nil, false
	}
	s.xor(p[:head])
	p = p[head:]
	full := len(p) - len(p)%Rate
	return p[:full], p[full:], true
}

// end absorbs what is left when the last full block has been permuted.
func (s *State) end(tail []byte) {
	s.n = 0
	s.xor(tail)
}

// Sum stores the digest of what s has absorbed so far in out and leaves s as
// it was.
func (s *State) Sum(out *[Size]byte) {
	s.pad()
	digest(out, &s.a)
	s.pad() // off again
}

// xor adds p to the current block, which must have room for it.
func (s *State) xor(p []byte) {
	n := s.n
	s.n += len(p)
	if off := n % laneSize; off != 0 && len(p) > 0 {
		var w uint64
		took := min(laneSize-off, len(p))
		if len(p) >= laneSize {
			w = binary.LittleEndian.Uint64(p)
		} else {
			w = partial(p)
		}
		// What p has beyond this lane is shifted out, and follows below.
		s.a[n/laneSize] ^= w << (8 * off)
		p = p[took:]
		n += took
	}
	for len(p) >= laneSize {
		s.a[n/laneSize] ^= binary.LittleEndian.Uint64(p)
		p = p[laneSize:]
		n += laneSize
	}
	if len(p) > 0 {
		s.a[n/laneSize] ^= partial(p)
	}
}

// partial reads fewer than eight bytes as a little-endian number.
func partial(p []byte) uint64 {
	var w uint64
	var shift uint
	if len(p) >= 4 {
		w, shift, p = uint64(binary.LittleEndian.Uint32(p)), 32, p[4:]
	}
	if len(p) >= 2 {
		w |= uint64(binary.LittleEndian.Uint16(p)) << shift
		p = p[2:]
		shift += 16
	}
	if len(p) >= 1 {
		w |= uint64(p[0]) << shift
	}
	return w
}

// pad completes the current block, or undoes that. The permutation that makes a digest of it
// is up to the caller.
func (s *State) pad() {
	s.a[s.n/laneSize] ^= padFirst << (8 * (s.n % laneSize))
	s.a[rateLanes-1] ^= padLast
}

// squeeze reads the digest off a permuted state.
func squeeze(out *[Size]byte, a *[lanes]uint64) {
	for i := range Size / laneSize {
		binary.LittleEndian.PutUint64(out[i*laneSize:], a[i])
	}
}
