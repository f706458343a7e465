package mac

import "time"

// A yield costs a turn of the whole run queue. That is next to nothing where everybody else
// who is ready to run is a connection that brings another piece, and it is ruin beside goroutines
// that compute. The control does not guess which it is. It compares what sharing is for: the bytes
// that go through the queue in a second with sharing on and with sharing off.
//
//	     the better one      on off off on on off off on     the better one
//	|--------- hold --------|--|--|--|--|--|--|--|--|------- hold ---------|
//	                         comparison: pairs of periods of 1 ms
//
// A comparison ends when one of the two is better by the sum of all periods, and by most of the
// pairs as well. On a quiet machine all pairs say the same, and four are enough. Where the system
// gives the processor to other processes, a single period says little, and more of them follow, up
// to a bound. Then the sum decides.
//
// The loser's periods are the price. The hold is 64 times as long as they took together, so that
// comparing costs at most 1/64 of the time, even where a single yield takes 40 ms.
//
//	hold over, few connections or little to do  --->  off, nothing to compare
//	hold over otherwise                         --->  comparison
//	on, below a third of the rate of off        --->  hold over: neighbours came, or there is little to do
//
// A pause does not count: the clock stands still in it.
const (
	// period is the shortest time for which a rate is taken. At 400 MB/s, it is 25 pieces of 16
	// KiB. The shorter it is, the fewer periods are disturbed by other processes.
	period = time.Millisecond

	// pause is a time with no piece in the queue after which it is plain that connections have
	// nothing to send. In a shorter one they may compress, encrypt or wait for the net.Conn.
	pause = 10 * time.Millisecond

	// longPause is one after which a comparison starts anew, since the load may be another.
	longPause = 300 * time.Millisecond

	// busyPieces is the fewest pieces of a period in which connections are busy. With fewer there
	// is hardly any company, and waiting for it would only add latency.
	busyPieces = 4

	// firstPairs is how many pairs are enough if all of them say the same.
	firstPairs = 4

	// lead is by how many pairs the better one has to be ahead otherwise.
	lead = 6

	// maxPairs and maxComparison bound a comparison in which neither gets ahead.
	maxPairs      = 128
	maxComparison = 800 * time.Millisecond

	// holdFactor is how many times as long as the loser's periods the better one is kept.
	holdFactor = 64

	// recent is the time over which sharing has to carry at least a third of what off did.
	recent = 32 * time.Millisecond

	// maxHold bounds that: as long takes the end of a mistake, and the end of neighbours, to be
	// seen.
	maxHold = 10 * time.Second
)

// amount is what went through the queue in some time.
type amount struct {
	bytes  uint64
	pieces int
	time   time.Duration
}

func (a *amount) add(b amount) {
	a.bytes += b.bytes
	a.pieces += b.pieces
	a.time += b.time
}

func (a amount) rate() float64 { return float64(a.bytes) / float64(a.time) }

// control decides whether pieces share. The zero value starts with sharing off. The queue guards
// it.
type control struct {
	on bool // the answer, or what is tried just now

	last time.Duration // when something happened
	now  amount        // of the period that runs

	recent amount // of the hold's last periods

	hold    time.Duration // how long the answer stays
	offRate float64       // with sharing off, in the last comparison

	comparing bool
	first     bool      // what was on when the comparison began
	periods   int       // of the comparison so far
	ahead     int       // pairs that were better with sharing, less those that were better without
	sum       [2]amount // of the periods with sharing off, and on
	pair      [2]amount // of the pair that runs

	comparisons uint64
	members     int // connections that came since the last comparison
}

// member counts a connection once for each comparison. seen belongs to the connection.
func (c *control) member(seen *uint64) {
	if *seen != c.comparisons+1 {
		*seen = c.comparisons + 1
		c.members++
	}
}

// piece takes note of n bytes that come now. idle is how long there was no piece in the queue
// before that.
func (c *control) piece(now, idle time.Duration, n int) {
	if idle > pause {
		c.last = min(c.last+idle, now)
		if idle > longPause && c.comparing {
			c.comparing, c.on, c.hold, c.now = false, c.first, 0, amount{}
		}
	}
	c.tick(now)
	c.now.bytes += uint64(n)
	c.now.pieces++
}

// tick lets the clock go on to now. The clock of a testing/synctest bubble may be far behind, which
// does not count.
func (c *control) tick(now time.Duration) {
	d := max(now-c.last, 0)
	c.last += d
	c.now.time += d
	if c.now.time >= period {
		p := c.now
		c.now = amount{}
		c.end(p)
	}
}

// end takes a period that is over, and decides about the next.
func (c *control) end(p amount) {
	if !c.comparing {
		c.hold -= p.time
		if c.recent.add(p); c.recent.time >= recent {
			if c.on && c.recent.rate() < c.offRate/3 {
				c.hold = 0
			}
			c.recent = amount{}
		}
		if c.hold > 0 {
			return
		}
		if c.members < shareLanes || p.pieces < busyPieces {
			c.on = false
			return
		}
		c.comparing, c.first, c.periods, c.ahead, c.sum = true, c.on, 0, 0, [2]amount{}
	}
	arm := 0
	if c.on {
		arm = 1
	}
	c.pair[arm] = p
	c.sum[arm].add(p)
	c.periods++
	if c.periods%2 == 0 && c.decide() {
		return
	}
	c.on = c.first != (c.periods%4 == 1 || c.periods%4 == 2) // on, off, off, on, or the other way round
}

// decide ends the comparison after a pair, if it can.
func (c *control) decide() bool {
	if c.pair[1].rate() > c.pair[0].rate() {
		c.ahead++
	} else {
		c.ahead--
	}
	off, on := c.sum[0], c.sum[1]
	better := on.rate() > off.rate()
	ahead := c.ahead
	if !better {
		ahead = -ahead
	}
	pairs := c.periods / 2
	switch {
	case ahead == firstPairs && pairs == firstPairs, ahead >= lead:
	case pairs == maxPairs, off.time+on.time >= maxComparison:
	default:
		return false
	}
	lost := off.time
	if !better {
		lost = on.time
	}
	c.on, c.comparing = better, false
	c.hold, c.offRate = min(holdFactor*lost, maxHold), off.rate()
	c.comparisons++
	c.members = 0
	return true
}
