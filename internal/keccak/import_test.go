package keccak

import (
	"crypto/sha256"
	"encoding"
	"errors"
	"hash"
	"testing"

	stdsha3 "crypto/sha3"

	"github.com/ethereum/go-ethereum/crypto"
	"golang.org/x/crypto/sha3"
)

var importable = []struct {
	name string
	make func() hash.Hash
}{
	{"x/crypto", sha3.NewLegacyKeccak256},
	{"go-ethereum", func() hash.Hash { return crypto.NewKeccakState() }},
}

func TestImportEveryLength(t *testing.T) { eachTier(t, testImportEveryLength) }

// testImportEveryLength takes a state over after every length, checks that the
// donor is as it was and that both go on alike.
func testImportEveryLength(t *testing.T) {
	msg := randomBytes(newRand(t), 300)
	more := randomBytes(newRand(t), 2*Rate+7)
	for _, tt := range importable {
		t.Run(tt.name, func(t *testing.T) {
			for n := range len(msg) + 1 {
				h := tt.make()
				h.Write(msg[:n])
				before, err := h.(encoding.BinaryMarshaler).MarshalBinary()
				if err != nil {
					t.Fatal(err)
				}
				s, ok := Import(h)
				if !ok {
					t.Fatalf("refused after %d bytes", n)
				}
				after, err := h.(encoding.BinaryMarshaler).MarshalBinary()
				if err != nil {
					t.Fatal(err)
				}
				if string(before) != string(after) {
					t.Fatalf("Import changed the hash after %d bytes", n)
				}
				if sum(&s) != reference(msg[:n]) {
					t.Fatalf("wrong digest after %d bytes", n)
				}
				s.Write(more)
				if sum(&s) != reference(append(msg[:n:n], more...)) {
					t.Fatalf("wrong digest of what follows %d bytes", n)
				}
				if string(h.Sum(nil)) != string(sliceOf(reference(msg[:n]))) {
					t.Fatalf("the hash follows the state imported after %d bytes", n)
				}
			}
		})
	}
}

func sliceOf(a [Size]byte) []byte { return a[:] }

// fake is a hash with the outward sizes of Keccak-256.
type fake struct {
	marshal func() ([]byte, error)
	sum     func([]byte) []byte
}

func (f fake) Write(p []byte) (int, error)    { return len(p), nil }
func (f fake) Sum(b []byte) []byte            { return f.sum(b) }
func (f fake) Reset()                         {}
func (f fake) Size() int                      { return Size }
func (f fake) BlockSize() int                 { return Rate }
func (f fake) MarshalBinary() ([]byte, error) { return f.marshal() }

// opaque hides all but hash.Hash of what it holds.
type opaque struct{ hash.Hash }

func TestImportRefuses(t *testing.T) {
	zeroSum := func(b []byte) []byte { return append(b, make([]byte, Size)...) }
	form := func(edit func(b []byte) []byte) hash.Hash {
		h := sha3.NewLegacyKeccak256()
		h.Write([]byte("donor"))
		return fake{
			marshal: func() ([]byte, error) {
				b, err := h.(encoding.BinaryMarshaler).MarshalBinary()
				if err != nil {
					return nil, err
				}
				return edit(b), nil
			},
			sum: h.Sum,
		}
	}
	if _, ok := Import(form(func(b []byte) []byte { return b })); !ok {
		t.Fatal("the unedited form is refused, so the cases below prove nothing")
	}
	set := func(i int, v byte) hash.Hash {
		return form(func(b []byte) []byte { b[i] = v; return b })
	}
	read := func(h hash.Hash) hash.Hash {
		h.(interface{ Read([]byte) (int, error) }).Read(make([]byte, 8))
		return h
	}
	var nilFake *fake

	for _, tt := range []struct {
		name string
		h    hash.Hash
	}{
		{"nil", nil},
		{"typed nil", nilFake},
		{"sha256", sha256.New()},
		{"SHA3-256", stdsha3.New256()},
		{"SHA3-256 of x/crypto", sha3.New256()},
		{"legacy Keccak-512", sha3.NewLegacyKeccak512()},
		{"no marshaling", opaque{sha3.NewLegacyKeccak256()}},
		{"squeezing x/crypto", read(sha3.NewLegacyKeccak256())},
		{"squeezing go-ethereum", read(crypto.NewKeccakState())},
		{"marshaling fails", fake{func() ([]byte, error) { return nil, errors.New("no") }, zeroSum}},
		{"marshaling panics", fake{func() ([]byte, error) { panic("no") }, zeroSum}},
		{"empty form", form(func([]byte) []byte { return nil })},
		{"short form", form(func(b []byte) []byte { return b[:len(b)-1] })},
		{"long form", form(func(b []byte) []byte { return append(b, 0) })},
		{"magic of SHA-3", set(3, 0x08)},
		{"another rate", set(offRate, 72)},
		{"full block", set(offPosition, Rate)},
		{"position beyond the rate", set(offPosition, 255)},
		{"wrong position", set(offPosition, 4)},
		{"squeezing", set(offDirection, 1)},
		{"unknown direction", set(offDirection, 7)},
		{"digest of another padding", sha3Disguised(t)},
		{"digest of another length", func() hash.Hash {
			f := form(func(b []byte) []byte { return b }).(fake)
			sum := f.sum
			f.sum = func(b []byte) []byte { return append(sum(b), 0) }
			return f
		}()},
		{"Sum panics", func() hash.Hash {
			f := form(func(b []byte) []byte { return b }).(fake)
			f.sum = func([]byte) []byte { panic("no") }
			return f
		}()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if s, ok := Import(tt.h); ok || s != (State{}) {
				t.Errorf("Import = %v, %v", s, ok)
			}
		})
	}
}

// sha3Disguised is SHA3-256 under the magic of Keccak: all that gives it away
// is its padding.
func sha3Disguised(t *testing.T) hash.Hash {
	h := stdsha3.New256()
	h.Write([]byte("donor"))
	b, err := h.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if len(b) != marshaled {
		t.Fatalf("SHA3-256 marshals to %d bytes, so this test needs another disguise", len(b))
	}
	copy(b, magicKeccak)
	return fake{func() ([]byte, error) { return b, nil }, h.Sum}
}
