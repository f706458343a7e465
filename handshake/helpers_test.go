package handshake

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/hmac"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/crypto/ecies"
	"github.com/ethereum/go-ethereum/rlp"
)

type testKey struct{ *ecdsa.PrivateKey }

func newTestKey(tb testing.TB) testKey {
	tb.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		tb.Fatal(err)
	}
	return testKey{key}
}

// pub is the public key as messages carry it.
func (k testKey) pub() []byte { return crypto.FromECDSAPub(&k.PublicKey)[1:] }

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// seeded is a source of randomness that replays.
func seeded(n byte) io.Reader { return rand.NewChaCha8([32]byte{n}) }

func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

func newInitiatorFor(tb testing.TB, key, remote testKey) *Initiator {
	tb.Helper()
	return must(NewInitiator(key.PrivateKey, &remote.PublicKey, nil))(tb)
}

func newResponderFor(tb testing.TB, key testKey) *Responder {
	tb.Helper()
	return must(NewResponder(key.PrivateKey, nil))(tb)
}

// seal encrypts a plaintext with go-ethereum's ECIES, the independent implementation of these
// tests.
func seal(tb testing.TB, to testKey, plaintext []byte) []byte {
	tb.Helper()
	prefix := binary.BigEndian.AppendUint16(nil, uint16(len(plaintext)+eciesOverhead))
	if len(plaintext) == 0 {
		return sealShort(tb, to, eciesOverhead) // theirs refuses to encrypt nothing
	}
	c := must(ecies.Encrypt(crand.Reader, ecies.ImportECDSAPublic(&to.PublicKey), plaintext, nil, prefix))(tb)
	return append(prefix, c...)
}

// unseal is its opposite.
func unseal(tb testing.TB, key testKey, packet []byte) []byte {
	tb.Helper()
	return must(ecies.ImportECDSA(key.PrivateKey).Decrypt(packet[2:], nil, packet[:2]))(tb)
}

// sealShort makes a packet of size bytes after its prefix whose R is valid and whose tag, where
// there is room for it, is right for the body between them, however short that is. It spells ECIES
// out, so as not to depend on the code under test.
func sealShort(tb testing.TB, to testKey, size int) []byte {
	tb.Helper()
	r := newTestKey(tb)
	x, _ := crypto.S256().ScalarMult(to.X, to.Y, r.D.Bytes())
	z := make([]byte, 32)
	x.FillBytes(z)
	k := sha256.Sum256(append([]byte{0, 0, 0, 1}, z...))
	macKey := sha256.Sum256(k[16:])
	prefix := binary.BigEndian.AppendUint16(nil, uint16(size))
	body := make([]byte, max(0, size-65-32))
	crand.Read(body)
	mac := hmac.New(sha256.New, macKey[:])
	mac.Write(body)
	mac.Write(prefix)
	packet := append(append(append(append([]byte(nil), prefix...), 4), r.pub()...), body...)
	return mac.Sum(packet)[:2+size]
}

// authFields and ackFields are the elements of a valid message; a test replaces some.
func authFields(tb testing.TB, from, to testKey) []any {
	tb.Helper()
	nonce := bytes.Repeat([]byte{7}, 32)
	token, _ := crypto.S256().ScalarMult(to.X, to.Y, from.D.Bytes())
	digest := make([]byte, 32)
	token.FillBytes(digest)
	for i := range digest {
		digest[i] ^= nonce[i]
	}
	sig := must(crypto.Sign(digest, newTestKey(tb).PrivateKey))(tb)
	return []any{sig, from.pub(), nonce, uint(4)}
}

func ackFields(tb testing.TB) []any {
	return []any{newTestKey(tb).pub(), bytes.Repeat([]byte{9}, 32), uint(4)}
}

func encode(tb testing.TB, fields []any) []byte {
	tb.Helper()
	return must(rlp.EncodeToBytes(fields))(tb)
}

// script is a connection whose remote says what it holds and then closes, and which records what is
// written.
type script struct {
	in    *bytes.Reader
	out   bytes.Buffer
	calls int // of Write
}

func newScript(in []byte) *script { return &script{in: bytes.NewReader(in)} }

func (s *script) Read(b []byte) (int, error) { return s.in.Read(b) }
func (s *script) Write(b []byte) (int, error) {
	s.calls++
	return s.out.Write(b)
}

// countMults counts multiplications of points that came from outside while the test runs.
func countMults(t *testing.T) *int {
	n := new(int)
	testHookMult = func() error { *n++; return nil }
	t.Cleanup(func() { testHookMult = nil })
	return n
}

func bigOf(b []byte) *big.Int { return new(big.Int).SetBytes(b) }
