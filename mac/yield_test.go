package mac

import (
	"testing"
	"time"
)

func TestYields(t *testing.T) {
	const ms = time.Millisecond
	type yield struct {
		start, took, cpu time.Duration
		measured         bool
	}
	two := func(start, took time.Duration) yield {
		return yield{start, took, took * time.Duration(processors()), true}
	}
	foreign := func(start, took time.Duration) yield {
		return yield{start, took, took * time.Duration(processors()-1), true}
	}
	for _, tt := range []struct {
		name   string
		yields []yield
		quiet  time.Duration // until; 0 for never
	}{
		{"fast ones", []yield{two(0, ms), two(ms, 7*ms), two(8*ms, 7*ms)}, 0},
		{"one slow", []yield{two(0, 10*ms), two(10*ms, ms), two(20*ms, 7*ms)}, 0},
		{"two slow", []yield{two(ms, 10*ms), two(50*ms, 12*ms)}, 62*ms + 50*12*ms},
		{"two slow that overlap", []yield{two(ms, 10*ms), two(5*ms, 10*ms)}, 0},
		{"two slow, far apart", []yield{two(ms, 10*ms), two(112*ms, 10*ms)}, 0},
		{"two slow, nothing measured", []yield{{ms, 10 * ms, 0, false}, {50 * ms, 10 * ms, 0, false}}, 60*ms + 500*ms},
		{"other processes", []yield{foreign(ms, 10*ms), foreign(50*ms, 10*ms), foreign(70*ms, 40*ms)}, 0},
		{"other processes, then our own", []yield{foreign(ms, 10*ms), foreign(50*ms, 10*ms), two(70*ms, 10*ms)}, 80*ms + 500*ms},
	} {
		var y yields
		for _, x := range tt.yields {
			y.note(x.start, x.took, x.cpu, x.measured)
		}
		if y.quietUntil != tt.quiet {
			t.Errorf("%s: quiet until %v, want %v", tt.name, y.quietUntil, tt.quiet)
		}
	}
}

// After a quiet time, the next slow yield is looked at at once: the neighbours may be there still.
func TestYieldsAfterQuiet(t *testing.T) {
	const ms = time.Millisecond
	var y yields
	busy := 10 * ms * time.Duration(processors())
	y.note(ms, 10*ms, busy, true)
	y.note(50*ms, 10*ms, busy, true)
	end := y.quietUntil
	if !y.suspicious(end) || y.suspicious(end+slowWindow) {
		t.Errorf("suspicious at the end of the quiet time: %v, later: %v", y.suspicious(end), y.suspicious(end+slowWindow))
	}
	y.note(end, 10*ms, busy, true)
	if want := end + 10*ms + 500*ms; y.quietUntil != want {
		t.Errorf("quiet until %v, want %v", y.quietUntil, want)
	}
}

func TestCPUTime(t *testing.T) {
	before, ok := cpuTime()
	if !ok {
		t.Skip("this system does not say")
	}
	for start := clock(); clock() < start+20*time.Millisecond; {
	}
	if after, ok := cpuTime(); !ok || after <= before {
		t.Errorf("from %v to %v, %v", before, after, ok)
	}
}
