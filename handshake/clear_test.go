package handshake

import (
	"bytes"
	"context"
	"crypto/elliptic"
	"errors"
	"hash"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/internal/rlpxtest/secrecy"
)

// draws records what was read from a source of randomness, which are all the secrets of a handshake
// but the static keys.
type draws struct {
	r    io.Reader
	read [][]byte
}

func (d *draws) Read(b []byte) (int, error) {
	n, err := d.r.Read(b)
	d.read = append(d.read, bytes.Clone(b[:n]))
	return n, err
}

// secretsOf are the secrets of one end, by the names of the specification. Shared ones come from
// the other end's keys.
func (d *draws) secretsOf(t *testing.T, key, remote testKey, remoteEphemeral []byte) map[string][]byte {
	t.Helper()
	if len(d.read) != 5 || len(d.read[0]) != 32 || len(d.read[1]) != 32 || len(d.read[3]) != 32 {
		t.Fatalf("%d draws", len(d.read))
	}
	agree := func(private []byte, public []byte) []byte {
		x, _ := crypto.S256().ScalarMult(bigOf(public[:32]), bigOf(public[32:]), private)
		return x.FillBytes(make([]byte, 32))
	}
	static := key.D.FillBytes(make([]byte, 32))
	return map[string][]byte{
		"static-privkey":          static,
		"nonce":                   d.read[0],
		"ephemeral-privkey":       d.read[1],
		"ECIES ephemeral-privkey": d.read[3],
		"ECIES shared secret":     agree(d.read[3], remote.pub()),
		"static-shared-secret":    agree(static, remote.pub()),
		"ephemeral-key":           agree(d.read[1], remoteEphemeral),
	}
}

func pubOf(t *testing.T, private []byte) []byte {
	return testKey{must(crypto.ToECDSA(private))(t)}.pub()
}

// notOurs are values that a state refers to and that belong to others: the caller's source of
// randomness, and the parameters of curves.
func notOurs(t reflect.Type) bool {
	return t == reflect.TypeFor[*draws]() || t == reflect.TypeFor[elliptic.Curve]()
}

// TestSecretsAreCleared: once a handshake is complete, nothing that its state refers to holds a
// secret of it, and what an attempt leaves behind after its message is made is only what the next
// step needs.
func TestSecretsAreCleared(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	randA, randB := &draws{r: seeded(1)}, &draws{r: seeded(2)}
	i := must(NewInitiator(a.PrivateKey, &b.PublicKey, randA))(t)
	r := must(NewResponder(b.PrivateKey, randB))(t)

	auth := must(i.WriteAuth(nil))(t)
	plaintext := unseal(t, b, auth)
	must(r.ReadAuth(auth))(t)
	ack, sr, err := r.WriteAck(nil)
	if err != nil {
		t.Fatal(err)
	}
	secretsA := randA.secretsOf(t, a, b, pubOf(t, randB.read[1]))
	secretsB := randB.secretsOf(t, b, a, pubOf(t, randA.read[1]))
	digest := bytes.Clone(secretsA["static-shared-secret"])
	for n := range digest {
		digest[n] ^= randA.read[0][n]
	}
	for _, secrets := range []map[string][]byte{secretsA, secretsB} {
		secrets["signed digest"] = digest
		secrets["signature"] = plaintext[4:40]
		secrets["plaintext of auth"] = plaintext[60:100]
		secrets["aes-secret"], secrets["mac-secret"] = sr.AES, sr.MAC
		secrets["initiator-nonce"], secrets["recipient-nonce"] = randA.read[0], randB.read[0]
	}

	// The test looks where it should: the state before its last step has what that needs, and no
	// more.
	needs := []string{"static-privkey", "ephemeral-privkey", "nonce", "initiator-nonce"}
	for _, name := range needs {
		if len(secrecy.Find(i, map[string][]byte{name: secretsA[name]}, notOurs)) == 0 {
			t.Errorf("initiator after WriteAuth: no %s", name)
		}
		delete(secretsA, name)
	}
	// The initiator's public key is in the message and in the state.
	delete(secretsA, "plaintext of auth")
	for _, found := range secrecy.Find(i, secretsA, notOurs) {
		t.Errorf("initiator after WriteAuth: %s", found)
	}
	delete(secretsB, "plaintext of auth")
	for _, found := range secrecy.Find(r, secretsB, notOurs) {
		t.Errorf("recipient: %s", found)
	}

	si := must(i.ReadAck(ack))(t)
	for name, secret := range randA.secretsOf(t, a, b, pubOf(t, randB.read[1])) {
		secretsA[name] = secret
	}
	for name, nonce := range map[string][]byte{"initiator-nonce": randA.read[0], "recipient-nonce": randB.read[0]} {
		secretsA[name] = nonce
	}
	for _, found := range secrecy.Find(i, secretsA, notOurs) {
		t.Errorf("initiator: %s", found)
	}
	checkAgree(t, si, sr)
}

// TestRoomIsCleared: what was decrypted is gone from the buffer that it was decrypted in, whether
// the message was accepted or not.
func TestRoomIsCleared(t *testing.T) {
	for _, rd := range readers(t) {
		for name, plaintext := range map[string][]byte{
			"accepted": rd.valid,
			"refused":  append(bytes.Clone(rd.valid[:len(rd.valid)-40]), bytes.Repeat([]byte{0xff}, 40)...),
			"no list":  bytes.Repeat([]byte{0x77}, 200),
		} {
			packet := seal(t, rd.key, plaintext)
			room := make([]byte, 0, len(plaintext))
			var err error
			if rd.name == "auth" {
				err = second(newResponderFor(t, rd.key).readAuth(packet, room))
			} else {
				i := newInitiatorFor(t, rd.key, newTestKey(t))
				must(i.WriteAuth(nil))(t)
				_, err = i.readAck(packet, room)
			}
			if (err == nil) != (name == "accepted") {
				t.Errorf("%s, %s: %v", rd.name, name, err)
			}
			if !bytes.Equal(room[:cap(room)], make([]byte, cap(room))) {
				t.Errorf("%s, %s: plaintext is left", rd.name, name)
			}
		}
	}
}

// TestSignClearsKey: the words that the signing key was put into are gone when there is a
// signature.
func TestSignClearsKey(t *testing.T) {
	var k scalar
	var c coordinates
	if err := k.draw(seeded(9)); err != nil {
		t.Fatal(err)
	}
	must(c.sign(&k, make([]byte, 32)))(t)
	if found := secrecy.Find(&c, map[string][]byte{"key": k[:]}, nil); len(found) > 0 {
		t.Error(found)
	}
}

func second[T any](_ T, err error) error { return err }

// failingWriter delivers a packet and takes none.
type failingWriter struct {
	io.Reader
	err error
}

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// TestFailedHandshakeLeavesNoSecrets: secrets that were derived for a handshake that failed in the
// end are wiped.
func TestFailedHandshakeLeavesNoSecrets(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	auth := must(newInitiatorFor(t, a, b).WriteAuth(nil))(t)
	broken := errors.New("broken")
	s, err := Respond(t.Context(), failingWriter{bytes.NewReader(auth), broken}, b.PrivateKey, nil, nil)
	refused(t, "ack that is not taken", err, broken)
	if !reflect.DeepEqual(s, Secrets{}) {
		t.Error("secrets are returned with an error")
	}

	r := newResponderFor(t, b)
	must(r.ReadAuth(auth))(t)
	_, s, err = r.WriteAck(nil)
	if err != nil {
		t.Fatal(err)
	}
	kept := s
	d := driver{ctx: context.Background()}
	if got, err := d.finish(s, broken); !errors.Is(err, broken) || !reflect.DeepEqual(got, Secrets{}) {
		t.Errorf("finish: %v", err)
	}
	empty := func(h hash.Hash) bool { return bytes.Equal(h.Sum(nil), crypto.Keccak256()) }
	if !bytes.Equal(kept.AES, make([]byte, 32)) || !bytes.Equal(kept.MAC, make([]byte, 32)) || !empty(kept.EgressMAC) || !empty(kept.IngressMAC) {
		t.Error("secrets are left")
	}
}

// TestNothingPrintsKeys: no verb of package fmt shows a secret of a state or of Secrets, at any
// point.
func TestNothingPrintsKeys(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	randA, randB := &draws{r: seeded(3)}, &draws{r: seeded(4)}
	i := must(NewInitiator(a.PrivateKey, &b.PublicKey, randA))(t)
	r := must(NewResponder(b.PrivateKey, randB))(t)
	secrets := map[string][]byte{"static-privkey of A": a.D.FillBytes(make([]byte, 32)), "static-privkey of B": b.D.FillBytes(make([]byte, 32))}
	check := func(when string, values ...any) {
		t.Helper()
		for n, d := range []*draws{randA, randB} {
			for m, read := range d.read {
				if len(read) >= 8 && m != 4 { // the IV is public
					secrets[string(rune('A'+n))+" draw "+string(rune('0'+m))] = read
				}
			}
		}
		for _, v := range values {
			for verb, text := range secrecy.Formats(v) {
				if leaks := secrecy.Leaks(text, secrets); len(leaks) > 0 {
					t.Errorf("%s: %s of %T shows %s", when, verb, v, strings.Join(leaks, ", "))
				}
			}
		}
	}
	if len(secrecy.Leaks(secrecy.Formats(secrets)["%v"], secrets)) != 2 || len(secrecy.Leaks(secrecy.Formats(&struct{ s scalar }{scalar(secrets["static-privkey of A"])})["%+v"], secrets)) != 1 {
		t.Error("the check sees nothing")
	}
	check("new", i, *i, r, *r)
	auth := must(i.WriteAuth(nil))(t)
	check("after WriteAuth", i, *i)
	must(r.ReadAuth(auth))(t)
	check("after ReadAuth", r, *r)
	_, err := newResponderFor(t, a).ReadAuth(auth)
	check("error", err)
	ack, sr, err := r.WriteAck(nil)
	if err != nil {
		t.Fatal(err)
	}
	si := must(i.ReadAck(ack))(t)
	secrets["aes-secret"], secrets["mac-secret"] = sr.AES, sr.MAC
	check("complete", i, *i, r, *r, si, &si, sr, &sr, []Secrets{si}, map[string]*Secrets{"": &si}, struct{ S Secrets }{si})
}
