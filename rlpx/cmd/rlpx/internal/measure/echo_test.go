package measure

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// mirror is a Channel whose peer sends back what change makes of each message.
type mirror struct {
	queue  chan message
	closed chan struct{}
	change func(n int, m message) (message, bool) // nil: nothing; false: it is lost
	trip   time.Duration
	sent   int
	most   atomic.Int64 // messages that were under way at once
	now    atomic.Int64
}

type message struct {
	id   uint64
	data []byte
}

func newMirror() *mirror {
	return &mirror{queue: make(chan message, 1000), closed: make(chan struct{})}
}

var errClosed = errors.New("closed")

func (m *mirror) Write(id uint64, data []byte) error {
	select {
	case <-m.closed:
		return errClosed
	default:
	}
	msg := message{id, slices.Clone(data)}
	m.sent++
	if m.change != nil {
		var ok bool
		if msg, ok = m.change(m.sent-1, msg); !ok {
			return nil
		}
	}
	m.most.Store(max(m.most.Load(), m.now.Add(1)))
	m.queue <- msg
	return nil
}

func (m *mirror) Read(ctx context.Context) (uint64, []byte, error) {
	time.Sleep(m.trip)
	select {
	case msg := <-m.queue:
		m.now.Add(-1)
		return msg.id, msg.data, nil
	case <-m.closed:
		return 0, nil, errClosed
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
}

func (m *mirror) echo(timeout time.Duration) *Echo {
	return &Echo{Channel: m, Payload: NewPayload(1 << 20), Timeout: timeout, Abort: sync.OnceFunc(func() { close(m.closed) })}
}

func TestRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMirror()
		m.trip = 10 * time.Millisecond
		e := m.echo(time.Second)
		trips, err := e.RoundTrips(t.Context(), 100, 95*time.Millisecond)
		if err != nil || len(trips) != 10 || slices.Min(trips) != m.trip || slices.Max(trips) != m.trip || m.most.Load() != 1 {
			t.Errorf("%v, %v, %d under way", trips, err, m.most.Load())
		}
		// One at least, however little time there is, and as often as one likes.
		for range 3 {
			if trips, err := e.RoundTrips(t.Context(), 1, 0); err != nil || len(trips) != 1 {
				t.Errorf("%v, %v", trips, err)
			}
		}
	})
}

func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct{ size, most int }{{100, windowMessages}, {64 << 10, 64}, {1 << 20, 4}} {
			m := newMirror()
			m.trip = time.Millisecond
			e := m.echo(time.Second)
			for range 2 {
				a, err := e.Stream(t.Context(), tc.size, 20*time.Millisecond)
				// All that were sent are waited for.
				if err != nil || a.Messages < 20 || a.Took != time.Duration(a.Messages)*m.trip || a.Bytes != a.Messages*int64(tc.size) || len(m.queue) != 0 {
					t.Errorf("%d bytes: %+v, %v, %d left", tc.size, a, err, len(m.queue))
				}
			}
			if n := m.most.Load(); n < 2 || n > int64(tc.most)+2 {
				t.Errorf("%d bytes: %d messages under way, want at most %d or so", tc.size, n, tc.most)
			}
		}
	})
}

// What is wrong with the echo is said, and ends the session.
func TestEchoFails(t *testing.T) {
	gone := errors.New("gone")
	for _, tc := range []struct {
		name   string
		change func(n int, m message) (message, bool)
		ctx    time.Duration // after which the context is done; 0: never
		want   error
	}{
		{"changed", func(n int, m message) (message, bool) { m.data[0] ^= byte(n / 3); return m, true }, 0, ErrMismatch},
		{"shorter", func(n int, m message) (message, bool) { m.data = m.data[n/3:]; return m, true }, 0, ErrMismatch},
		{"another id", func(n int, m message) (message, bool) { m.id = uint64(n / 3); return m, true }, 0, ErrMismatch},
		{"lost", func(n int, m message) (message, bool) { return m, n < 3 }, 0, ErrNoEcho},
		{"nothing", func(n int, m message) (message, bool) { return m, false }, 0, ErrNoEcho},
		{"context", func(n int, m message) (message, bool) { return m, false }, time.Second / 2, gone},
	} {
		for name, measure := range map[string]func(*Echo, context.Context) error{
			"round trips": func(e *Echo, ctx context.Context) error {
				_, err := e.RoundTrips(ctx, 100, time.Hour)
				return err
			},
			"stream": func(e *Echo, ctx context.Context) error {
				_, err := e.Stream(ctx, 100, time.Hour)
				return err
			},
		} {
			t.Run(tc.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					if tc.ctx > 0 {
						time.AfterFunc(tc.ctx, func() { cancel(gone) })
					}
					m := newMirror()
					m.change = tc.change
					if err := measure(m.echo(time.Second), ctx); !errors.Is(err, tc.want) {
						t.Errorf("got %v, want %v", err, tc.want)
					}
					synctest.Wait() // Abort may have a goroutine of its own
					select {
					case <-m.closed:
					default:
						t.Error("the session was not ended")
					}
				})
			})
		}
	}
}
