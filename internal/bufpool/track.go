package bufpool

import "sync/atomic"

// tracker counts what is lent while a test wants to know.
var tracker atomic.Pointer[Tracker]

// Tracker counts buffers, for tests of those that use them.
type Tracker struct{ lent atomic.Int64 }

// Track begins to count the buffers of the process, in place of the Tracker before.
func Track() *Tracker {
	t := new(Tracker)
	tracker.Store(t)
	return t
}

// Lent returns how many of the buffers that were lent since Track were not given back.
func (t *Tracker) Lent() int { return int(t.lent.Load()) }

// Stop ends the counting of further buffers. Those that are lent still are taken off when they come back.
func (t *Tracker) Stop() { tracker.CompareAndSwap(t, nil) }
