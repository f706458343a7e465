package command

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func TestScreen(t *testing.T) {
	var w buffer
	width, height := 10, 4
	var sizeErr error
	s := &screen{out: &output{w: &w}, size: func() (int, int, error) { return width, height, sizeErr }}
	s.draw("a\nb\n")
	s.draw("c\nd\ne\n")
	s.draw("f\n")
	if got, want := w.String(), "\r\x1b[Ka\n\x1b[Kb\n\x1b[J"+"\r\x1b[2A\x1b[Kc\n\x1b[Kd\n\x1b[Ke\n\x1b[J"+"\r\x1b[3A\x1b[Kf\n\x1b[J"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for text, want := range map[string]bool{
		"a\nb\nc\n":         true,
		"a\nb\nc\nd\n":      false, // the first line would leave when the last ends
		"123456789a\n":      true,
		"123456789ab\n":     false,
		"12345678\u00b5s\n": true,
	} {
		if got := s.fits(text); got != want {
			t.Errorf("%q fits: %v", text, got)
		}
	}
	if sizeErr = errors.New("no terminal"); s.fits("") {
		t.Error("fits on no terminal")
	}
}

// A subject that is watched, on a terminal that becomes too small.
func TestView(t *testing.T) {
	var stdout, stderr buffer
	b := &bench{env: &env{out: &output{w: &stdout}, err: &stderr}, rounds: 2}
	s := &counted{rowsDone: make([]int, 4)}
	v := b.newView(s, time.Second)
	if v.screen != nil || v.progress == nil {
		t.Fatal("a buffer is taken for a terminal")
	}
	height := 24
	v.screen = &screen{out: b.out, size: func() (int, int, error) { return 80, height, nil }}
	v.progress = nil
	v.show(0, 0, 0)
	s.rowsDone[0]++
	v.show(0, 1, 0)
	wantAll(t, stdout.String(), "title\n\n", "round 1 of 2, row 1 of 4, about 1s left", "\x1b[6A", "row 2 of 4, about 900ms left")
	s.rowsDone[1]++
	height = 3
	v.show(0, 2, 5)
	if v.screen != nil || v.progress == nil {
		t.Error("writes over what it cannot reach")
	}
	v.show(1, 0, 7)
	wantAll(t, stderr.String(), "bench  25% 5 B\n", "bench  50% 7 B\n")
	v.finish()
	if want := "  row  done\n    0     1\n    1     1\n    2     -\n    3     -\n\nnote\nEnded early, after 0 of 2 rounds.\n"; !strings.HasSuffix(stdout.String(), want) {
		t.Errorf("got %q", stdout.String())
	}
}

// However many rounds there are, the progress goes its way.
func TestViewForEver(t *testing.T) {
	var stderr buffer
	b := &bench{env: &env{out: &output{w: &buffer{}}, err: &stderr}, rounds: math.MaxInt}
	v := b.newView(&counted{rowsDone: make([]int, 4)}, duration(4*float64(b.rounds)*float64(time.Hour)))
	for _, round := range []int{0, b.rounds/4 + 1, b.rounds/4*3 + 3, b.rounds} {
		v.show(round, 1, 0)
	}
	if got, want := stderr.String(), "bench  25% 0 B\nbench  75% 0 B\n"; got != want {
		t.Errorf("got %q", got)
	}
	if text := v.text(1, 0); strings.Contains(text, "about -") {
		t.Errorf("%q", text)
	}
}

type counted struct {
	subject
	rowsDone []int
}

func (s *counted) title() string    { return "title\n" }
func (s *counted) rows() (int, int) { return len(s.rowsDone), 1 }
func (s *counted) done(row int) int { return s.rowsDone[row] }
func (s *counted) table() (t table) {
	t = table{head: []string{"row", "done"}, note: "note"}
	for i, n := range s.rowsDone {
		cell := ""
		if n > 0 {
			cell = fmt.Sprint(n)
		}
		t.rows = append(t.rows, []string{fmt.Sprint(i), cell})
	}
	return t
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int{
		"1": 1, "32B": 32, "1k": 1024, "1K": 1024, "2KiB": 2048, "2kib": 2048, "3M": 3 << 20, "3MiB": 3 << 20, "1kb": 1024, "2MB": 2 << 20, "1 KiB": 1024,
		"2147483647": 1<<31 - 1, "2147483647MiB": 1<<31 - 1,
	} {
		if got, err := parseSize(text); got != want || err != nil {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "k", "x", "1x", "1.5k", "9999999999", "1kk"} {
		if n, err := parseSize(text); err == nil {
			t.Errorf("%q: %d", text, n)
		}
	}
	for n, want := range map[int]string{1: "1 B", 1000: "1000 B", 1024: "1 KiB", 1536: "1536 B", 2 << 20: "2 MiB"} {
		if got := sizeName(n); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}
