package rlpxtest

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/go-rlpx/transport/internal/bufpool"
)

// Before anything is lent, which is what bufpool.Track asks for.
func init() { bufpool.EnableTracking() }

// patience bounds how long a check waits for what must come; nothing that is right waits that long.
const patience = time.Minute

// Eventually reports whether ok becomes true, looking again and again for a bounded time.
func Eventually(ok func() bool) bool {
	for deadline, pause := time.Now().Add(patience), 50*time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
}

// CheckGoroutines fails the test at its end if more goroutines run than at the
// time of the call. Tests that use it must not be parallel.
func CheckGoroutines(t testing.TB) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		if Eventually(func() bool { return runtime.NumGoroutine() <= before }) {
			return
		}
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		t.Errorf("%d goroutines are left, %d before:\n%s", runtime.NumGoroutine(), before, stacks)
	})
}

// CheckFDs fails the test at its end if more files are open than at the time of
// the call. It checks nothing where the system does not list them.
func CheckFDs(t testing.TB) {
	t.Helper()
	// The first network connection of a process opens files of the runtime.
	if a, b, err := TCPPair(); err == nil {
		a.Close()
		b.Close()
	}
	before, ok := openFDs()
	if !ok {
		return
	}
	t.Cleanup(func() {
		var now int
		if !Eventually(func() bool { now, _ = openFDs(); return now <= before }) {
			t.Errorf("%d files are open, %d before", now, before)
		}
	})
}

func openFDs() (n int, ok bool) {
	entries, err := os.ReadDir("/proc/self/fd")
	return len(entries), err == nil
}

// TotalAlloc returns how many bytes were allocated while f ran, by the whole process.
func TotalAlloc(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// CPUTime returns the CPU time that the process took while f ran, which does not depend on what
// else the machine does. Where the system does not tell, it is the time that passed.
func CPUTime(f func()) time.Duration {
	before := cpuTime()
	f()
	return cpuTime() - before
}

// HeapInUse returns the bytes of live objects, without the buffers that wait for their next user.
func HeapInUse() uint64 {
	var stats runtime.MemStats
	bufpool.Trim()
	// Twice, because a sync.Pool gives its contents up at the second collection.
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// Bound ends the process if the test takes longer than a check waits, which tells more than the
// limit of the whole package does later. It is not for tests in a bubble of testing/synctest, which
// has a clock of its own, and has no effect under an emulator.
func Bound(t testing.TB) {
	if os.Getenv("RLPX_TEST_EXEC") != "" {
		return
	}
	timer := time.AfterFunc(patience, func() { panic(t.Name() + " hangs") })
	t.Cleanup(func() { timer.Stop() })
}

// Within runs f and reports whether it returned in a bounded time.
func Within(f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return true
	case <-time.After(patience):
		return false
	}
}
