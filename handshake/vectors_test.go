package handshake

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
)

type eip8 struct {
	StaticA    string `json:"static_key_a"`
	StaticB    string `json:"static_key_b"`
	EphemeralA string `json:"ephemeral_key_a"`
	EphemeralB string `json:"ephemeral_key_b"`
	NonceA     string `json:"nonce_a"`
	NonceB     string `json:"nonce_b"`
	Auth, Ack  []struct{ Name, Packet string }
	Derived    struct {
		AES        string `json:"aes_secret"`
		MAC        string `json:"mac_secret"`
		IngressFoo string `json:"ingress_mac_digest_after_writing_foo"`
	} `json:"derived_on_recipient_from_auth2_ack2"`
}

func loadEIP8(tb testing.TB) (v eip8) {
	tb.Helper()
	if err := json.Unmarshal(must(os.ReadFile("testdata/eip8.json"))(tb), &v); err != nil {
		tb.Fatal(err)
	}
	if len(v.Auth) != 2 || len(v.Ack) != 2 {
		tb.Fatalf("%d auth and %d ack packets, want 2 and 2", len(v.Auth), len(v.Ack))
	}
	return v
}

func keyFromHex(tb testing.TB, s string) testKey {
	tb.Helper()
	return testKey{must(crypto.HexToECDSA(s))(tb)}
}

// eip8Initiator is A after it has sent packet.
func eip8Initiator(tb testing.TB, v eip8, packet []byte) *Initiator {
	h := newInitiatorFor(tb, keyFromHex(tb, v.StaticA), keyFromHex(tb, v.StaticB))
	copy(h.ephemeral[:], unhex(tb, v.EphemeralA))
	copy(h.initiatorNonce[:], unhex(tb, v.NonceA))
	h.auth = packet
	return h
}

// TestCase_H9_Vectors decodes all four packets and derives the secrets as either end.
func TestCase_H9_Vectors(t *testing.T) {
	v := loadEIP8(t)
	keyA, keyB := keyFromHex(t, v.StaticA), keyFromHex(t, v.StaticB)
	for _, auth := range v.Auth {
		t.Run(auth.Name, func(t *testing.T) {
			h := newResponderFor(t, keyB)
			remote, err := h.ReadAuth(unhex(t, auth.Packet))
			if err != nil {
				t.Fatal(err)
			}
			if !remote.Equal(&keyA.PublicKey) {
				t.Error("wrong initiator key")
			}
			if !bytes.Equal(h.initiatorNonce[:], unhex(t, v.NonceA)) {
				t.Errorf("nonce %x", h.initiatorNonce)
			}
			if !bytes.Equal(h.remoteEphemeral[:], keyFromHex(t, v.EphemeralA).pub()) {
				t.Errorf("ephemeral key %x", h.remoteEphemeral)
			}
		})
	}
	for _, ack := range v.Ack {
		t.Run(ack.Name, func(t *testing.T) {
			h := eip8Initiator(t, v, unhex(t, v.Auth[0].Packet))
			s, err := h.ReadAck(unhex(t, ack.Packet))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(s.RecipientNonce[:], unhex(t, v.NonceB)) {
				t.Errorf("nonce %x", s.RecipientNonce)
			}
			if !bytes.Equal(h.remoteEphemeral[:], keyFromHex(t, v.EphemeralB).pub()) {
				t.Errorf("ephemeral key %x", h.remoteEphemeral)
			}
		})
	}

	auth, ack := unhex(t, v.Auth[0].Packet), unhex(t, v.Ack[0].Packet)
	a := must(eip8Initiator(t, v, auth).ReadAck(ack))(t)

	b := newResponderFor(t, keyB)
	if _, err := b.ReadAuth(auth); err != nil {
		t.Fatal(err)
	}
	copy(b.ephemeral[:], unhex(t, v.EphemeralB))
	copy(b.recipientNonce[:], unhex(t, v.NonceB))
	s, ingress, egress, err := b.secrets(auth, ack)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(s.AES); got != v.Derived.AES {
		t.Errorf("aes-secret %s", got)
	}
	if got := hex.EncodeToString(s.MAC); got != v.Derived.MAC {
		t.Errorf("mac-secret %s", got)
	}
	if !bytes.Equal(a.EgressMAC.Sum(nil), ingress.Sum(nil)) || !bytes.Equal(a.IngressMAC.Sum(nil), egress.Sum(nil)) {
		t.Error("the MAC states of A and B do not meet")
	}
	ingress.Write([]byte("foo"))
	if got := hex.EncodeToString(ingress.Sum(nil)); got != v.Derived.IngressFoo {
		t.Errorf("ingress-mac after foo: %s", got)
	}
	if !bytes.Equal(a.AES, s.AES) || !bytes.Equal(a.MAC, s.MAC) || a.EphemeralX != s.EphemeralX {
		t.Error("A and B derive different secrets")
	}
	if !bytes.Equal(a.EphemeralX[:], auth[3:35]) {
		t.Errorf("EphemeralX %x", a.EphemeralX)
	}
}

// TestReplay pins how randomness is consumed: the same bytes from rand make the same packets. The
// digests are of this package's own packets with the keys of EIP-8; another order, another padding
// or another signature would change them.
func TestReplay(t *testing.T) {
	const (
		wantAuth = "bf924b040d00b1a03221ab3719f255bf0ea092fb18f1cc7e5e2b19242550ff46"
		wantAck  = "f9d8274732ae01374696db572283976ace54d12dc83bd9ae3105b8a7f6302edd"
	)
	v := loadEIP8(t)
	keyA, keyB := keyFromHex(t, v.StaticA), keyFromHex(t, v.StaticB)
	for range 3 {
		i := must(NewInitiator(keyA.PrivateKey, &keyB.PublicKey, seeded(1)))(t)
		r := must(NewResponder(keyB.PrivateKey, seeded(2)))(t)
		auth := must(i.WriteAuth(nil))(t)
		if _, err := r.ReadAuth(auth); err != nil {
			t.Fatal(err)
		}
		ack, _, err := r.WriteAck(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := sha256.Sum256(auth); hex.EncodeToString(got[:]) != wantAuth {
			t.Errorf("auth has SHA-256 %x", got)
		}
		if got := sha256.Sum256(ack); hex.EncodeToString(got[:]) != wantAck {
			t.Errorf("ack has SHA-256 %x", got)
		}
	}
}
