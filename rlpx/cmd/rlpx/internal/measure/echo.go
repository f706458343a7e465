package measure

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A Channel carries messages to a peer that sends each of them back.
type Channel interface {
	Read(ctx context.Context) (id uint64, data []byte, err error)
	Write(id uint64, data []byte) error
}

// echoID is the id of the messages.
const echoID = 0

const (
	// windowBytes and windowMessages bound what is under way to the peer and back, so that what
	// still has to come when the time is over comes soon. At 100 ms a round trip the bytes allow
	// for 40 MB/s.
	windowBytes    = 4 << 20
	windowMessages = 256

	// maxSamples bounds the round trips of one measurement. Quantiles need no more.
	maxSamples = 1 << 16
)

// ErrNoEcho is the error when nothing came back in time.
var ErrNoEcho = errors.New("no echo in time")

// An Echo measures a peer's. Its measurements must not run side by side, and after an error nothing
// more can be measured.
type Echo struct {
	Channel Channel
	Payload *Payload
	Timeout time.Duration // for a message to come back
	Abort   func()        // ends the session, which unblocks Write; called when a measurement fails, several times and at once
}

// RoundTrips sends one message of the given size at a time until d has passed, at least one, and
// returns how long each took to come back.
func (e *Echo) RoundTrips(ctx context.Context, size int, d time.Duration) (trips []time.Duration, err error) {
	err = e.run(ctx, func(ctx context.Context, progress func()) error {
		start := time.Now()
		for now := start; len(trips) == 0 || now.Sub(start) < d && len(trips) < maxSamples; {
			if err := e.write(len(trips), size); err != nil {
				return err
			}
			if err := e.read(ctx, len(trips), size); err != nil {
				return err
			}
			progress()
			sent := now
			now = time.Now()
			trips = append(trips, now.Sub(sent))
		}
		return nil
	})
	return trips, err
}

// Stream sends messages of the given size until d has passed, at least one, several at a time, and
// stops the clock when all have come back. The Amount is that of one direction.
func (e *Echo) Stream(ctx context.Context, size int, d time.Duration) (a Amount, err error) {
	start := time.Now()
	err = e.run(ctx, func(ctx context.Context, progress func()) error {
		ctx, fail := context.WithCancelCause(ctx)
		defer fail(nil)
		// An element is a message that is about to be sent, or was sent, and that nobody waits for
		// yet.
		window := make(chan struct{}, min(max(windowBytes/size, 2), windowMessages))
		var writer sync.WaitGroup
		writer.Go(func() {
			defer close(window)
			for i := 0; i == 0 || time.Since(start) < d; i++ {
				select {
				case window <- struct{}{}:
				case <-ctx.Done():
					return
				}
				if err := e.write(i, size); err != nil {
					fail(err)
					return
				}
			}
		})
		for range window {
			if err := e.read(ctx, int(a.Messages), size); err != nil {
				fail(err)
				e.Abort()
				break
			}
			progress()
			a.Messages++
		}
		writer.Wait()
		return context.Cause(ctx)
	})
	a.Bytes, a.Took = a.Messages*int64(size), max(time.Since(start), 1)
	return a, err
}

func (e *Echo) write(i, size int) error { return e.Channel.Write(echoID, e.Payload.message(i, size)) }

func (e *Echo) read(ctx context.Context, i, size int) error {
	id, data, err := e.Channel.Read(ctx)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return err
	}
	return e.Payload.check(i, size, echoID, id, data)
}

// run runs a measurement, which calls progress whenever a message came back. It ends with ErrNoEcho
// if that is not in time, and with the context's cause if that is done.
func (e *Echo) run(ctx context.Context, measurement func(ctx context.Context, progress func()) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	stop := context.AfterFunc(ctx, e.Abort)
	watch := time.AfterFunc(e.Timeout, func() { fail(ErrNoEcho) })
	defer watch.Stop()
	err := measurement(ctx, func() { watch.Reset(e.Timeout) })
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	stop() // what follows is no reason to end the session
	if err != nil {
		e.Abort()
	}
	return err
}
