package decode

import (
	"fmt"
	"slices"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

// assumedLength is the length of a capability about which nothing is known: more than any in use.
const assumedLength = 256

// match finds out which codes belong to which capability, once both Hellos are there.
func (c *connection) match() {
	ours, theirs := c.halves[0].hello, c.halves[1].hello
	if ours == nil || theirs == nil {
		return
	}
	var shared p2p.Capabilities
	assumed := map[p2p.Cap]bool{}
	for _, announced := range ours.Caps {
		capability := p2p.Capability{Cap: announced, Length: assumedLength}
		if i := slices.IndexFunc(c.d.caps, func(k p2p.Capability) bool { return k.Cap == announced }); i >= 0 {
			capability.Length = c.d.caps[i].Length
		} else {
			assumed[announced] = true
		}
		// What a peer announces may be twice, or have a name that no node uses.
		if slices.ContainsFunc(shared, func(c p2p.Capability) bool { return c.Cap == announced }) || (p2p.Capabilities{capability}).Validate() != nil {
			continue
		}
		shared = append(shared, capability)
	}
	matched, err := p2p.Match(shared, theirs.Caps)
	if err != nil {
		return // nothing is shared
	}
	c.matched = matched
	for i, s := range matched.All() {
		if assumed[s.Cap] && i+1 < matched.Len() {
			c.note(Hint, fmt.Sprintf("how many messages %s has is not known: if it is not %d, codes from %#x on are listed under the wrong capability (-cap %s:LENGTH tells)",
				s.Cap, assumedLength, s.Offset+assumedLength, s.Cap), nil)
		}
	}
}

// findCapability tells which message of which capability a code is.
func (h *half) findCapability(m *Message) {
	c := h.c
	if c.matched == nil {
		if m.Problem == "" && h.other().hello != nil {
			m.Problem = "no capability is shared"
		}
		return
	}
	s, id, err := c.matched.Resolve(m.Code)
	if err != nil {
		if m.Problem == "" {
			m.Problem = "its code belongs to no shared capability"
		}
		return
	}
	m.Cap, m.ID, m.Name = s.Cap, id, messageName(s.Cap, id)
}
