package mac

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlpx/transport/internal/keccak"
	"github.com/go-rlpx/transport/internal/sharing"
)

// Many busy connections share the lanes of the machine's multi-state kernel. One direction of one
// connection is a strict chain of permutations, but independent chains advance
// together: eight at about the cost of two.
//
// There is no worker goroutine. A MAC with a long piece of ciphertext puts it into
// the queue and yields once; then it either finds its work done, or takes
// what is waiting, its own included, and does it all (flat combining). Work that somebody else
// is just doing is waited for. Where that does not pay, pieces go alone: see control.
const (
	// shareMin is the shortest piece that is worth the queue, in bytes. Below
	// it the locks and the yield cost more than shared lanes save.
	shareMin = 4 << 10

	// shareMax is about the longest piece that is done in one go, which bounds
	// how long the owners of shorter ones wait for it.
	shareMax = 64 << 10

	// shareLanes is the fewest jobs that are done together. Two take one core
	// longer than one takes each of two cores, and the two ends of one lone
	// connection are just that.
	shareLanes = 3
)

// enough is the fewest jobs that are done together on this machine. A kernel for two states takes
// as long as one for one, so where there is none for more, two are worth it.
func enough() int { return max(2, min(shareLanes, keccak.LaneWidth())) }

// job is a piece of ciphertext on its way into its MAC's state.
type job struct {
	m     *MAC
	p     []byte
	final bool // the frame ends: finish with the frame-mac
	taken bool // somebody does it or did; guarded by the queue

	seen uint64 // see control.member; guarded by the queue

	// busy is held by whoever does the job for its owner. A mutex and not a
	// channel, since to testing/synctest the work of others is no reason to be
	// durably blocked.
	busy sync.Mutex
}

// waitDone returns when whoever took j has done it.
func (j *job) waitDone() {
	j.busy.Lock()
	defer j.busy.Unlock()
}

// queue is where jobs wait for company.
type queue struct {
	sync.Mutex
	waiting [keccak.Lanes]*job
	n       int

	control control
	stats   QueueStats

	// What control calls idle is known without the lock.
	inside atomic.Int32 // pieces that have come and are not done
	left   atomic.Int64 // when one was done, by clock
}

// shared is the queue of the process.
var shared queue

var clockStart = time.Now()

func clock() time.Duration { return time.Since(clockStart) }

// QueueStats is what the shared queue of the process did with pieces of at least 4 KiB.
type QueueStats struct {
	Passes uint64 // in which several pieces were hashed side by side
	Lanes  uint64 // busy in these passes, one for each piece: Lanes / Passes is the mean
	Alone  uint64 // pieces that went alone, because nobody was there to share with or a wait did not pay

	Comparisons uint64 // of throughput with sharing and without, that have ended
	Sharing     bool   // whether pieces wait for others now
}

// Queue returns what the shared queue did since the process started. The frames of
// [Batch] do not go through it.
func Queue() QueueStats {
	shared.Lock()
	defer shared.Unlock()
	s := shared.stats
	s.Comparisons, s.Sharing = shared.control.comparisons, shared.control.on
	return s
}

// Share sets whether long frames of m may share the machine's lanes with those of other
// connections. It is off at first.
//
// With it, Frame, Both and Absorb may yield once for each 64 KiB of ciphertext, 256 times for the
// largest frame, and wait for a pass of up to 512 KiB that somebody else does. The caller should
// hold no lock that others need meanwhile, other than the one that keeps m to itself.
func (m *MAC) Share(on bool) { m.share = on }

// shares reports whether a piece of n bytes is one for the queue.
func (m *MAC) shares(n int) bool {
	return m.share && n >= shareMin && m.other == nil && keccak.LaneWidth() > 1
}

// absorbShared absorbs p by way of the queue, and finishes the frame if final.
func (m *MAC) absorbShared(p []byte, final bool) {
	for len(p) >= shareMax+shareMin { // what is left is long enough, too
		shared.do(m, p[:shareMax], false)
		p = p[shareMax:]
	}
	shared.do(m, p, final)
}

// do returns when p is absorbed by m.
func (q *queue) do(m *MAC, p []byte, final bool) {
	q.Lock()
	defer q.leave()
	if !q.shares(m, len(p)) {
		q.stats.Alone++
		q.Unlock()
		m.alone(p, final)
		return
	}
	j := &m.job
	j.m, j.p, j.final, j.taken = m, p, final, false
	q.waiting[q.n] = j
	q.n++
	if q.n < keccak.LaneWidth() {
		q.yield()
	}
	if !j.taken {
		q.doWaiting(j)
	} else {
		q.Unlock()
		j.waitDone()
	}
	j.p = nil
}

// shares reports whether the next piece, of n bytes of m, is to wait for company. It is called with
// the lock held.
func (q *queue) shares(m *MAC, n int) bool {
	if sharing.Always.Load() {
		q.inside.Add(1)
		return true
	}
	q.control.member(&m.job.seen)
	now, idle := clock(), time.Duration(0)
	if q.inside.Add(1) == 1 {
		idle = now - time.Duration(q.left.Load())
	}
	q.control.piece(now, idle, n)
	return q.control.on
}

// leave ends what shares began, when the piece is done.
func (q *queue) leave() {
	q.left.Store(int64(clock()))
	q.inside.Add(-1)
}

// yield lets others run. It is called with the lock held and gives it up meanwhile.
func (q *queue) yield() {
	q.Unlock()
	runtime.Gosched()
	q.Lock()
	if !sharing.Always.Load() {
		q.control.tick(clock())
	}
}

// doWaiting does j, and with it all that is waiting if that is enough to share
// lanes. It is called with the lock held and gives it up. The queue never
// overflows: whoever fills the lanes empties it at once.
func (q *queue) doWaiting(j *job) {
	if q.n < enough() {
		i := slices.Index(q.waiting[:q.n], j)
		q.n--
		q.waiting[i], q.waiting[q.n] = q.waiting[q.n], nil
		q.stats.Alone++
		q.Unlock()
		j.m.alone(j.p, j.final)
		return
	}
	var jobs [keccak.Lanes]*job
	n := copy(jobs[:], q.waiting[:q.n])
	clear(q.waiting[:n])
	q.n = 0
	q.stats.Passes++
	q.stats.Lanes += uint64(n)
	for _, j := range jobs[:n] {
		j.taken = true
		j.busy.Lock()
		j.m.pieces++
		j.m.lanes += uint64(n)
	}
	q.Unlock()
	together(jobs[:n])
	for _, j := range jobs[:n] {
		j.busy.Unlock()
	}
}

// alone does one job the single-state way.
func (m *MAC) alone(p []byte, final bool) {
	m.absorb(p)
	if final {
		m.finish()
	}
}

// together does several jobs in the machine's lanes.
func together(jobs []*job) {
	var (
		work  [keccak.Lanes]keccak.Lane
		ends  [keccak.Lanes]*keccak.State
		last  [keccak.Lanes]*[keccak.Size]byte
		final int
	)
	for i, j := range jobs {
		work[i] = keccak.Lane{S: &j.m.sponge, P: j.p}
		j.m.absorbed += uint64(len(j.p))
		if j.final {
			ends[final], last[final] = &j.m.sponge, &j.m.last
			final++
			j.m.digests += 2
		}
	}
	keccak.AbsorbLanes(work[:len(jobs)])
	keccak.SumLanes(ends[:final], last[:final])
	for _, j := range jobs {
		if j.final {
			j.m.absorbSeed()
		}
	}
	keccak.SumLanes(ends[:final], last[:final])
}
