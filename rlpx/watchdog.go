package rlpx

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// watchdog ends a connection one of whose calls of Write on the net.Conn takes too long. It does not
// use write deadlines: a net.Conn may have none, and its owner may have set one. A call
// costs a look at the clock; the timer runs at most once per timeout.
type watchdog struct {
	conn    *Conn
	timeout atomic.Int64 // nanoseconds; 0 or less is no bound
	since   atomic.Int64 // when the call under way began, by clock; 0 is none
	armed   atomic.Bool  // timer runs
	timer   *time.Timer  // made by the owner of the half when first needed
}

// epoch is when the clock of all watchdogs began.
var epoch = time.Now()

// clock is a time that is never 0.
func clock() int64 { return int64(time.Since(epoch)) | 1 }

// begin and end surround a call. Only the owner of the half calls them.
func (w *watchdog) begin() {
	timeout := w.timeout.Load()
	if timeout <= 0 {
		return
	}
	w.since.Store(clock())
	w.arm(time.Duration(timeout))
}

func (w *watchdog) end() {
	if w.since.Load() != 0 {
		w.since.Store(0)
	}
}

// arm starts the timer unless it runs.
func (w *watchdog) arm(d time.Duration) {
	if !w.armed.CompareAndSwap(false, true) {
		return
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(d, w.look)
		return
	}
	w.timer.Reset(d)
}

// look is called by the timer.
func (w *watchdog) look() {
	timeout := w.timeout.Load()
	since := w.since.Load()
	left := since + timeout - clock()
	if since == 0 || timeout <= 0 {
		// Nothing is under way. A call that begins now finds the timer stopped and starts it, or is seen here.
		w.armed.Store(false)
		if w.since.Load() != 0 && timeout > 0 {
			w.arm(time.Duration(timeout))
		}
		return
	}
	if left > 0 {
		w.timer.Reset(time.Duration(left))
		return
	}
	w.conn.abort(&writeTimeoutError{time.Duration(timeout)})
}

// SetWriteTimeout bounds how long each call of Write on the net.Conn may take, which
// carries up to about 256 KiB or one frame of up to 1 MiB. A call that takes longer ends both
// directions with an error that is a timeout, and closes the net.Conn. It works on a net.Conn without deadlines, too, and
// changes no deadline. Zero or less, as at first, is no bound. It concerns calls that begin later.
func (c *Conn) SetWriteTimeout(d time.Duration) { c.out.watchdog.timeout.Store(int64(d)) }

// writeTimeoutError is why a connection was ended by a watchdog.
type writeTimeoutError struct{ timeout time.Duration }

func (e *writeTimeoutError) Error() string {
	return fmt.Sprintf("rlpx: a write took longer than %v", e.timeout)
}
func (e *writeTimeoutError) Timeout() bool   { return true }
func (e *writeTimeoutError) Temporary() bool { return false }
func (e *writeTimeoutError) Unwrap() error   { return os.ErrDeadlineExceeded }
