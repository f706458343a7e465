package p2p

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// A Cap is a capability as announced in Hello. From a peer, Name may be anything.
type Cap struct {
	Name    string
	Version uint64
}

// String returns name and version as in "eth/68", safe to print whoever chose the name.
func (c Cap) String() string {
	return fmt.Sprintf("%s/%d", printable(c.Name, printedCapName), c.Version)
}

// Cmp gives the order of capabilities in Hello and in message codes: by the bytes of the name, then
// by version.
func (c Cap) Cmp(other Cap) int {
	return cmp.Or(strings.Compare(c.Name, other.Name), cmp.Compare(c.Version, other.Version))
}

// checkName reports why a capability of our own cannot bear its name. Foreign names are not
// checked.
func (c Cap) checkName() error {
	if len(c.Name) == 0 || len(c.Name) > MaxCapName {
		return fmt.Errorf("%w: name of %s has %d bytes, want 1 to %d", ErrInvalidCapability, c, len(c.Name), MaxCapName)
	}
	for i := range len(c.Name) {
		if !isPrintable(c.Name[i]) {
			return fmt.Errorf("%w: name of %s is not printable ASCII", ErrInvalidCapability, c)
		}
	}
	return nil
}

// sortCaps checks that capabilities of our own can be announced and returns them in order.
func sortCaps(caps []Cap) ([]Cap, error) {
	if len(caps) > MaxCaps {
		return nil, fmt.Errorf("%w: %d of them, at most %d fit a Hello", ErrInvalidCapability, len(caps), MaxCaps)
	}
	sorted := slices.SortedFunc(slices.Values(caps), Cap.Cmp)
	for i, c := range sorted {
		if err := c.checkName(); err != nil {
			return nil, err
		}
		if i > 0 && c == sorted[i-1] {
			return nil, fmt.Errorf("%w: %s is there twice", ErrInvalidCapability, c)
		}
	}
	return sorted, nil
}

// A Capability is one that we offer.
type Capability struct {
	Cap

	// Length is the number of message ids that this version of the capability reserves: its highest
	// id plus one, used or not. Both sides must agree on it, since it places the capabilities that
	// follow.
	Length uint64

	// Handle, if it is not nil, is called for each message that the peer sends, in order: see
	// Channel. data is valid until it returns. An error ends the session with the reason that
	// ReasonFor gives; nil goes on. It may do anything but wait for messages of the same session,
	// which nobody reads meanwhile; a write to a peer that does the same may wait for ever, up to
	// WriteTimeout, where Send does not.
	Handle func(ch *Channel, id uint64, data []byte) error

	// MaxMessageSize is the largest message of the capability that is received, in bytes after
	// decompression; it is checked before that. Zero means 2^24-1, the protocol's own limit.
	// rlpx.Config may have smaller ones.
	MaxMessageSize int
}

// Capabilities are all that we offer, in any order, with any number of versions of each.
type Capabilities []Capability

// Validate reports the first mistake in c, wrapping ErrInvalidCapability: a name that is not 1 to
// MaxCapName bytes of printable ASCII, a Length of 0, a version that is there twice, more than
// MaxCaps of them, or more message ids than there are codes.
func (c Capabilities) Validate() error {
	_, err := c.sorted()
	return err
}

// Caps returns what to announce in Hello, in order.
func (c Capabilities) Caps() []Cap {
	caps := make([]Cap, len(c))
	for i := range c {
		caps[i] = c[i].Cap
	}
	slices.SortFunc(caps, Cap.Cmp)
	return caps
}

// sorted validates c and returns a copy in order.
func (c Capabilities) sorted() (Capabilities, error) {
	if _, err := sortCaps(c.Caps()); err != nil {
		return nil, err
	}
	sorted := slices.Clone(c)
	slices.SortFunc(sorted, func(a, b Capability) int { return a.Cap.Cmp(b.Cap) })

	// One version of each name is in use at a time: the worst case takes the longest.
	end, longest, overflow := BaseLength, uint64(0), uint64(0)
	for i, capability := range sorted {
		if capability.Length == 0 {
			return nil, fmt.Errorf("%w: %s has length 0", ErrInvalidCapability, capability.Cap)
		}
		longest = max(longest, capability.Length)
		if i+1 < len(sorted) && sorted[i+1].Name == capability.Name {
			continue
		}
		if end, overflow = bits.Add64(end, longest, 0); overflow != 0 {
			return nil, fmt.Errorf("%w: message codes up to %s overflow 64 bits", ErrInvalidCapability, capability.Cap)
		}
		longest = 0
	}
	return sorted, nil
}
