package bufpool

import "sync/atomic"

// Counting what is lent, for tests of those that use buffers.
var (
	// tracking is set by EnableTracking before anything is lent, so that it needs no
	// synchronization.
	tracking bool

	current atomic.Pointer[Tracker]
)

// EnableTracking makes [Track] possible. It is called by an init function of a test.
func EnableTracking() { tracking = true }

// Tracker counts buffers.
type Tracker struct{ lent atomic.Int64 }

// Track begins to count the buffers of the process, in place of the Tracker before.
// It panics without [EnableTracking].
func Track() *Tracker {
	if !tracking {
		panic("bufpool: Track without EnableTracking")
	}
	t := new(Tracker)
	current.Store(t)
	return t
}

// Lent returns how many of the buffers that were lent since Track were not given back.
func (t *Tracker) Lent() int { return int(t.lent.Load()) }

// Stop ends the counting of further buffers. Those that are lent still are taken off when they come
// back.
func (t *Tracker) Stop() { current.CompareAndSwap(t, nil) }

func (s *slab) track() {
	if t := current.Load(); t != nil {
		t.lent.Add(1)
		s.tracker = t
	}
}

func (s *slab) untrack() {
	s.tracker.lent.Add(-1)
	s.tracker = nil
}
