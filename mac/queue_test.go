package mac

import (
	"bytes"
	"crypto/aes"
	"crypto/sha3"
	"hash"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-rlpx/transport/internal/keccak"
	"github.com/go-rlpx/transport/internal/sharing"
)

// held keeps what the control of a queue says until the end of a test.
func held(q *queue, on bool) {
	q.control.on, q.control.hold, q.control.last = on, time.Hour, clock()
	q.left.Store(int64(clock()))
}

// busy has some MACs do pieces in q at the same time, on one processor.
func busy(q *queue, macs, pieces int) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var all sync.WaitGroup
	for i := range macs {
		m, _ := newMAC(rand.New(rand.NewPCG(21, uint64(i))), 0)
		all.Go(func() {
			for range pieces {
				q.do(m, make([]byte, shareMin), false)
			}
		})
	}
	all.Wait()
}

// Pieces share lanes where the control says so, and always where it is not asked. Otherwise each
// goes alone, although others are there.
func TestQueueObeysControl(t *testing.T) {
	if keccak.LaneWidth() == 1 {
		t.Log("this machine or build has no lanes to share")
		return
	}
	const macs, pieces = 8, 50
	off := new(queue)
	held(off, false)
	busy(off, macs, pieces)
	if off.stats != (QueueStats{Alone: macs * pieces}) {
		t.Errorf("with sharing off: %+v", off.stats)
	}
	on := new(queue)
	held(on, true)
	busy(on, macs, pieces)
	if s := on.stats; s.Passes == 0 || s.Lanes+s.Alone != macs*pieces {
		t.Errorf("with sharing on: %+v", s)
	}
	always := new(queue)
	held(always, false)
	defer sharing.Always.Store(sharing.Always.Swap(true))
	busy(always, macs, pieces)
	if s := always.stats; s.Passes == 0 || s.Lanes+s.Alone != macs*pieces {
		t.Errorf("without asking: %+v", s)
	}
}

// What a queue has done it refers to no more: neither jobs nor their bytes, which are somebody
// else's by then.
func TestQueueKeepsNothing(t *testing.T) {
	q := new(queue)
	held(q, true)
	busy(q, 8, 20)
	if q.n != 0 || q.waiting != [keccak.Lanes]*job{} {
		t.Errorf("%d jobs wait: %v", q.n, q.waiting)
	}
	m, _ := newMAC(rand.New(rand.NewPCG(22, 0)), 0)
	q.do(m, make([]byte, shareMin), false)
	if m.job.p != nil {
		t.Error("the job keeps its bytes")
	}
	// A job that waited with others goes alone and leaves no trace, wherever it stood.
	a, b := new(job), new(job)
	a.m, _ = newMAC(rand.New(rand.NewPCG(23, 0)), 0)
	q.waiting[0], q.waiting[1], q.n = a, b, 2
	if enough() > 2 {
		q.Lock()
		q.doWaiting(a)
		if q.n != 1 || q.waiting != [keccak.Lanes]*job{b} {
			t.Errorf("%d jobs wait: %v", q.n, q.waiting)
		}
	}
}

// The control hears of connections, of pauses between pieces, and of the time that a yield took.
func TestQueueTellsControl(t *testing.T) {
	q := new(queue)
	held(q, false)
	for i := range 3 {
		m, _ := newMAC(rand.New(rand.NewPCG(24, uint64(i))), 0)
		q.do(m, make([]byte, shareMin), false)
		q.do(m, make([]byte, shareMin), false)
	}
	if q.control.members != 3 || q.inside.Load() != 0 {
		t.Errorf("%d connections, %d pieces under way", q.control.members, q.inside.Load())
	}

	m, _ := newMAC(rand.New(rand.NewPCG(25, 0)), 0)
	for _, paused := range []bool{false, true} {
		held(q, false)
		q.control.comparing, q.control.comparisons = true, 0
		start := clock()
		q.control.last = start - time.Second
		q.left.Store(int64(start - time.Second))
		if !paused {
			q.inside.Add(1) // another's, since a second ago
		}
		q.do(m, make([]byte, shareMin), false)
		if q.control.comparing == paused {
			t.Errorf("comparing after a pause (%v): %v", paused, q.control.comparing)
		}
		if paused && q.control.comparisons > 0 {
			t.Error("a pause is part of a comparison")
		}
		if !paused {
			q.inside.Add(-1)
		}
		if time.Duration(q.left.Load()) < start {
			t.Error("the end of the last piece is not known")
		}
	}

	held(q, true)
	before := clock() - time.Second
	q.control.last = before
	q.Lock()
	q.yield()
	q.Unlock()
	if q.control.last == before {
		t.Error("the clock stood still during a yield")
	}
}

// foreign hides that a hash is Keccak.
type foreign struct{ hash.Hash }

// Short pieces, and those of a hash of somebody else's, are not for the queue.
func TestQueueIsForLongPieces(t *testing.T) {
	defer sharing.Always.Store(sharing.Always.Swap(true))
	short, _ := newMAC(rand.New(rand.NewPCG(26, 0)), 0)
	short.Share(true)
	if short.shares(shareMin - 1) {
		t.Error("a piece of less than shareMin is shared")
	}
	if got, want := short.shares(shareMin), keccak.LaneWidth() > 1; got != want {
		t.Errorf("a piece of shareMin is shared: %v", got)
	}
	block, _ := aes.NewCipher(make([]byte, 32))
	one, other := New(block, foreign{sha3.New256()}), New(block, foreign{sha3.New256()})
	one.Share(true)
	if one.shares(shareMin) {
		t.Error("a piece of another hash is shared")
	}
	data := bytes.Repeat([]byte{7}, 2*shareMin)
	if one.Frame(data) != other.Frame(data) {
		t.Error("sharing changes the MAC of another hash")
	}
}
