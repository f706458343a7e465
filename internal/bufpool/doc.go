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
// # Classes
//
// Sizes are powers of two up to 16 KiB. From there to [MaxSize] each is at most a
// quarter larger than the one below. Requests over [MaxSize] are served by a plain
// allocation that Release does not keep.
//
// # What is kept
//
// Free buffers of 16 KiB to 4 MiB are in lists that outlive garbage collections, 32 MiB
// in all. What nobody used for eight collections, a quarter of a second apart at
// least, is dropped. The collector is what starts that: there is no goroutine and no timer.
// Free buffers of other sizes, and what the lists have no room for, are in a
// sync.Pool for each class, and vanish after two collections without use.
//
// All functions may be called by several goroutines at once; one handle belongs
// to one goroutine at a time.
package bufpool
