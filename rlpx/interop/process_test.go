package interop

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"testing"
	"time"
)

const (
	// patience bounds every single step of a test, whatever else the machine does. On an idle
	// machine most of them take milliseconds, and the longest, the echo of a large message by
	// js/peer.js, 10 seconds.
	patience = 10 * time.Minute

	// stopTimeout is what a process has from the interrupt until it is killed. It writes its
	// database meanwhile.
	stopTimeout = 5 * time.Minute

	// interruptAgain is when a process is interrupted once more that has not heeded it.
	interruptAgain = 2 * time.Second
)

// step returns the context of one step of a test.
func step(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// process is a program that runs beside a test and ends with it at the latest.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	log    *journal       // both outputs
	heeds  *regexp.Regexp // what it logs when it heeds an interrupt; nil: it heeds the first
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the process has ended
	err    error         // of Wait; set before done is closed
}

var errProcessEnded = errors.New("the process has ended")

// start starts a process. It gets an interrupt when the test ends, and is killed if it does not
// heed it.
func start(t *testing.T, path string, args ...string) *process {
	t.Helper()
	return startWithInput(t, nil, path, args...)
}

// startWithInput is start with a standard input, nil for none.
func startWithInput(t *testing.T, input *os.File, path string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	p := &process{t: t, log: newJournal(t, path), cancel: cancel, done: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, path, args...)
	if input != nil {
		p.cmd.Stdin = input // an *os.File itself, so that Wait does not wait for its end
	}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.Cancel = func() error {
		if runtime.GOOS == "windows" {
			return p.cmd.Process.Kill()
		}
		return p.cmd.Process.Signal(os.Interrupt)
	}
	p.cmd.WaitDelay = stopTimeout
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() { p.stop() })
	return p
}

// stop interrupts the process and waits for its end.
func (p *process) stop() {
	p.cancel(nil)
	for p.heeds != nil && !p.heeds.MatchString(p.log.String()) {
		select {
		case <-p.done:
			return
		case <-time.After(interruptAgain):
			p.cmd.Cancel() // fails if it has ended meanwhile
		}
	}
	<-p.done
}

// await waits for a line of the process's output.
func (p *process) await(pattern string) []string {
	p.t.Helper()
	ctx, cancel := context.WithCancelCause(step(p.t))
	defer cancel(nil)
	go func() {
		select {
		case <-p.done:
			cancel(errProcessEnded)
		case <-ctx.Done():
		}
	}()
	match, err := p.log.wait(ctx, regexp.MustCompile(pattern))
	if err != nil {
		p.t.Fatalf("%s: %v", p.log.of, err)
	}
	return match
}

// run runs a program to its end and returns both of its outputs.
func run(t *testing.T, path string, args ...string) (string, error) {
	t.Helper()
	ctx := step(t)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = stopTimeout
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return string(out), err
}
