package measure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

var implementations = map[string]Implementation{"go-ethereum": GoEthereum, "library": Library, "sharing library": SharingLibrary}

func TestLoad(t *testing.T) {
	payload := NewPayload(2 << 20)
	for name, im := range implementations {
		for _, l := range []Load{
			{Conns: 1, Size: 1},
			{Conns: 3, Size: 1000, Snappy: true},
			{Conns: 2, Size: 2 << 20},
			{Pipe: true, Conns: 1, Size: 2 << 20, Snappy: true},
			{Pipe: true, Conns: 16, Size: 16 << 10},
		} {
			t.Run(fmt.Sprintf("%s/%+v", name, l), func(t *testing.T) {
				a, err := l.Run(t.Context(), im, payload, time.Millisecond)
				if err != nil {
					t.Fatal(err)
				}
				if a.Messages < int64(l.Conns) || a.Bytes != a.Messages*int64(l.Size) || a.Took < time.Millisecond || a.Rate() <= 0 {
					t.Errorf("%+v, %v bytes a second", a, a.Rate())
				}
			})
		}
	}
}

// A connection that is not what it should be is noticed, however it fails.
func TestLoadFails(t *testing.T) {
	payload := NewPayload(1000)
	broken := errors.New("broken")
	for _, tc := range []struct {
		name string
		wrap func(Transport) Transport
		want error
	}{
		{"contents", func(c Transport) Transport { return &faulty{Transport: c, after: 5, flip: true} }, ErrMismatch},
		{"first message", func(c Transport) Transport { return &faulty{Transport: c, flip: true} }, ErrMismatch},
		{"read", func(c Transport) Transport { return &faulty{Transport: c, after: 5, err: broken} }, broken},
		{"first read", func(c Transport) Transport { return &faulty{Transport: c, err: broken} }, broken},
		{"write", func(c Transport) Transport { return &mute{Transport: c, after: 5, err: broken} }, broken},
		{"first write", func(c Transport) Transport { return &mute{Transport: c, err: broken} }, broken},
	} {
		for _, pipe := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/pipe=%v", tc.name, pipe), func(t *testing.T) {
				before := runtime.NumGoroutine()
				im := func(conn net.Conn, s secrets) Transport { return tc.wrap(Library(conn, s)) }
				a, err := Load{Pipe: pipe, Conns: 4, Size: 1000}.Run(t.Context(), im, payload, time.Hour)
				if !errors.Is(err, tc.want) {
					t.Errorf("got %+v, %v", a, err)
				}
				noneLeft(t, before)
			})
		}
	}
}

// faulty reads wrongly after some messages.
type faulty struct {
	Transport
	after int
	flip  bool
	err   error
}

func (c *faulty) Read() (code uint64, data []byte, wireSize int, err error) {
	code, data, wireSize, err = c.Transport.Read()
	if c.after--; c.after >= 0 || err != nil {
		return code, data, wireSize, err
	}
	if c.flip {
		data[len(data)/2] ^= 1
	}
	return code, data, wireSize, c.err
}

// mute sends nothing after some messages.
type mute struct {
	Transport
	after int
	err   error
}

func (c *mute) Write(code uint64, data []byte) (wireSize uint32, err error) {
	if c.after--; c.after < 0 {
		return 0, c.err
	}
	return c.Transport.Write(code, data)
}

func noneLeft(t *testing.T, before int) {
	t.Helper()
	for start := time.Now(); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

func TestLoadEndsWithContext(t *testing.T) {
	payload := NewPayload(1000)
	gone := errors.New("gone")
	for name, im := range implementations {
		for _, pipe := range []bool{false, true} {
			before := runtime.NumGoroutine()
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(20*time.Millisecond, func() { cancel(gone) })
			if _, err := (Load{Pipe: pipe, Conns: 4, Size: 1000}).Run(ctx, im, payload, time.Hour); err != gone {
				t.Errorf("%s, pipe %v: %v", name, pipe, err)
			}
			noneLeft(t, before)
			if _, err := (Load{Pipe: pipe, Conns: 4, Size: 1000}).Run(ctx, im, payload, time.Hour); err != gone {
				t.Errorf("%s, pipe %v: after the end: %v", name, pipe, err)
			}
			noneLeft(t, before)
		}
	}
}

func TestPayload(t *testing.T) {
	const size = 100
	p := NewPayload(size)
	seen := map[string]int{}
	for i := range slide {
		m := p.message(i, size)
		if len(m) != size || cap(m) != size {
			t.Fatalf("message %d has %d bytes of %d", i, len(m), cap(m))
		}
		if j, ok := seen[string(m)]; ok {
			t.Fatalf("messages %d and %d are the same", j, i)
		}
		seen[string(m)] = i
	}
	for _, tc := range []struct {
		name string
		code uint64
		data []byte
		want string
	}{
		{"right", 7, p.message(3, size), ""},
		{"next", 7, p.message(4, size), "message 3 of 100 bytes differs from byte"},
		{"code", 8, p.message(3, size), "message 3 has id 8, want 7"},
		{"length", 7, p.message(3, size)[:size-1], "message 3 has 99 bytes, want 100"},
		{"empty", 7, nil, "message 3 has 0 bytes"},
	} {
		err := p.check(3, size, 7, tc.code, tc.data)
		if tc.want == "" && err == nil {
			continue
		}
		if !errors.Is(err, ErrMismatch) || tc.want == "" || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestQuantile(t *testing.T) {
	for _, tc := range []struct {
		values []float64
		part   float64
		want   float64
	}{
		{[]float64{7}, 0.5, 7},
		{[]float64{3, 1, 2}, 0.5, 2},
		{[]float64{4, 1, 2, 3}, 0.5, 2.5},
		{[]float64{4, 1, 2, 3}, 0, 1},
		{[]float64{4, 1, 2, 3}, 1, 4},
		{[]float64{0, 100}, 0.99, 99},
	} {
		if got := Quantile(tc.values, tc.part); got != tc.want {
			t.Errorf("%v at %v: got %v, want %v", tc.values, tc.part, got, tc.want)
		}
	}
	if got := Median([]time.Duration{3, 1, 2}); got != 2 {
		t.Errorf("got %v", got)
	}
}
