package mac

import "github.com/go-rlpx/transport/internal/keccak"

// Frame is the frame of one connection in a batch.
type Frame struct {
	MAC                *MAC   // no two frames of a batch share one
	Header, Ciphertext []byte // as Both takes them
	HeaderMAC, Tag     Tag    // results
}

// Batch computes the tags of many frames of as many connections, as Both would
// for each. It advances as many states together as the machine has lanes, and
// frames may differ in length.
func Batch(frames []Frame) {
	for len(frames) > 0 {
		n := min(len(frames), keccak.Lanes)
		batch(frames[:n])
		frames = frames[n:]
	}
}

// batch takes at most keccak.Lanes frames.
func batch(frames []Frame) {
	var (
		jobs    [keccak.Lanes]*job
		states  [keccak.Lanes]*keccak.State
		headers [keccak.Lanes]*[keccak.Size]byte
		n       int
	)
	for i := range frames {
		f := &frames[i]
		m := f.MAC
		if m.other != nil {
			f.HeaderMAC, f.Tag = m.Both(f.Header, f.Ciphertext)
			continue
		}
		m.absorbHeader(f.Header)
		m.job.m, m.job.p, m.job.final = m, f.Ciphertext, true
		jobs[n], states[n], headers[n] = &m.job, &m.sponge, &m.header
		m.digests++
		n++
	}
	keccak.SumLanes(states[:n], headers[:n])
	together(jobs[:n])
	for i := range frames {
		if m := frames[i].MAC; m.other == nil {
			frames[i].HeaderMAC, frames[i].Tag = Tag(m.header[:Size]), Tag(m.last[:Size])
			m.job.p = nil
		}
	}
}
