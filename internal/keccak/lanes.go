package keccak

import (
	"encoding/binary"
	"unsafe"
)

// Lanes is the largest number of states that any machine advances together.
const Lanes = 8

// A Lane is bytes on their way into a state.
type Lane struct {
	S *State
	P []byte
}

// AbsorbLanes writes each lane's P to its S. There may be any number of lanes,
// of any lengths, but no two of the same State. It takes them in any order, and
// does not change batch itself.
//
// As many advance together as the machine can (see LaneWidth). A lane that runs
// dry makes room for the next one that waits.
func AbsorbLanes(batch []Lane) {
	width := LaneWidth()
	if width == 1 || len(batch) < minLanes() {
		for i := range batch {
			batch[i].S.Write(batch[i].P)
		}
		return
	}

	var room groupRoom
	g := group{a: room.aligned()}
	var live [Lanes]running // one for each column of g that is in use
	n, placed := 0, 0       // how many live, and how many of them g holds
	for {
		for n < width && len(batch) > 0 {
			l := &batch[0]
			batch = batch[1:]
			blocks, tail, due := l.S.begin(l.P)
			if !due {
				continue
			}
			live[n] = running{l.S, blocks, tail}
			n++
		}
		if n < minLanes() {
			break
		}
		if placed == 0 {
			var from [Lanes]*[lanes]uint64
			for i := range n {
				from[i] = &live[i].s.a
			}
			g.fill(&from, n)
		} else {
			for i := placed; i < n; i++ {
				g.set(i, &live[i].s.a)
			}
		}

		// A permutation is due in all columns. It is followed by as many blocks
		// as all of them have.
		shortest := maxBlocks * Rate
		for i := range n {
			shortest = min(shortest, len(live[i].blocks))
			g.point(i, live[i].blocks)
		}
		for i := n; i < width; i++ {
			g.p[i] = g.p[0] // an idle column must read something, too
		}
		g.advance(n, shortest/Rate)

		for i := 0; i < n; {
			l := &live[i]
			if len(l.blocks) > shortest {
				g.xorBlock(i, (*[Rate]byte)(l.blocks[shortest:]))
				l.blocks = l.blocks[shortest+Rate:]
				i++
				continue
			}
			g.get(i, &l.s.a)
			l.s.end(l.tail)
			// The last column moves into the gap, for columns in use to be the
			// first ones.
			n--
			if i < n {
				g.move(i, n)
				live[i] = live[n]
			}
			live[n] = running{}
		}
		placed = n
	}
	// Too few to run side by side.
	for i := range n {
		l := &live[i]
		if i < placed {
			g.get(i, &l.s.a)
		}
		permuteAbsorb(&l.s.a, l.blocks)
		l.s.end(l.tail)
	}
}

// running is a lane that has a column of the group.
type running struct {
	s      *State
	blocks []byte // full blocks that follow the permutation that is due
	tail   []byte
}

// SumLanes stores the digest of each state in the out of the same index, and
// leaves the states as they were. A state may occur more than once.
func SumLanes(states []*State, outs []*[Size]byte) {
	outs = outs[:len(states)]
	width := LaneWidth()
	for len(states) > 0 {
		n := min(width, len(states))
		switch n {
		case 1:
			states[0].Sum(outs[0])
		case 2:
			Sum2(states[0], states[1], outs[0], outs[1])
		default:
			sumGroup(states[:n], outs[:n])
		}
		states, outs = states[n:], outs[n:]
	}
}

// sumGroup is SumLanes for at most LaneWidth states.
func sumGroup(states []*State, outs []*[Size]byte) {
	var room groupRoom
	g := group{a: room.aligned()}
	var from [Lanes]*[lanes]uint64
	for i, s := range states {
		from[i] = &s.a
	}
	g.fill(&from, len(states))
	for i, s := range states {
		g.a[s.n/laneSize][i] ^= padFirst << (8 * (s.n % laneSize))
		g.a[rateLanes-1][i] ^= padLast
	}
	g.advance(len(states), 0)
	for i, out := range outs {
		g.digest(i, out)
	}
}

// A group is up to eight states side by side, in the form that the kernels load:
// lane i of all states in row i, one state in each column.
type group struct {
	a *[lanes][Lanes]uint64
	p [Lanes]*byte // where the blocks of each column are
}

// cacheLine is the size of a line of the processor's caches.
const cacheLine = 64

// groupRoom is room for states of a group that begin with a cache line. Where rows reach into two
// lines, as at three of eight places, the AVX2 kernel takes 6 % longer. A stack that moves, moves
// by whole lines.
type groupRoom [lanes*Lanes + cacheLine/laneSize - 1]uint64

func (r *groupRoom) aligned() *[lanes][Lanes]uint64 {
	p := unsafe.Pointer(r)
	return (*[lanes][Lanes]uint64)(unsafe.Add(p, -uintptr(p)%cacheLine))
}

// fill sets the first n columns, and a few more that are idle. Row by row is half
// the work of column by column.
func (g *group) fill(from *[Lanes]*[lanes]uint64, n int) {
	for i := n; i < Lanes; i++ {
		from[i] = from[0]
	}
	s0, s1, s2, s3 := from[0], from[1], from[2], from[3]
	s4, s5, s6, s7 := from[4], from[5], from[6], from[7]
	if n <= 4 {
		for i := range g.a {
			row := &g.a[i]
			row[0], row[1], row[2], row[3] = s0[i], s1[i], s2[i], s3[i]
		}
		return
	}
	for i := range g.a {
		row := &g.a[i]
		row[0], row[1], row[2], row[3] = s0[i], s1[i], s2[i], s3[i]
		row[4], row[5], row[6], row[7] = s4[i], s5[i], s6[i], s7[i]
	}
}

func (g *group) set(column int, a *[lanes]uint64) {
	column %= Lanes
	for i, w := range a {
		g.a[i][column] = w
	}
}

func (g *group) get(column int, a *[lanes]uint64) {
	column %= Lanes
	for i := range a {
		a[i] = g.a[i][column]
	}
}

// digest stores the digest of a column that was padded and permuted.
func (g *group) digest(column int, out *[Size]byte) {
	column %= Lanes
	for l := range Size / laneSize {
		binary.LittleEndian.PutUint64(out[l*laneSize:], g.a[l][column])
	}
}

func (g *group) move(to, from int) {
	to, from = to%Lanes, from%Lanes
	for i := range g.a {
		g.a[i][to] = g.a[i][from]
	}
}

func (g *group) xorBlock(column int, block *[Rate]byte) {
	column %= Lanes
	for i := range rateLanes {
		g.a[i][column] ^= binary.LittleEndian.Uint64(block[i*laneSize:])
	}
}
