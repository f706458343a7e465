package handshake

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
)

// complete runs a handshake between two states and checks that both ends agree.
func complete(tb testing.TB, i *Initiator, r *Responder) (si, sr Secrets) {
	tb.Helper()
	auth := must(i.WriteAuth(nil))(tb)
	if _, err := r.ReadAuth(auth); err != nil {
		tb.Fatal(err)
	}
	ack, sr, err := r.WriteAck(nil)
	if err != nil {
		tb.Fatal(err)
	}
	si = must(i.ReadAck(ack))(tb)
	checkAgree(tb, si, sr)
	return si, sr
}

func checkAgree(tb testing.TB, i, r Secrets) {
	tb.Helper()
	if len(i.AES) != 32 || len(i.MAC) != 32 || !bytes.Equal(i.AES, r.AES) || !bytes.Equal(i.MAC, r.MAC) {
		tb.Error("secrets differ")
	}
	if bytes.Equal(i.AES, i.MAC) || bytes.Equal(i.AES, make([]byte, 32)) {
		tb.Error("secrets are degenerate")
	}
	if !bytes.Equal(i.EgressMAC.Sum(nil), r.IngressMAC.Sum(nil)) ||
		!bytes.Equal(i.IngressMAC.Sum(nil), r.EgressMAC.Sum(nil)) {
		tb.Error("MAC states do not meet")
	}
	if i.InitiatorNonce != r.InitiatorNonce || i.RecipientNonce != r.RecipientNonce || i.EphemeralX != r.EphemeralX {
		tb.Error("nonces or session id differ")
	}
}

func TestHandshake(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	i, r := newInitiatorFor(t, a, b), newResponderFor(t, b)
	si, sr := complete(t, i, r)
	// As go-ethereum's callers compare them.
	if !reflect.DeepEqual(si.Remote, &b.PublicKey) || !reflect.DeepEqual(sr.Remote, &a.PublicKey) {
		t.Error("remote keys are not the peers' keys")
	}
	for name, p := range map[string]*party{"initiator": &i.party, "responder": &r.party} {
		if p.static != (scalar{}) || p.ephemeral != (scalar{}) || p.oneTime != (scalar{}) ||
			p.digest != [32]byte{} || p.derivation != (derivation{}) {
			t.Errorf("%s keeps secrets", name)
		}
	}
}

func TestAppendAndOwnership(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	i, r := newInitiatorFor(t, a, b), newResponderFor(t, b)
	dst := append(make([]byte, 0, 4096), "head"...)
	copy(dst[:cap(dst)], bytes.Repeat([]byte{0xee}, cap(dst)))
	copy(dst, "head")
	out := must(i.WriteAuth(dst))(t)
	if &out[0] != &dst[:1][0] || string(out[:4]) != "head" {
		t.Fatal("auth is not appended")
	}
	auth := bytes.Clone(out[4:])
	clear(out) // it is the caller's
	given := bytes.Clone(auth)
	if _, err := r.ReadAuth(given); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(given, auth) {
		t.Error("ReadAuth modified the packet")
	}
	clear(given)
	out, sr, err := r.WriteAck([]byte("head"))
	if err != nil || string(out[:4]) != "head" {
		t.Fatal(err, "ack is not appended")
	}
	ack := bytes.Clone(out[4:])
	si := must(i.ReadAck(out[4:]))(t)
	if !bytes.Equal(out[4:], ack) {
		t.Error("ReadAck modified the packet")
	}
	checkAgree(t, si, sr)
}

func TestOrder(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	panics := func(name string, f func()) {
		t.Helper()
		defer func() {
			if v := recover(); v == nil || !strings.HasPrefix(fmt.Sprint(v), "handshake: ") {
				t.Errorf("%s: panic %v", name, v)
			}
		}()
		f()
	}
	i, r := newInitiatorFor(t, a, b), newResponderFor(t, b)
	panics("ReadAck first", func() { i.ReadAck(nil) })
	panics("WriteAck first", func() { r.WriteAck(nil) })
	auth := must(i.WriteAuth(nil))(t)
	panics("WriteAuth twice", func() { i.WriteAuth(nil) })
	must(r.ReadAuth(auth))(t)
	panics("ReadAuth twice", func() { r.ReadAuth(auth) })
	ack, _, err := r.WriteAck(nil)
	if err != nil {
		t.Fatal(err)
	}
	panics("WriteAck twice", func() { r.WriteAck(nil) })
	must(i.ReadAck(ack))(t)
	panics("ReadAck twice", func() { i.ReadAck(ack) })
}

// offCurve returns points that must never be multiplied.
func offCurve(valid []byte) map[string][]byte {
	flipped := bytes.Clone(valid)
	flipped[63] ^= 1
	p := crypto.S256().Params().P
	alias := make([]byte, 64) // x = p + 1, y as for x = 1: congruent to a point, but not canonical
	y := new(big.Int).ModSqrt(big.NewInt(8), p)
	new(big.Int).Add(p, big.NewInt(1)).FillBytes(alias[:32])
	y.FillBytes(alias[32:])
	return map[string][]byte{
		"zero":         make([]byte, 64),
		"ones":         bytes.Repeat([]byte{1}, 64),
		"(1, 1)":       append(append(make([]byte, 31), 1), append(make([]byte, 31), 1)...),
		"Y flipped":    flipped,
		"not < p":      bytes.Repeat([]byte{0xff}, 64),
		"x = p + 1":    alias,
		"x = p":        append(p.FillBytes(make([]byte, 32)), valid[32:]...),
		"halves alike": append(bytes.Clone(valid[:32]), valid[:32]...),
	}
}

// reader is either role about to read its packet, for what concerns both alike.
type reader struct {
	name  string
	key   testKey                                                // the packet is encrypted to it
	start func(testing.TB) func(packet []byte) error             // makes a new state and returns its read step
	drive func(tb testing.TB, rw io.ReadWriter) (Secrets, error) // the same by the driver
	valid []byte                                                 // a plaintext that is accepted
}

func readers(tb testing.TB) []reader {
	tb.Helper()
	return readersFor(tb, newTestKey(tb), newTestKey(tb))
}

// readersFor returns the recipient b of an auth by a, and the initiator a of an ack by b.
func readersFor(tb testing.TB, a, b testKey) []reader {
	tb.Helper()
	return []reader{{
		name: "auth",
		key:  b,
		start: func(tb testing.TB) func([]byte) error {
			h := newResponderFor(tb, b)
			return func(p []byte) error {
				remote, err := h.ReadAuth(p)
				if err != nil && (remote != nil || h.auth != nil) {
					tb.Error("an error and a result")
				}
				return err
			}
		},
		drive: func(tb testing.TB, rw io.ReadWriter) (Secrets, error) {
			return Respond(tb.Context(), rw, b.PrivateKey, nil, nil)
		},
		valid: encode(tb, authFields(tb, a, b)),
	}, {
		name: "ack",
		key:  a,
		start: func(tb testing.TB) func([]byte) error {
			h := newInitiatorFor(tb, a, b)
			must(h.WriteAuth(nil))(tb)
			return func(p []byte) error {
				s, err := h.ReadAck(p)
				if err != nil && !reflect.DeepEqual(s, Secrets{}) {
					tb.Error("an error and a result")
				}
				return err
			}
		},
		drive: func(tb testing.TB, rw io.ReadWriter) (Secrets, error) {
			return Initiate(tb.Context(), rw, a.PrivateKey, &b.PublicKey, nil)
		},
		valid: encode(tb, ackFields(tb)),
	}}
}

func TestConstructors(t *testing.T) {
	good := newTestKey(t)
	p256 := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	n := crypto.S256().Params().N
	with := func(d *big.Int, pub ecdsa.PublicKey) *ecdsa.PrivateKey {
		return &ecdsa.PrivateKey{PublicKey: pub, D: d}
	}
	at := func(x, y *big.Int) ecdsa.PublicKey { return ecdsa.PublicKey{Curve: crypto.S256(), X: x, Y: y} }
	for name, key := range map[string]*ecdsa.PrivateKey{
		"nil":             nil,
		"empty":           {},
		"zero":            with(new(big.Int), good.PublicKey),
		"negative":        with(big.NewInt(-1), good.PublicKey),
		"group order":     with(n, good.PublicKey),
		"too long":        with(new(big.Int).Lsh(n, 8), good.PublicKey),
		"no public key":   with(good.D, ecdsa.PublicKey{}),
		"no curve":        with(good.D, ecdsa.PublicKey{X: good.X, Y: good.Y}),
		"P-256":           p256,
		"off-curve":       with(good.D, at(big.NewInt(1), big.NewInt(1))),
		"public infinity": with(good.D, at(new(big.Int), new(big.Int))),
	} {
		if h, err := NewInitiator(key, &good.PublicKey, nil); h != nil || !errors.Is(err, ErrInvalidPrivateKey) {
			t.Errorf("NewInitiator, key %s: %v", name, err)
		}
		if h, err := NewResponder(key, nil); h != nil || !errors.Is(err, ErrInvalidPrivateKey) {
			t.Errorf("NewResponder, key %s: %v", name, err)
		}
		if err := CheckKey(key); !errors.Is(err, ErrInvalidPrivateKey) {
			t.Errorf("CheckKey, key %s: %v", name, err)
		}
	}
	x, y := new(big.Int).Add(good.X, crypto.S256().Params().P), new(big.Int).Neg(good.Y)
	for name, pub := range map[string]ecdsa.PublicKey{
		"empty": {}, "P-256": p256.PublicKey, "off-curve": at(big.NewInt(1), big.NewInt(1)), "no Y": at(good.X, nil),
		"X + p": at(x, good.Y), "-Y": at(good.X, y), "infinity": at(new(big.Int), new(big.Int)),
		"long": at(new(big.Int).Lsh(x, 300), good.Y),
	} {
		if h, err := NewInitiator(good.PrivateKey, &pub, nil); h != nil || !errors.Is(err, ErrInvalidPublicKey) {
			t.Errorf("remote %s: %v", name, err)
		}
		if err := CheckPublicKey(&pub); !errors.Is(err, ErrInvalidPublicKey) {
			t.Errorf("CheckPublicKey, remote %s: %v", name, err)
		}
	}
	if _, err := NewInitiator(good.PrivateKey, nil, nil); !errors.Is(err, ErrInvalidPublicKey) {
		t.Errorf("remote nil: %v", err)
	}
	if err := CheckPublicKey(nil); !errors.Is(err, ErrInvalidPublicKey) {
		t.Errorf("CheckPublicKey, remote nil: %v", err)
	}
	if err := errors.Join(CheckKey(good.PrivateKey), CheckPublicKey(&good.PublicKey)); err != nil {
		t.Errorf("a good key: %v", err)
	}
}

// TestSetKeysLeavesNothing: a private key that is refused for its public half is not kept.
func TestSetKeysLeavesNothing(t *testing.T) {
	key := newTestKey(t).PrivateKey
	var static scalar
	var public point
	if err := setKeys(&static, &public, key); err != nil || static == (scalar{}) || public == (point{}) {
		t.Errorf("a good key: %v", err)
	}
	static, public = scalar{}, point{}
	bad := *key
	bad.PublicKey = ecdsa.PublicKey{}
	if err := setKeys(&static, &public, &bad); err == nil || static != (scalar{}) || public != (point{}) {
		t.Errorf("keys are kept in spite of %v", err)
	}
}

// foreignCurve is another implementation's type for the same curve.
type foreignCurve struct{ elliptic.Curve }

// TestForeignCurve: keys of another implementation of secp256k1 work, and what is returned has
// their curve.
func TestForeignCurve(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	ours := *a.PrivateKey
	ours.Curve = foreignCurve{crypto.S256()}
	theirs := b.PublicKey
	theirs.Curve = foreignCurve{crypto.S256()}
	i := must(NewInitiator(&ours, &theirs, nil))(t)
	s, _ := complete(t, i, newResponderFor(t, b))
	if s.Remote.Curve != ours.Curve {
		t.Errorf("remote key is on %T", s.Remote.Curve)
	}
}

// TestBrokenRand: a source of randomness that fails, or never yields a scalar, is an error at each
// place, and leaves a state that works once the source does.
func TestBrokenRand(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	working := make([]byte, 32+32+2+32+16)
	must(io.ReadFull(seeded(3), working))(t)
	broken := errors.New("broken")
	sources := map[string]func() io.Reader{
		"zeros": func() io.Reader { return zeros{} },
		// A nonce, a good scalar, then 0xffff for ever: no padding length.
		"no padding": func() io.Reader {
			return io.MultiReader(bytes.NewReader(working[:64]), bytes.NewReader(bytes.Repeat([]byte{0xff}, 1000)))
		},
	}
	for _, n := range []int{0, 31, 32, 63, 64, 65, 66, 97, 98, 113} {
		sources[fmt.Sprint(n, " bytes")] = func() io.Reader {
			return io.MultiReader(bytes.NewReader(working[:n]), iotest.ErrReader(broken))
		}
	}
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			i := must(NewInitiator(a.PrivateKey, &b.PublicKey, source()))(t)
			dst := make([]byte, 0, 4096)
			check := func(out []byte, err error) {
				t.Helper()
				var e *Error
				if out != nil || !errors.As(err, &e) || (!errors.Is(err, broken) && !errors.Is(err, errBadRand)) {
					t.Fatalf("%d bytes, error %v", len(out), err)
				}
				if !bytes.Equal(dst[:cap(dst)], make([]byte, cap(dst))) {
					t.Error("plaintext is left behind")
				}
			}
			check(i.WriteAuth(dst))
			if i.ephemeral != (scalar{}) || i.oneTime != (scalar{}) {
				t.Error("keys are left behind")
			}
			i.rand = rand.Reader
			auth := must(i.WriteAuth(nil))(t)

			r := must(NewResponder(b.PrivateKey, source()))(t)
			must(r.ReadAuth(auth))(t)
			out, _, err := r.WriteAck(dst)
			check(out, err)
			r.rand = rand.Reader
			ack, sr, err := r.WriteAck(nil)
			if err != nil {
				t.Fatal(err)
			}
			checkAgree(t, must(i.ReadAck(ack))(t), sr)
		})
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// TestMessageEncoding holds the messages that are written in place against package rlp.
func TestMessageEncoding(t *testing.T) {
	sig, pub, nonce := bytes.Repeat([]byte{1}, 65), bytes.Repeat([]byte{2}, 64), make([]byte, 32)
	auth := authMessage{sig, pub, nonce}
	got := auth.append(nil)
	want := must(rlp.EncodeToBytes([]any{sig, pub, nonce, uint(4)}))(t)
	if !bytes.Equal(got, want) || len(got) != authSize {
		t.Errorf("auth %x\nwant %x", got, want)
	}
	ack := ackMessage{pub, nonce}
	got = ack.append(nil)
	want = must(rlp.EncodeToBytes([]any{pub, nonce, uint(4)}))(t)
	if !bytes.Equal(got, want) || len(got) != ackSize {
		t.Errorf("ack %x\nwant %x", got, want)
	}
}
