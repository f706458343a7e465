package command

import (
	"strings"
	"testing"
	"time"
)

func TestProgressLines(t *testing.T) {
	var w buffer
	p := newProgress(&w, false, "a -> b", time.Second)
	for ms := range 60 { // past the end as well
		p.show(time.Duration(ms)*20*time.Millisecond, int64(ms)<<20)
	}
	p.finish()
	want := "a -> b  25% 13.0 MiB\na -> b  50% 25.0 MiB\na -> b  75% 38.0 MiB\n"
	if w.String() != want {
		t.Errorf("got %q, want %q", w.String(), want)
	}
}

func TestProgressBar(t *testing.T) {
	var w buffer
	p := newProgress(&w, true, "a -> b", time.Second)
	for ms := range 60 {
		p.show(time.Duration(ms)*20*time.Millisecond, int64(ms)<<20)
		if ms%20 == 0 {
			time.Sleep(2 * time.Millisecond)
		}
	}
	p.finish()
	out := w.String()
	wantAll(t, out, "a -> b", "%", "|")
	if strings.Contains(out, "\n") {
		t.Errorf("the bar leaves its line: %q", out)
	}
	if !strings.HasSuffix(out, "\033[2K\r") {
		t.Errorf("the bar is not cleared at the end: %q", out)
	}
}

func TestProgressOfNoTime(t *testing.T) {
	for _, bar := range []bool{false, true} {
		var w buffer
		p := newProgress(&w, bar, "x", 0)
		p.show(0, 0)
		p.show(time.Hour, 1)
		p.finish()
	}
}

func TestUnits(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536 * kib: "1.5 MiB", 5 << 29: "2.50 GiB"} {
		if got := byteCount(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0.0 us", 1500: "1.5 us", 2 * time.Millisecond: "2.00 ms", 1234 * time.Millisecond: "1.23 s"} {
		if got := short(d); got != want {
			t.Errorf("%d: got %q, want %q", d, got, want)
		}
	}
	if got := rate(mib, 500*time.Millisecond); got != "2.0 MiB/s" {
		t.Error(got)
	}
	if got := rate(mib, 0); got != "-" {
		t.Error(got)
	}
}
