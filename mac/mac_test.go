package mac

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"fmt"
	"hash"
	"math/rand/v2"
	"sync"
	"testing"

	gethcrypto "github.com/ethereum/go-ethereum/crypto"
	"golang.org/x/crypto/sha3"
)

// literal follows the specification word by word: five digests, no memory
// beyond the hash itself. It is the oracle for MAC.
type literal struct {
	block cipher.Block
	hash  hash.Hash
}

func (l *literal) digest() []byte { return l.hash.Sum(nil)[:16] }

func (l *literal) aes(in []byte) []byte {
	out := make([]byte, 16)
	l.block.Encrypt(out, in)
	return out
}

func xor(a, b []byte) []byte {
	out := make([]byte, len(a))
	for i := range a {
		out[i] = a[i] ^ b[i]
	}
	return out
}

func (l *literal) header(ct []byte) []byte {
	l.hash.Write(xor(l.aes(l.digest()), ct))
	return l.digest()
}

func (l *literal) frame(ct []byte) []byte {
	l.hash.Write(ct)
	l.hash.Write(xor(l.aes(l.digest()), l.digest()))
	return l.digest()
}

// opaque hides everything but the hash.Hash methods, which forces the portable path.
type opaque struct{ hash.Hash }

func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestAgainstTheLiteralFormulas(t *testing.T) {
	for _, h := range []struct {
		name string
		make func() hash.Hash
		fast bool
	}{
		{"x-crypto", func() hash.Hash { return sha3.NewLegacyKeccak256() }, true},
		{"go-ethereum", func() hash.Hash { return gethcrypto.NewKeccakState() }, true},
		{"portable", func() hash.Hash { return opaque{sha3.NewLegacyKeccak256()} }, false},
		{"sha256", sha256.New, false},
	} {
		for _, keyLen := range []int{16, 24, 32} {
			t.Run(fmt.Sprintf("%s/aes-%d", h.name, 8*keyLen), func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, uint64(keyLen)))
				block, err := aes.NewCipher(random(r, keyLen))
				if err != nil {
					t.Fatal(err)
				}
				// Seeds of every length around the rate, as auth and ack packets have.
				for seedLen := 0; seedLen <= 300; seedLen += 17 {
					seed := random(r, seedLen)
					a, b := h.make(), h.make()
					a.Write(seed)
					b.Write(seed)
					m, want := New(block, a), &literal{block, b}
					if got := m.other == nil; got != h.fast {
						t.Fatalf("fast path taken: %v, want %v", got, h.fast)
					}
					for frame := range 40 {
						header, ct := random(r, 16), random(r, 16*r.IntN(30))
						if got, want := m.Header(header), want.header(header); !bytes.Equal(got[:], want) {
							t.Fatalf("seed of %d bytes, frame %d: header-mac %x, want %x", seedLen, frame, got, want)
						}
						rest := ct
						for frame%2 == 1 && len(rest) > 0 && r.IntN(4) > 0 {
							n := r.IntN(len(rest) + 1)
							m.Absorb(rest[:n])
							rest = rest[n:]
						}
						if got, want := m.Frame(rest), want.frame(ct); !bytes.Equal(got[:], want) {
							t.Fatalf("seed of %d bytes, frame %d of %d bytes: frame-mac %x, want %x", seedLen, frame, len(ct), got, want)
						}
					}
				}
			})
		}
	}
}

// Batch and Both are checked against Header and Frame, which the literal formulas vouch for.
func TestBothAndBatch(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	for count := range 20 {
		macs, oracle := make([]*MAC, count), make([]*MAC, count)
		for i := range macs {
			block, _ := aes.NewCipher(random(r, 32))
			seed := random(r, r.IntN(400))
			state := func() hash.Hash {
				h := sha3.NewLegacyKeccak256()
				h.Write(seed)
				if i%5 == 4 {
					return opaque{h}
				}
				return h
			}
			macs[i], oracle[i] = New(block, state()), New(block, state())
		}
		for round := range 12 {
			frames := make([]Frame, count)
			for i := range frames {
				size := 16 * r.IntN(1+20<<(round/2))
				frames[i] = Frame{MAC: macs[i], Header: random(r, 16), Ciphertext: random(r, size)}
			}
			if round%3 == 2 {
				for i := range frames {
					f := &frames[i]
					f.HeaderMAC, f.Tag = f.MAC.Both(f.Header, f.Ciphertext)
				}
			} else {
				Batch(frames)
			}
			for i := range frames {
				f := &frames[i]
				if want := oracle[i].Header(f.Header); f.HeaderMAC != want {
					t.Fatalf("%d connections, round %d, lane %d: header-mac %x, want %x", count, round, i, f.HeaderMAC, want)
				}
				if want := oracle[i].Frame(f.Ciphertext); f.Tag != want {
					t.Fatalf("%d connections, round %d, lane %d of %d bytes: frame-mac %x, want %x", count, round, i, len(f.Ciphertext), f.Tag, want)
				}
			}
		}
	}
}

// Many goroutines with frames of many lengths share lanes, and the tags stay what they are alone.
func TestSharedLanes(t *testing.T) {
	for _, goroutines := range []int{1, 2, 7, 8, 9, 40} {
		t.Run(fmt.Sprint(goroutines), func(t *testing.T) {
			t.Parallel()
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(6, uint64(g)))
					block, _ := aes.NewCipher(random(r, 32))
					m, oracle := New(block, sha3.NewLegacyKeccak256()), New(block, sha3.NewLegacyKeccak256())
					m.Share(true)
					for range 30 {
						header, ct := random(r, 16), random(r, 16*r.IntN(10<<r.IntN(10)))
						h, f := m.Both(header, ct)
						if want := oracle.Header(header); h != want {
							t.Errorf("header-mac %x, want %x", h, want)
							return
						}
						if want := oracle.Frame(ct); f != want {
							t.Errorf("frame-mac of %d bytes %x, want %x", len(ct), f, want)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

func TestArgumentsAreNotModified(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	block, _ := aes.NewCipher(random(r, 32))
	m := New(block, sha3.NewLegacyKeccak256())
	header, ct := random(r, 16), random(r, 400)
	h2, c2 := bytes.Clone(header), bytes.Clone(ct)
	m.Header(header)
	m.Absorb(ct[:100])
	m.Frame(ct[100:])
	if !bytes.Equal(header, h2) || !bytes.Equal(ct, c2) {
		t.Error("an argument was modified")
	}
}

type wrongBlock struct{ cipher.Block }

func (wrongBlock) BlockSize() int { return 8 }

func TestNewPanicsOnWrongSizes(t *testing.T) {
	block, _ := aes.NewCipher(make([]byte, 32))
	for name, f := range map[string]func(){
		"cipher": func() { New(wrongBlock{block}, sha3.NewLegacyKeccak256()) },
		"digest": func() { New(block, sha3.NewLegacyKeccak512()) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

func TestNoAllocation(t *testing.T) {
	block, _ := aes.NewCipher(make([]byte, 32))
	header, ct := make([]byte, 16), make([]byte, 1024)
	for name, h := range map[string]hash.Hash{
		"fast":     sha3.NewLegacyKeccak256(),
		"portable": opaque{sha3.NewLegacyKeccak256()},
	} {
		m := New(block, h)
		n := testing.AllocsPerRun(100, func() {
			m.Header(header)
			m.Absorb(ct[:512])
			m.Frame(ct[512:])
		})
		// x/crypto's own Sum clones its state, which is not ours to mend.
		if want := map[string]float64{"fast": 0, "portable": 3}[name]; n > want {
			t.Errorf("%s path: %v allocations a frame, want at most %v", name, n, want)
		}
	}
}
