package rlpx

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// watchdog ends a connection one of whose calls of Write on the net.Conn takes too long. It does
// not use write deadlines: a net.Conn may have none, and its owner may have set one. A call costs
// two looks at the clock; the timer runs at most once per timeout.
type watchdog struct {
	conn    *Conn
	timeout atomic.Int64 // nanoseconds; 0 or less is no bound
	since   atomic.Int64 // when the call under way began, by clock; 0 is none, unclocked one without a bound
	last    atomic.Int64 // when a call last ended while there was a bound
	armed   atomic.Bool  // timer runs

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// epoch is when the clock of all watchdogs began.
var epoch = time.Now()

// unclocked is no time that clock gives.
const unclocked = math.MinInt64

// clock is a time that is never 0.
func clock() int64 {
	if now := int64(time.Since(epoch)); now != 0 {
		return now
	}
	return 1
}

// begin and end surround a call. Only the owner of the half calls them.
func (w *watchdog) begin() {
	for timeout := w.timeout.Load(); ; {
		if timeout <= 0 {
			w.since.Store(unclocked) // for SetWriteTimeout
		} else {
			w.since.Store(clock())
			if !w.armed.Load() {
				w.arm(time.Duration(timeout))
			}
		}
		// A SetWriteTimeout that did not see since is seen here.
		now := w.timeout.Load()
		if now == timeout {
			return
		}
		timeout = now
		w.armed.Store(false) // the timer may have been set for a longer time
	}
}

func (w *watchdog) end() {
	if w.since.Swap(0) != unclocked {
		w.last.Store(clock())
	}
}

// wrote notes a call that did not wait, and that nothing had to bound.
func (w *watchdog) wrote() {
	if w.timeout.Load() > 0 {
		w.last.Store(clock())
	}
}

// arm starts the timer, or sets it anew.
func (w *watchdog) arm(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed.Store(true)
	switch {
	case w.stopped:
	case w.timer == nil:
		w.timer = time.AfterFunc(d, w.look)
	default:
		w.timer.Reset(d)
	}
}

// stop is called once the net.Conn is closed. A timer that went on would keep the memory of the
// connection.
func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// look is called by the timer.
func (w *watchdog) look() {
	timeout, since := w.timeout.Load(), w.since.Load()
	switch left := timeout - (clock() - since); {
	case since == 0 || since == unclocked || timeout <= 0:
		// Nothing is under way. A call that begins now finds the timer stopped and starts it, or is
		// seen here.
		w.armed.Store(false)
		if since := w.since.Load(); since != 0 && since != unclocked && timeout > 0 {
			w.arm(time.Duration(timeout))
		}
	case left > 0:
		w.arm(time.Duration(left))
	default:
		w.conn.abort(&writeTimeoutError{time.Duration(timeout)})
	}
}

// SetWriteTimeout bounds how long each call of Write on the net.Conn may take, which carries up to
// about 256 KiB or one frame of up to 1 MiB. The call under way gets d from now on. A call that
// takes longer ends both directions with an error that is a timeout, and closes the net.Conn. It
// works on a net.Conn without deadlines, too, and changes no deadline. Zero or less, as at first,
// is no bound.
func (c *Conn) SetWriteTimeout(d time.Duration) {
	w := &c.out.watchdog
	w.timeout.Store(int64(d))
	since := w.since.Load()
	underWay := d > 0 && since != 0 && w.since.CompareAndSwap(since, clock())
	// A timer that runs may have been set for a longer time.
	if underWay || d > 0 && w.armed.Load() {
		w.arm(d)
	}
}

// WriteTimeout returns what SetWriteTimeout was last called with.
func (c *Conn) WriteTimeout() time.Duration { return time.Duration(c.out.watchdog.timeout.Load()) }

// ErrWriteTimeout is in the chain of the error of a connection that ended because a call on the
// net.Conn took longer than [Conn.SetWriteTimeout] allows: the peer takes nothing.
var ErrWriteTimeout = errors.New("rlpx: write timeout")

// writeTimeoutError is why a connection was ended by a watchdog.
type writeTimeoutError struct{ timeout time.Duration }

func (e *writeTimeoutError) Error() string {
	return fmt.Sprintf("rlpx: a write took longer than %v", e.timeout)
}
func (e *writeTimeoutError) Timeout() bool        { return true }
func (e *writeTimeoutError) Temporary() bool      { return false }
func (e *writeTimeoutError) Is(target error) bool { return target == ErrWriteTimeout }
func (e *writeTimeoutError) Unwrap() error        { return os.ErrDeadlineExceeded }
