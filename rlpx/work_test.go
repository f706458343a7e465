package rlpx

import (
	"crypto/sha256"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/go-rlpx/transport/internal/keccak"
	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// permutations counts, byte by byte, what the MAC of a direction must cost at least: package mac's
// tests have the same and hold it against a hash.
type permutations struct {
	position int // in the block of 136 bytes
	runs     uint64
}

func (p *permutations) absorb(n int) {
	for range n {
		if p.position++; p.position == 136 {
			p.position = 0
			p.runs++
		}
	}
}

// frame is one frame with so many bytes of frame data.
func (p *permutations) frame(size int) {
	p.absorb(16) // the header's seed
	p.absorb(padded(size))
	p.absorb(16) // the frame's seed
	p.runs += 3  // digests
}

func TestStatsCountPermutations(t *testing.T) {
	for seed := range 136 {
		// A handshake leaves states in which whole packets were absorbed, of any length.
		egress, ingress := make([]byte, 32+seed), make([]byte, 300+3*seed)
		secret := make([]byte, 32)
		a := rlpxtest.Secrets{AES: secret, MAC: secret, EgressMAC: rlpxtest.Keccak(egress), IngressMAC: rlpxtest.Keccak(ingress)}
		b := rlpxtest.Secrets{AES: secret, MAC: secret, EgressMAC: rlpxtest.Keccak(ingress), IngressMAC: rlpxtest.Keccak(egress)}
		l := new(loop)
		w, r := initConn(l, nil, a), initConn(l, nil, b)
		want := permutations{position: len(egress) % 136}
		check := func(what string, written, read uint64) {
			t.Helper()
			ws, rs := w.ConnectionState().Stats, r.ConnectionState().Stats
			if ws.PermutationsWritten != written || rs.PermutationsRead != read || ws.PermutationsRead != 0 || rs.PermutationsWritten != 0 {
				t.Fatalf("seed %d, %s: written %d, want %d; read %d, want %d", seed, what, ws.PermutationsWritten, written, rs.PermutationsRead, read)
			}
		}
		check("at first", 0, 0)
		sizes := []int{0, 1, 15, 88, 89, 135, 136, 137, 1000, 5000}
		if seed == 7 {
			sizes = append(sizes, 100<<10, wholeFrame+1)
		}
		for _, size := range sizes {
			before := want.runs
			data := make([]byte, size)
			if _, err := w.Write(1, data); err != nil {
				t.Fatal(err)
			}
			want.frame(1 + size)
			check("written", want.runs, before)
			wantRead(t, r, 1, data)
			check("read", want.runs, want.runs)

			before = want.runs
			if _, err := w.WriteBatch([]Message{{Code: 1, Data: data}, {Code: 1}}); err != nil {
				t.Fatal(err)
			}
			want.frame(1 + size)
			want.frame(1)
			check("batch written", want.runs, before)
			wantRead(t, r, 1, data)
			wantRead(t, r, 1, nil)
			check("batch read", want.runs, want.runs)

			if errs := Broadcast([]*Conn{w}, 1, data); errs != nil {
				t.Fatal(errs)
			}
			want.frame(1 + size)
			wantRead(t, r, 1, data)
			check("broadcast", want.runs, want.runs)
		}
	}
}

// Of a hash that is not ours nobody knows what it runs.
func TestStatsWithoutPermutations(t *testing.T) {
	secret := make([]byte, 32)
	sec := rlpxtest.Secrets{AES: secret, MAC: secret, EgressMAC: sha256.New(), IngressMAC: sha256.New()}
	c := initConn(rlpxtest.Discard(), nil, sec)
	if _, err := c.Write(1, make([]byte, 10_000)); err != nil {
		t.Fatal(err)
	}
	if s := c.ConnectionState().Stats; s.PermutationsWritten != 0 || s.MessagesWritten != 1 {
		t.Errorf("%+v", s)
	}
}

// What connections hash together is counted for each of them and for the process.
func TestStatsCountSharedLanes(t *testing.T) {
	const peers, messages, size = 16, 30, 16 << 10
	fewest := uint64(min(3, keccak.LaneWidth())) // that the queue hashes together
	for _, shared := range []bool{true, false} {
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) {
			cfg := &Config{SharedHashing: shared}
			before := SharedHashing()
			var pieces uint64
			carry := func() {
				var conns []*Conn
				var wg sync.WaitGroup
				for n := range peers {
					sa, sb := rlpxtest.NewSecrets(uint64(n))
					a, b := net.Pipe()
					from, to := initConn(a, cfg, sa), initConn(b, cfg, sb)
					conns = append(conns, from, to)
					wg.Go(func() {
						defer from.Close()
						for range messages {
							if _, err := from.Write(1, make([]byte, size)); err != nil {
								t.Error(err)
								return
							}
						}
					})
					wg.Go(func() {
						defer to.Close()
						for range messages {
							if _, _, _, err := to.Read(); err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				for _, c := range conns {
					s := c.ConnectionState().Stats
					for _, dir := range [][3]uint64{
						{s.MessagesWritten, s.SharedPiecesWritten, s.SharedLanesWritten},
						{s.MessagesRead, s.SharedPiecesRead, s.SharedLanesRead},
					} {
						if msgs, p, lanes := dir[0], dir[1], dir[2]; p > msgs || lanes < fewest*p || lanes > keccak.Lanes*p {
							t.Errorf("%d messages, %d pieces shared, %d lanes", msgs, p, lanes)
						}
						pieces += dir[1]
					}
				}
			}
			// With lanes to share, connections that are this busy meet sooner or later.
			want := shared && keccak.LaneWidth() > 1
			if carry(); want && !rlpxtest.Eventually(func() bool {
				if pieces == 0 {
					carry()
				}
				return pieces > 0
			}) {
				t.Error("nothing was shared")
			}
			if !want && pieces > 0 {
				t.Errorf("%d pieces were shared", pieces)
			}
			after := SharedHashing()
			if lanes, passes := after.Lanes-before.Lanes, after.Passes-before.Passes; lanes < pieces || lanes > keccak.Lanes*passes {
				t.Errorf("%d pieces of these connections; %d lanes in %d passes", pieces, lanes, passes)
			}
		})
	}
}
