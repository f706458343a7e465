package mac

import (
	"math/rand/v2"
	"testing"
	"time"
)

const ms = time.Millisecond

// script is connections that bring pieces to a control, on a clock of its own.
type script struct {
	control
	clock time.Duration
	alone bool                        // nobody comes after a comparison
	piece int                         // bytes
	every func(on bool) time.Duration // from one piece to the next
	spent [2]time.Duration            // with sharing off, and on
}

// steady is so much between two pieces with sharing off, and on.
func steady(off, on time.Duration) func(bool) time.Duration {
	return func(is bool) time.Duration {
		if is {
			return on
		}
		return off
	}
}

// newScript starts with the given number of connections.
func newScript(conns int, every func(on bool) time.Duration) *script {
	s := &script{piece: 16 << 10, every: every}
	s.come(conns)
	return s
}

// come makes so many connections bring something.
func (s *script) come(conns int) {
	for range conns {
		s.member(new(uint64))
	}
}

// step lets one piece come.
func (s *script) step() {
	on := s.on
	d := s.every(on)
	s.clock += d
	i := 0
	if on {
		i = 1
	}
	s.spent[i] += d
	n := s.comparisons
	s.control.piece(s.clock, 0, s.piece)
	if s.comparisons != n && !s.alone {
		s.come(shareLanes)
	}
}

// run lets pieces come for d.
func (s *script) run(d time.Duration) {
	for end := s.clock + d; s.clock < end; {
		s.step()
	}
}

// idle lets d pass in which there is no piece.
func (s *script) idle(d time.Duration) {
	s.clock += d
	s.control.piece(s.clock, d, s.piece)
}

// decide runs to the end of the next comparison, and returns how long that took.
func (s *script) decide(t *testing.T) time.Duration {
	t.Helper()
	start, n := s.clock, s.comparisons
	for s.comparisons == n {
		if s.step(); s.clock > start+time.Hour {
			t.Fatal("no comparison ends")
		}
	}
	return s.clock - start
}

// onPart is the part of the time with sharing on, in which nothing else is counted than what
// follows.
func (s *script) onPart(d time.Duration) float64 {
	s.spent = [2]time.Duration{}
	s.run(d)
	return float64(s.spent[1]) / float64(s.spent[0]+s.spent[1])
}

// What is better is found at once, is kept for most of the time, and what is worse is tried for no
// more than the price says.
func TestControlFindsTheBetter(t *testing.T) {
	const off = 40 * time.Microsecond
	for _, tt := range []struct {
		name  string
		on    time.Duration // between two pieces; with sharing off it is the above
		want  bool
		first time.Duration // until the first comparison ends, at most
	}{
		{"three times as much", off / 3, true, 9 * ms},
		{"5 % more", off * 100 / 105, true, 9 * ms},
		{"5 % less", off * 100 / 95, false, 9 * ms},
		{"20 % less", off * 100 / 80, false, 9 * ms},
		{"a hundredth", off * 100, false, 21 * ms},
		{"a yield of 5 ms", 5 * ms, false, 25 * ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(shareLanes, steady(off, tt.on))
			if s.on {
				t.Error("sharing is on before anything is known")
			}
			if took := s.decide(t); s.on != tt.want || took > tt.first {
				t.Fatalf("sharing: %v, after %v", s.on, took)
			}
			part := s.onPart(100 * time.Second)
			if !tt.want {
				part = 1 - part
			}
			if part < 1-1./holdFactor || part == 1 {
				t.Errorf("the better one had %.4f of the time", part)
			}
			if n := s.comparisons; n < 3 {
				t.Errorf("%d comparisons in 100 s", n)
			}
		})
	}
}

// The price holds even where one yield takes longer than a period and brings a single turn of eight
// pieces.
func TestControlSlowTurns(t *testing.T) {
	i := 0
	s := newScript(8, func(on bool) time.Duration {
		if i++; on && i%8 == 0 {
			return 40 * ms
		}
		return 40 * time.Microsecond
	})
	s.decide(t)
	if part := s.onPart(100 * time.Second); s.on || part > 1./60 {
		t.Errorf("sharing: %v, for %.4f of the time", s.on, part)
	}
}

// Other processes have the processor now and then, for longer than a period: what is better is
// still found, and kept for most of the time.
func TestControlNoise(t *testing.T) {
	const off = 40 * time.Microsecond
	for _, tt := range []struct {
		on   time.Duration
		want float64 // part of the time with sharing on, at least; at most if negative
	}{
		{off * 10 / 13, 0.8},
		{off * 10 / 17, 0.95},
		{off / 4, 0.97},
		{off * 2, -0.02},
		{off * 20, -0.02},
	} {
		for seed := range uint64(5) {
			r := rand.New(rand.NewPCG(seed, 1))
			every := steady(off, tt.on)
			s := newScript(shareLanes, func(on bool) time.Duration {
				d := every(on)
				if r.Float64() < float64(d)/float64(5*ms) { // every 5 ms
					d += time.Duration(r.ExpFloat64() * float64(4*ms))
				}
				return d
			})
			part := s.onPart(60 * time.Second)
			if tt.want > 0 && part < tt.want || tt.want < 0 && part > -tt.want {
				t.Errorf("%v against %v, seed %d: sharing for %.3f of the time", tt.on, off, seed, part)
			}
		}
	}
}

// Neighbours come and go.
func TestControlLoadChanges(t *testing.T) {
	const off = 40 * time.Microsecond
	s := newScript(shareLanes, steady(off, off/3))
	s.decide(t)
	if price := 64 * 4 * ms; !s.on || s.hold < price || s.hold > price*11/10 {
		t.Fatalf("sharing: %v for %v, want about %v", s.on, s.hold, price)
	}
	s.every = steady(off, off*4)
	s.spent = [2]time.Duration{}
	if s.decide(t); s.on || s.spent[1] > 2*recent+6*period {
		t.Errorf("neighbours came: sharing: %v, %v in between", s.on, s.spent[1])
	}
	hold := s.hold
	s.every = steady(off, off/3)
	if took := s.decide(t); !s.on || took > hold+20*ms || took < hold {
		t.Errorf("neighbours went: sharing: %v, after %v of %v", s.on, took, hold)
	}
	s.every = steady(off, off*5/2)
	if s.run(3 * recent); !s.on || s.comparing {
		t.Error("more than a third of the rate of off is no reason to compare before the time")
	}
}

// Without company there is nothing to compare.
func TestControlNoCompany(t *testing.T) {
	const off = 40 * time.Microsecond
	few := newScript(shareLanes-1, steady(off, off/3))
	if part := few.onPart(time.Second); part != 0 {
		t.Errorf("%d connections: sharing for %v of the time", shareLanes-1, part)
	}
	var seen uint64
	for range 10 {
		few.member(&seen)
	}
	if few.decide(t); !few.on {
		t.Error("one more connection: sharing is off")
	}

	// A connection counts again after a comparison, but once.
	alone := newScript(0, steady(off, off/3))
	var three [shareLanes]uint64
	for i := range three {
		alone.member(&three[i])
		alone.member(&three[i])
	}
	if alone.members != shareLanes {
		t.Errorf("%d connections, want %d", alone.members, shareLanes)
	}
	alone.alone = true
	alone.decide(t)
	if alone.member(&three[0]); alone.members != 1 {
		t.Errorf("%d connections after a comparison, want 1", alone.members)
	}
	if part := alone.onPart(2 * alone.hold); alone.on || part == 0 {
		t.Errorf("the others left: sharing: %v, %v of the time", alone.on, part)
	}

	light := newScript(shareLanes, steady(ms/3+1, ms/100))
	if part := light.onPart(time.Second); part != 0 {
		t.Errorf("little to do: sharing for %v of the time", part)
	}
	light.every = steady(ms/4, ms/100)
	if light.decide(t); !light.on {
		t.Error("busy: sharing is off")
	}
}

// The clock stands still while there is nothing to do, and a long pause discards a comparison.
func TestControlPauses(t *testing.T) {
	const off = 40 * time.Microsecond
	s := newScript(shareLanes, steady(off, off/3))
	s.decide(t)
	hold := s.hold
	for range 10 {
		s.idle(10*ms + 1)
		s.idle(time.Hour)
	}
	if !s.on || s.hold != hold {
		t.Errorf("sharing: %v, hold %v after pauses, %v before", s.on, s.hold, hold)
	}
	s.idle(10 * ms) // not long enough to be sure
	if s.hold > hold-10*ms {
		t.Errorf("hold %v after 10 ms, %v before", s.hold, hold)
	}

	for _, tt := range []struct {
		idle time.Duration
		want int
	}{{300 * ms, 3}, {300*ms + 1, 0}} {
		s := newScript(shareLanes, steady(off, off/3))
		for s.periods < 3 {
			s.step()
		}
		s.idle(tt.idle)
		if got := s.periods; s.comparing != (tt.want > 0) || s.comparing && got != tt.want || !s.comparing && s.on {
			t.Errorf("after %v: comparing: %v, %d periods, sharing: %v", tt.idle, s.comparing, got, s.on)
		}
		if s.decide(t); !s.on {
			t.Errorf("after %v: sharing is off in the end", tt.idle)
		}
	}

	// What was on before a comparison is on again.
	s = newScript(shareLanes, steady(off, off/3))
	s.decide(t)
	for !s.comparing || s.on {
		s.step()
	}
	if s.idle(300*ms + 1); s.comparing || !s.on {
		t.Errorf("after a comparison that a pause ended: comparing: %v, sharing: %v", s.comparing, s.on)
	}

	back := newScript(shareLanes, steady(off, off/3))
	back.run(ms / 2)
	bubble := back.clock - 26*365*24*time.Hour
	back.control.piece(bubble, 0, 1)
	back.control.tick(bubble + time.Second)
	if back.now.time > ms/2+off || back.comparing {
		t.Errorf("the clock of a bubble counts: %v", back.now.time)
	}
	back.control.piece(back.clock, back.clock-bubble, 1) // the last piece left in the bubble
	if back.decide(t) > 9*ms || !back.on {
		t.Errorf("a clock that went back: sharing: %v", back.on)
	}
}

// Where neither gets ahead the sum decides, after so many pairs or so much time.
func TestControlBounds(t *testing.T) {
	const off = 40 * time.Microsecond
	// Every second pair is won by sharing, by more or by less than what it loses in the others.
	for _, better := range []bool{false, true} {
		var s *script
		s = newScript(shareLanes, func(on bool) time.Duration {
			switch even := s.periods/2%2 == 0; {
			case !on:
				return off
			case even && better:
				return off / 2
			case even:
				return off * 20 / 21
			default:
				return off * 11 / 10
			}
		})
		took := s.decide(t)
		if s.on != better || s.periods != 2*maxPairs || took < 2*maxPairs*period {
			t.Errorf("sharing: %v after %d periods, %v; want %v", s.on, s.periods, took, better)
		}
		if took > maxComparison {
			t.Errorf("maxPairs is no bound: %v", took)
		}
	}
	// A single pair that says something else costs a lead of six.
	var odd *script
	odd = newScript(shareLanes, func(on bool) time.Duration {
		switch {
		case !on:
			return off
		case odd.periods < 2:
			return off * 11 / 10
		default:
			return off / 3
		}
	})
	if odd.decide(t); !odd.on || odd.periods != 2*(1+1+6) {
		t.Errorf("sharing: %v after %d periods", odd.on, odd.periods)
	}
	// Some periods take so long that the time is over first.
	var slow *script
	slow = newScript(shareLanes, func(on bool) time.Duration {
		if slow.comparing && on == (slow.periods/2%2 == 0) {
			return 20 * ms
		}
		return off
	})
	if took := slow.decide(t); took < 800*ms || took > 850*ms {
		t.Errorf("a comparison of %v", took)
	}
	stuck := newScript(shareLanes, steady(off, time.Minute))
	if stuck.decide(t); stuck.on || stuck.hold != maxHold {
		t.Errorf("sharing: %v, hold %v", stuck.on, stuck.hold)
	}
}
