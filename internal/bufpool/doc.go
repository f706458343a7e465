// Package bufpool lends byte buffers in fixed size classes.
//
// A connection holds large buffers only while a frame is under way, so the
// buffers of many mostly idle connections come from, and go back to, one place.
//
// # Ownership
//
// [Get] hands out a [Buffer], a handle that owns its bytes until
// [Buffer.Release]. Releasing twice, or through a stale copy of the handle,
// panics: handing the same bytes to two connections would mix up their
// traffic, which is worse than stopping. A handle that is simply dropped is
// collected with its bytes.
//
// # Bounds
//
// Idle buffers sit in a sync.Pool for each class and vanish after two garbage
// collections without use. Requests over [MaxSize] are served by a plain
// allocation that Release does not keep.
//
// All functions may be called by several goroutines at once; one handle belongs
// to one goroutine at a time.
package bufpool
