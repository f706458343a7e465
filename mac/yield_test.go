package mac

import (
	"testing"
	"time"
)

func TestYields(t *testing.T) {
	const ms = time.Millisecond
	n := time.Duration(processors())
	busy := func(start, took time.Duration) yield {
		return yield{start: start, took: took, cpu: took * n, measured: true}
	}
	foreign := func(start, took time.Duration) yield {
		return yield{start: start, took: took, cpu: took * (n - 1), measured: true}
	}
	connections := func(start, took time.Duration, share int64) yield {
		x := busy(start, took)
		x.bytes = uint64(int64(took*n/workPerByte) / share)
		return x
	}
	for _, tt := range []struct {
		name   string
		yields []yield
		quiet  time.Duration // until; 0 for never
	}{
		{"fast ones", []yield{busy(0, ms), busy(ms, 7*ms), busy(8*ms, 7*ms)}, 0},
		{"one slow", []yield{busy(0, 10*ms), busy(10*ms, ms), busy(20*ms, 7*ms)}, 0},
		{"two slow", []yield{busy(ms, 10*ms), busy(50*ms, 12*ms)}, 62*ms + 4*12*ms},
		{"two slow that overlap", []yield{busy(ms, 10*ms), busy(5*ms, 10*ms)}, 0},
		{"two slow, far apart", []yield{busy(ms, 10*ms), busy(112*ms, 10*ms)}, 0},
		{"two slow, nothing measured", []yield{{start: ms, took: 10 * ms}, {start: 50 * ms, took: 10 * ms}}, 60*ms + 40*ms},
		{"hundreds of connections", []yield{connections(ms, 10*ms, 1), connections(50*ms, 30*ms, 5)}, 0},
		{"some connections beside busy goroutines", []yield{connections(ms, 10*ms, 8), connections(50*ms, 10*ms, 8)}, 60*ms + 40*ms},
		{"other processes", []yield{foreign(ms, 10*ms), foreign(50*ms, 10*ms), foreign(70*ms, 40*ms)}, 0},
		{"other processes, then our own", []yield{foreign(ms, 10*ms), foreign(50*ms, 10*ms), busy(70*ms, 10*ms)}, 80*ms + 40*ms},
	} {
		var y yields
		for _, x := range tt.yields {
			y.note(x)
		}
		if y.quietUntil != tt.quiet {
			t.Errorf("%s: quiet until %v, want %v", tt.name, y.quietUntil, tt.quiet)
		}
	}
}

// After a quiet time, the next slow yield is looked at at once: the neighbours may be there still.
// Then the quiet times grow, and start anew when there was no slow yield for long.
func TestYieldsAfterQuiet(t *testing.T) {
	const ms = time.Millisecond
	var y yields
	slow := func(start time.Duration) (end time.Duration) {
		t.Helper()
		y.note(yield{start: start, took: 10 * ms, cpu: 10 * ms * time.Duration(processors()), measured: true})
		return start + 10*ms
	}
	end := slow(ms)
	for range 2 {
		for i, want := range []time.Duration{4, 8, 16, 32, 64, 64} {
			if i == 3 { // connections that pause are not new
				end = slow(end + quietMemory/2)
			}
			if !y.suspicious(end) || y.suspicious(end+slowWindow) {
				t.Fatalf("%d: suspicious at the end of the quiet time: %v, later: %v", i, y.suspicious(end), y.suspicious(end+slowWindow))
			}
			end = slow(end)
			if quiet := y.quietUntil - end; quiet != want*10*ms {
				t.Fatalf("%d: quiet for %v, want %v", i, quiet, want*10*ms)
			}
			end = y.quietUntil
		}
		end = slow(end + quietMemory + ms) // one is chance
		if y.quietUntil > end {
			t.Fatalf("quiet until %v after one slow yield at %v", y.quietUntil, end)
		}
	}
}
