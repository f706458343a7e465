package handshake

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/bits"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"
)

const (
	coordinateSize = 32
	pointSize      = 2 * coordinateSize // X ‖ Y, as public keys travel in messages
	scalarSize     = 32

	// A reader that works is refused once in 2^128 scalars; one that yields no scalar in so many
	// tries never will (all zeros, say), and asking it for ever would hang.
	maxDraws = 64
)

// Parameters of secp256k1 as numbers: y² = x³ + 7 over the integers modulo fieldPrime, groupOrder
// points.
var (
	fieldPrime = uint256.MustFromBig(crypto.S256().Params().P)
	groupOrder = uint256.MustFromBig(crypto.S256().Params().N)
	curveB     = uint256.MustFromBig(crypto.S256().Params().B)
)

// point is a public key that was checked: canonical coordinates, on the curve. Only set, setKey and
// baseMult fill one, and everything that multiplies takes a point, so that nothing multiplies an
// unchecked one.
type point [pointSize]byte

// scalar is a private key, big-endian, in [1, groupOrder).
type scalar [scalarSize]byte

// set checks the 64 bytes X ‖ Y and takes them over. On error p is unchanged.
func (p *point) set(b []byte) error {
	if len(b) != pointSize {
		return ErrInvalidPublicKey
	}
	var x, y, lhs, rhs uint256.Int
	x.SetBytes32(b[:coordinateSize])
	y.SetBytes32(b[coordinateSize:])
	if !x.Lt(fieldPrime) || !y.Lt(fieldPrime) {
		return ErrInvalidPublicKey
	}
	lhs.MulMod(&y, &y, fieldPrime)
	rhs.MulMod(&x, &x, fieldPrime)
	rhs.MulMod(&rhs, &x, fieldPrime)
	rhs.AddMod(&rhs, curveB, fieldPrime)
	if !lhs.Eq(&rhs) {
		return ErrInvalidPublicKey
	}
	copy(p[:], b)
	return nil
}

// setKey is set for a key of the caller's.
func (p *point) setKey(key *ecdsa.PublicKey) error {
	switch {
	case key == nil || key.X == nil || key.Y == nil:
		return ErrInvalidPublicKey
	case !isSecp256k1(key.Curve):
		return fmt.Errorf("%w: not on secp256k1", ErrInvalidPublicKey)
	case key.X.Sign() < 0 || key.Y.Sign() < 0 || key.X.BitLen() > 8*coordinateSize || key.Y.BitLen() > 8*coordinateSize:
		return ErrInvalidPublicKey
	}
	var b [pointSize]byte
	key.X.FillBytes(b[:coordinateSize])
	key.Y.FillBytes(b[coordinateSize:])
	return p.set(b[:])
}

// isSecp256k1 accepts any implementation of the curve: keys come from go-ethereum, btcec or decred
// alike.
func isSecp256k1(curve elliptic.Curve) bool {
	ours := elliptic.Curve(crypto.S256())
	if curve == nil || curve == ours {
		return curve != nil
	}
	a, b := curve.Params(), ours.Params()
	return a != nil && a.BitSize == b.BitSize && a.P.Cmp(b.P) == 0 && a.N.Cmp(b.N) == 0 &&
		a.Gx.Cmp(b.Gx) == 0 && a.Gy.Cmp(b.Gy) == 0
}

// isScalar reports whether b, 32 bytes, is in [1, groupOrder). How long it takes depends on nothing
// but the answer.
func isScalar(b []byte) bool {
	var v uint256.Int
	v.SetBytes32(b)
	ok := !v.IsZero() && v.Lt(groupOrder)
	v.Clear()
	return ok
}

// setKey takes over the private key of the caller's.
func (k *scalar) setKey(key *ecdsa.PrivateKey) error {
	if key == nil || key.D == nil || key.D.Sign() <= 0 || key.D.BitLen() > 8*scalarSize {
		return ErrInvalidPrivateKey
	}
	key.D.FillBytes(k[:])
	if !isScalar(k[:]) {
		clear(k[:])
		return ErrInvalidPrivateKey
	}
	return nil
}

// draw fills k from rand. It is not ecdsa.GenerateKey, which consumes an unpredictable number of
// bytes.
func (k *scalar) draw(rand io.Reader) error {
	for range maxDraws {
		if _, err := io.ReadFull(rand, k[:]); err != nil {
			clear(k[:])
			return fmt.Errorf("rlpx: reading randomness: %w", err)
		}
		if isScalar(k[:]) {
			return nil
		}
	}
	clear(k[:])
	return errBadRand
}

var errBadRand = errors.New("rlpx: the source of randomness is broken")

// coordinates holds a point as the big.Ints that go-ethereum's curve takes, over memory of its own:
// filling it does not allocate.
type coordinates struct {
	x, y  big.Int
	words [2][8 * coordinateSize / bits.UintSize]big.Word
}

func (c *coordinates) set(p *point) {
	// SetBytes reuses the capacity that SetBits lends it.
	c.x.SetBits(c.words[0][:0]).SetBytes(p[:coordinateSize])
	c.y.SetBits(c.words[1][:0]).SetBytes(p[coordinateSize:])
}

// testHookMult, when a test sets it, is called before every multiplication of a point that came
// from outside, which fails if it returns an error.
var testHookMult func() error

// mult stores the X coordinate of k·p in z: the ECDH shared secret. c is scratch.
func (c *coordinates) mult(z *[coordinateSize]byte, p *point, k *scalar) error {
	if testHookMult != nil {
		if err := testHookMult(); err != nil {
			return err
		}
	}
	c.set(p)
	x, y := crypto.S256().ScalarMult(&c.x, &c.y, k[:])
	// The group has prime order, so k·p is no point at infinity; the check keeps a curve's failure
	// from becoming a key.
	if x == nil || (x.Sign() == 0 && y.Sign() == 0) {
		return ErrInvalidPublicKey
	}
	x.FillBytes(z[:])
	clear(x.Bits())
	clear(y.Bits())
	return nil
}

// baseMult makes p the public key of k.
func (p *point) baseMult(k *scalar) error {
	x, y := crypto.S256().ScalarBaseMult(k[:])
	if x == nil {
		return ErrInvalidPrivateKey
	}
	x.FillBytes(p[:coordinateSize])
	y.FillBytes(p[coordinateSize:])
	return nil
}

// publicKey returns p as a key of its own on the given curve.
func (p *point) publicKey(curve elliptic.Curve) *ecdsa.PublicKey {
	key := new(struct { // one allocation for all of it
		ecdsa.PublicKey
		coordinates
	})
	key.coordinates.set(p)
	key.PublicKey = ecdsa.PublicKey{Curve: curve, X: &key.x, Y: &key.y}
	return &key.PublicKey
}

// sign returns the recoverable signature of digest by k. c is scratch.
func (c *coordinates) sign(k *scalar, digest []byte) ([]byte, error) {
	c.x.SetBits(c.words[0][:0]).SetBytes(k[:])
	defer clear(c.words[0][:])
	return crypto.Sign(digest, &ecdsa.PrivateKey{PublicKey: ecdsa.PublicKey{Curve: crypto.S256()}, D: &c.x})
}

// recoverKey sets p to the key whose signature of digest is sig, 65 bytes r ‖ s ‖ recovery id.
func (p *point) recoverKey(digest, sig []byte) error {
	if !validSignature(sig) {
		return ErrSignature
	}
	key, err := crypto.Ecrecover(digest, sig)
	if err != nil || len(key) != 1+pointSize || p.set(key[1:]) != nil {
		return ErrSignature
	}
	return nil
}

// validSignature checks the ranges that need no curve arithmetic. A high s is as good as a low one
// here: what malleability would change is only which ephemeral key is recovered.
func validSignature(sig []byte) bool {
	return len(sig) == signatureSize && isScalar(sig[:32]) && isScalar(sig[32:64]) && sig[64] <= 3
}
