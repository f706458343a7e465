package main

// What FIPS 202 (and the original submission) define, computed rather than
// written out. Lane (x, y) has the index x+5y.

const (
	lanes    = 25
	laneSize = 8
	rounds   = 24
	rate     = 17 // lanes, with the capacity of Keccak-256
)

func lane(x, y int) int { return (x+5)%5 + 5*((y+5)%5) }

// pi is the place that lane (x, y) moves to.
func pi(x, y int) (int, int) { return y, (2*x + 3*y) % 5 }

// piSource is the lane that moves to (x, y).
func piSource(x, y int) (int, int) {
	for sx := range 5 {
		for sy := range 5 {
			if px, py := pi(sx, sy); px == x && py == y {
				return sx, sy
			}
		}
	}
	panic("pi is a permutation")
}

// rho gives each lane's rotation: the triangular numbers along the orbit of pi
// that starts at (1, 0). Lane (0, 0) stays as it is.
func rho() (offsets [lanes]int) {
	x, y := 1, 0
	for t := 1; t < lanes; t++ {
		offsets[lane(x, y)] = t * (t + 1) / 2 % 64
		x, y = pi(x, y)
	}
	return offsets
}

// roundConstants gives what iota adds to lane (0, 0): seven bits a round of the
// LFSR x^8+x^6+x^5+x^4+1, at the places 2^j-1.
func roundConstants() (rc [rounds]uint64) {
	lfsr := 1
	for r := range rc {
		for j := range 7 {
			rc[r] |= uint64(lfsr&1) << (1<<j - 1)
			lfsr <<= 1
			if lfsr&0x100 != 0 {
				lfsr ^= 0x171
			}
		}
	}
	return rc
}
