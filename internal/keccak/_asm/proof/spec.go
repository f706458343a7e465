package main

// The specification, from the definitions of FIPS 202, section 3.2, and from nothing else: this
// file shares no code with the generator. Lane (x, y) has the index x+5y.

const (
	laneCount  = 25
	laneBytes  = 8
	roundCount = 24
	rateLanes  = 17 // 1600 - 2*256 bits
	rateBytes  = rateLanes * laneBytes
	digestSize = 32
)

// An algebra computes with words: numbers for the tests, forms for the proof.
type algebra[W any] struct {
	xor, and func(a, b W) W
	not      func(a W) W
	rotate   func(a W, n int) W
	constant func(c uint64) W
}

// rhoOffsets is Table 2, by Algorithm 2.
func rhoOffsets() (offset [5][5]int) {
	x, y := 1, 0
	for t := range 24 {
		offset[x][y] = (t + 1) * (t + 2) / 2 % 64
		x, y = y, (2*x+3*y)%5
	}
	return offset
}

// rc is Algorithm 5, with the register's bits in the order of the standard.
func rc(t int) bool {
	r := []bool{true, false, false, false, false, false, false, false}
	for range t % 255 {
		r = append([]bool{false}, r...)
		for _, i := range [4]int{0, 4, 5, 6} {
			r[i] = r[i] != r[8]
		}
		r = r[:8]
	}
	return r[0]
}

// roundConstant is the RC of Algorithm 6.
func roundConstant(round int) (c uint64) {
	for j := range 7 {
		if rc(j + 7*round) {
			c |= 1 << (1<<j - 1)
		}
	}
	return c
}

// round is Rnd, section 3.3: iota(chi(pi(rho(theta(A)))), round). Coordinates are those of the
// standard, A[x][y].
func specRound[W any](f algebra[W], in [laneCount]W, round int) (out [laneCount]W) {
	var a [5][5]W
	for x := range 5 {
		for y := range 5 {
			a[x][y] = in[x+5*y]
		}
	}

	// Algorithm 1, theta.
	var c, d [5]W
	for x := range 5 {
		c[x] = a[x][0]
		for y := 1; y < 5; y++ {
			c[x] = f.xor(c[x], a[x][y])
		}
	}
	for x := range 5 {
		d[x] = f.xor(c[(x+4)%5], f.rotate(c[(x+1)%5], 1))
	}
	for x := range 5 {
		for y := range 5 {
			a[x][y] = f.xor(a[x][y], d[x])
		}
	}

	// Algorithm 2, rho.
	offset := rhoOffsets()
	for x := range 5 {
		for y := range 5 {
			a[x][y] = f.rotate(a[x][y], offset[x][y])
		}
	}

	// Algorithm 3, pi.
	var b [5][5]W
	for x := range 5 {
		for y := range 5 {
			b[x][y] = a[(x+3*y)%5][x]
		}
	}

	// Algorithm 4, chi.
	for x := range 5 {
		for y := range 5 {
			a[x][y] = f.xor(b[x][y], f.and(f.not(b[(x+1)%5][y]), b[(x+2)%5][y]))
		}
	}

	// Algorithm 6, iota.
	a[0][0] = f.xor(a[0][0], f.constant(roundConstant(round)))

	for x := range 5 {
		for y := range 5 {
			out[x+5*y] = a[x][y]
		}
	}
	return out
}

// formAlgebra computes with forms. A product that has none is an error in the specification.
func formAlgebra() algebra[form] {
	return algebra[form]{
		xor: form.xor,
		and: func(a, b form) form {
			r, ok := a.and(b)
			if !ok {
				panic("one round has products of two lanes only")
			}
			return r
		},
		not:      form.not,
		rotate:   form.rotate,
		constant: constant,
	}
}
