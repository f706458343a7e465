package command

import (
	"strings"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

// maxListed is how many capabilities of a peer are listed. Real nodes have fewer; a Hello can hold
// 100.
const maxListed = 32

// list prints capabilities, whoever chose their names.
func list(caps []p2p.Cap) string {
	if len(caps) == 0 {
		return "none"
	}
	texts := make([]string, 0, min(len(caps), maxListed)+1)
	for _, c := range caps {
		if len(texts) == maxListed {
			texts = append(texts, "...")
			break
		}
		texts = append(texts, c.String())
	}
	return strings.Join(texts, ", ")
}

func sharedCaps(session *p2p.Session) []p2p.Cap {
	var caps []p2p.Cap
	for _, s := range session.Shared().All() {
		caps = append(caps, s.Cap)
	}
	return caps
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}
