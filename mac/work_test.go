package mac

import (
	"crypto/aes"
	"crypto/sha256"
	"hash"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/sha3"

	"github.com/go-rlpx/transport/internal/keccak"
)

// permutationCounter is a sponge that does nothing but count, byte by byte.
type permutationCounter struct {
	position int // in the block
	runs     uint64
}

func (c *permutationCounter) write(n int) {
	for range n {
		if c.position++; c.position == 136 {
			c.position = 0
			c.runs++
		}
	}
}

func (c *permutationCounter) digest() { c.runs++ }

// frame is a header and its frame with as few digests as the specification can be met with.
func (c *permutationCounter) frame(ciphertext int) {
	c.write(16) // header-mac-seed
	c.digest()  // header-mac
	c.write(ciphertext)
	c.digest()  // frame-mac-seed
	c.write(16) // frame-mac-seed, absorbed
	c.digest()  // frame-mac
}

// digestCounter counts what really reaches a hash.
type digestCounter struct {
	opaque
	count *permutationCounter
}

func (c digestCounter) Write(p []byte) (int, error) {
	c.count.write(len(p))
	return c.opaque.Write(p)
}

func (c digestCounter) Sum(b []byte) []byte {
	c.count.digest()
	return c.opaque.Sum(b)
}

func newMAC(r *rand.Rand, seed int) (*MAC, *permutationCounter) {
	block, _ := aes.NewCipher(random(r, 32))
	h := sha3.NewLegacyKeccak256()
	h.Write(random(r, seed))
	return New(block, h), &permutationCounter{position: seed % 136}
}

func wantPermutations(t *testing.T, what string, m *MAC, want *permutationCounter) {
	t.Helper()
	if got := m.Work(); got.Permutations != want.runs || got.SharedPieces != 0 || got.SharedLanes != 0 {
		t.Fatalf("%s: %+v, want %d permutations", what, got, want.runs)
	}
}

// Every way to a frame's tags costs the same permutations, and Work knows how many.
func TestWorkCountsPermutations(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for seed := 0; seed <= 3*136; seed++ {
		m, want := newMAC(r, seed)
		wantPermutations(t, "new", m, want)
		for _, blocks := range []int{1, 2, 7, 8, 9, 16, 17, r.IntN(300)} {
			header, ct := random(r, 16), random(r, 16*blocks)
			m.Both(header, ct)
			want.frame(len(ct))
			wantPermutations(t, "Both", m, want)

			m.Header(header)
			m.Absorb(ct[:16*(blocks/2)])
			m.Frame(ct[16*(blocks/2):])
			want.frame(len(ct))
			wantPermutations(t, "in pieces", m, want)
		}
	}
	for count := 1; count < 20; count++ {
		frames, wants := make([]Frame, count), make([]*permutationCounter, count)
		for i := range frames {
			frames[i].MAC, wants[i] = newMAC(r, r.IntN(500))
		}
		for range 5 {
			for i := range frames {
				frames[i].Header, frames[i].Ciphertext = random(r, 16), random(r, 16*r.IntN(200))
				wants[i].frame(len(frames[i].Ciphertext))
			}
			Batch(frames)
			for i := range frames {
				wantPermutations(t, "Batch", frames[i].MAC, wants[i])
			}
		}
	}
}

// The counter of the test above counts what a MAC really asks of its hash.
func TestPermutationCounter(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	block, _ := aes.NewCipher(random(r, 32))
	h := digestCounter{opaque{sha3.NewLegacyKeccak256()}, new(permutationCounter)}
	m := New(block, h)
	*h.count = permutationCounter{}
	var want permutationCounter
	for range 200 {
		header, ct := random(r, 16), random(r, 16*r.IntN(50))
		m.Both(header, ct)
		want.frame(len(ct))
	}
	if *h.count != want {
		t.Errorf("counted %+v, want %+v", *h.count, want)
	}
	if w := m.Work(); w != (Work{}) {
		t.Errorf("of a hash of unknown permutations: %+v", w)
	}
	if m := New(block, sha256.New()); m.Work() != (Work{}) {
		t.Errorf("of SHA-256: %+v", m.Work())
	}
}

// A pass with all lanes busy, and a piece for which there is nobody to share with.
func TestQueueCounts(t *testing.T) {
	var q queue
	q.control = control{on: true, hold: time.Hour, last: clock()}
	r := rand.New(rand.NewPCG(11, 12))
	width := keccak.LaneWidth()
	macs, wants := make([]*MAC, width), make([]*permutationCounter, width)
	for i := range macs {
		macs[i], wants[i] = newMAC(r, 100*i)
	}
	// All but the last one have yielded and wait.
	ct := random(r, shareMin)
	for i, m := range macs[:width-1] {
		m.job.m, m.job.p, m.job.final, m.job.taken = m, ct, true, false
		q.waiting[i] = &m.job
		q.n++
	}
	q.do(macs[width-1], ct, true)
	want := QueueStats{Passes: 1, Lanes: uint64(width)} // of the control, Queue tells
	shared := Work{SharedPieces: 1, SharedLanes: uint64(width)}
	if width < enough() { // no kernel for several states
		want, shared = QueueStats{Alone: 1}, Work{}
	}
	if q.stats != want {
		t.Errorf("after a full pass: %+v, want %+v", q.stats, want)
	}
	for i, m := range macs {
		c := wants[i]
		c.write(len(ct))
		c.digest()
		c.write(16)
		c.digest()
		shared.Permutations = c.runs
		if got := m.Work(); got != shared {
			t.Errorf("MAC %d of a full pass: %+v, want %+v", i, got, shared)
		}
	}

	// Nobody comes during the yield.
	before := macs[0].Work()
	for range 2 {
		q.do(macs[0], ct, false)
		want.Alone++
	}
	if q.stats != want {
		t.Errorf("after two lone pieces: %+v, want %+v", q.stats, want)
	}
	after := macs[0].Work()
	if after.SharedPieces != before.SharedPieces || after.SharedLanes != before.SharedLanes || after.Permutations < before.Permutations+2*shareMin/136 {
		t.Errorf("after two lone pieces: %+v, before %+v", after, before)
	}
}

// However pieces meet, every one is counted once: in the queue and for its MAC.
func TestQueueCountsEveryPiece(t *testing.T) {
	const goroutines, rounds = 20, 50
	var q queue
	q.control = control{on: true, hold: time.Hour, last: clock()}
	var wg sync.WaitGroup
	macs := make([]*MAC, goroutines)
	for g := range macs {
		r := rand.New(rand.NewPCG(13, uint64(g)))
		macs[g], _ = newMAC(r, g)
		wg.Go(func() {
			ct := random(r, shareMin)
			for range rounds {
				q.do(macs[g], ct, false)
			}
		})
	}
	wg.Wait()
	var pieces, lanes uint64
	for _, m := range macs {
		w := m.Work()
		pieces += w.SharedPieces
		lanes += w.SharedLanes
		if w.SharedLanes < uint64(enough())*w.SharedPieces || w.SharedLanes > keccak.Lanes*w.SharedPieces {
			t.Errorf("%+v", w)
		}
	}
	s := q.stats
	if s.Lanes+s.Alone != goroutines*rounds || pieces != s.Lanes || s.Lanes < uint64(enough())*s.Passes || s.Lanes > keccak.Lanes*s.Passes {
		t.Errorf("queue: %+v; MACs: %d pieces, %d lanes", s, pieces, lanes)
	}
}

// Queue is about the queue that MACs use.
func TestQueueIsShared(t *testing.T) {
	if keccak.LaneWidth() == 1 {
		t.Log("this machine or build has no lanes to share")
	}
	before := Queue()
	m, _ := newMAC(rand.New(rand.NewPCG(15, 16)), 0)
	m.Share(true)
	m.Absorb(make([]byte, 4*shareMax))
	after := Queue()
	pieces := after.Alone + after.Lanes - before.Alone - before.Lanes
	if want := uint64(4); keccak.LaneWidth() > 1 && pieces < want || keccak.LaneWidth() == 1 && pieces != 0 {
		t.Errorf("%d pieces, want %d", pieces, want)
	}
}

var _ hash.Hash = digestCounter{}
