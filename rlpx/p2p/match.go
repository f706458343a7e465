package p2p

import (
	"fmt"
	"iter"
	"slices"
)

// Shared is a capability that both sides have, and its place among the message codes: its message
// ids 0 to Length-1 travel as codes Offset to Offset+Length-1.
type Shared struct {
	Capability
	Index  int    // its place in the Matched that it is from
	Offset uint64 // the code on the wire of id 0
}

// Code returns the code under which message id of the capability travels. An id that is not below
// Length gives ErrInvalidMessageID.
func (s Shared) Code(id uint64) (uint64, error) {
	if id >= s.Length {
		return 0, fmt.Errorf("%w: id %#x, %s has %d", ErrInvalidMessageID, id, s.Cap, s.Length)
	}
	return s.Offset + id, nil
}

// Matched holds the capabilities that two nodes share, in the order of their names. It never
// changes. Both nodes get the same codes from it, provided that they agree on lengths.
type Matched struct {
	shared []Shared
}

// Match finds the capabilities that we share with a peer. Of each name the highest version that
// both sides have is used and no other. Codes are given out from BaseLength on, in the order of the
// bytes of the names, each capability taking the Length of the version in use.
//
// Nothing in theirs is an error: what we do not offer, under any name, and what is there twice
// changes nothing. If nothing is shared, the error is a *UselessPeerError. A mistake in ours is
// what Validate reports.
func Match(ours Capabilities, theirs []Cap) (*Matched, error) {
	sorted, err := ours.sorted()
	if err != nil {
		return nil, err
	}
	m := new(Matched)
	for _, capability := range sorted {
		if !slices.Contains(theirs, capability.Cap) {
			continue
		}
		// Versions of a name come in rising order: a later one takes the place of an earlier one.
		if n := len(m.shared); n > 0 && m.shared[n-1].Name == capability.Name {
			m.shared = m.shared[:n-1]
		}
		m.shared = append(m.shared, Shared{Capability: capability, Index: len(m.shared), Offset: m.end()})
	}
	if len(m.shared) == 0 {
		return nil, newUselessPeerError(theirs)
	}
	return m, nil
}

// end returns the first code after those of the capabilities.
func (m *Matched) end() uint64 {
	if len(m.shared) == 0 {
		return BaseLength
	}
	last := m.shared[len(m.shared)-1]
	return last.Offset + last.Length
}

// Len returns the number of shared capabilities.
func (m *Matched) Len() int { return len(m.shared) }

// At returns shared capability i, counted from 0 in the order of codes.
func (m *Matched) At(i int) Shared { return m.shared[i] }

// All iterates over the shared capabilities in the order of codes.
func (m *Matched) All() iter.Seq2[int, Shared] { return slices.All(m.shared) }

// Find returns the shared capability of that name.
func (m *Matched) Find(name string) (Shared, bool) {
	for _, s := range m.shared {
		if s.Name == name {
			return s, true
		}
	}
	return Shared{}, false
}

// Resolve returns the capability that a message code belongs to and the message id in it. A code
// that belongs to none, be it of the base protocol or above all ranges, gives ErrInvalidCode.
func (m *Matched) Resolve(code uint64) (Shared, uint64, error) {
	// Ranges lie side by side and are few: a scan beats a search.
	for i := range m.shared {
		s := &m.shared[i]
		// Below Offset, the difference wraps around; no range reaches that far, as ranges end
		// within 64 bits.
		if id := code - s.Offset; id < s.Length {
			return *s, id, nil
		}
	}
	return Shared{}, 0, fmt.Errorf("%w: %#x", ErrInvalidCode, code)
}
