package handshake

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/crypto/ecies"
)

// sealOurs encrypts a plaintext with the code under test.
func sealOurs(tb testing.TB, to testKey, plaintext []byte) []byte {
	tb.Helper()
	p := &party{rand: rand.Reader}
	var public point
	if err := public.setKey(&to.PublicKey); err != nil {
		tb.Fatal(err)
	}
	_, packet := appendPacket(nil, len(plaintext))
	copy(message(packet), plaintext)
	if err := p.encrypt(packet, &public); err != nil {
		tb.Fatal(err)
	}
	return packet
}

// TestECIESAgainstGeth holds our ECIES against go-ethereum's in both directions, for messages of
// every length that matters to the block sizes involved and up to the limit.
func TestECIESAgainstGeth(t *testing.T) {
	key := newTestKey(t)
	h := newResponderFor(t, key)
	var lengths []int
	for n := 1; n <= 130; n++ {
		lengths = append(lengths, n)
	}
	const most = maxPacketSize - eciesOverhead
	lengths = append(lengths, 169, 255, 256, 257, 1000, 1024, most-1, most)
	for _, n := range lengths {
		plaintext := make([]byte, n)
		rand.Read(plaintext)
		if got := unseal(t, key, sealOurs(t, key, plaintext)); !bytes.Equal(got, plaintext) {
			t.Errorf("go-ethereum decrypts our %d bytes to something else", n)
		}
		got, err := h.decrypt(nil, seal(t, key, plaintext))
		if err != nil || !bytes.Equal(got, plaintext) {
			t.Errorf("we decrypt its %d bytes to something else: %v", n, err)
		}
	}
	// Neither end of ours cares for an empty message, which theirs does not send.
	if got, err := h.decrypt(nil, sealOurs(t, key, nil)); err != nil || len(got) != 0 {
		t.Errorf("empty message: %x, %v", got, err)
	}
}

// TestCase_H20_Tag is a known answer for each part of a packet, by the standard library's HMAC over
// keys derived by hand from R and the recipient's key; and tags over anything but iv ‖ c ‖ size are
// refused.
func TestCase_H20_Tag(t *testing.T) {
	v := loadEIP8(t)
	key := keyFromHex(t, v.StaticB)
	packet := unhex(t, v.Auth[0].Packet)
	x, _ := crypto.S256().ScalarMult(bigOf(packet[3:35]), bigOf(packet[35:67]), unhex(t, v.StaticB))
	k := sha256.Sum256(append([]byte{0, 0, 0, 1}, x.FillBytes(make([]byte, 32))...))
	macKey := sha256.Sum256(k[16:])
	tag := func(key []byte, parts ...[]byte) []byte {
		mac := hmac.New(sha256.New, key)
		for _, p := range parts {
			mac.Write(p)
		}
		return mac.Sum(nil)
	}
	size, body, end := packet[:2], packet[67:len(packet)-32], len(packet)-32
	if !bytes.Equal(tag(macKey[:], body, size), packet[end:]) {
		t.Fatal("the formula of the tag does not hold for EIP-8's packet")
	}
	keys := eciesKeys{mac: macKey}
	if got := keys.tag(packet); !bytes.Equal(got[:], packet[end:]) {
		t.Errorf("tag %x, want %x", got, packet[end:])
	}
	h := newResponderFor(t, key)
	again := must(ecies.Encrypt(rand.Reader, ecies.ImportECDSAPublic(&key.PublicKey), make([]byte, 20), nil, size))(t)
	for name, wrong := range map[string][]byte{
		"no shared info":       tag(macKey[:], body),
		"size first":           tag(macKey[:], size, body),
		"with R":               tag(macKey[:], packet[2:67], body, size),
		"without IV":           tag(macKey[:], body[16:], size),
		"kM as it is":          tag(k[16:], body, size),
		"kM hashed by Keccak":  tag(crypto.Keccak256(k[16:]), body, size),
		"little-endian size":   tag(macKey[:], body, []byte{size[1], size[0]}),
		"tag of another R":     again[65+16+20:],
		"zeros":                make([]byte, 32),
		"tag of another party": seal(t, newTestKey(t), make([]byte, 20))[2+65+16+20:],
	} {
		_, err := h.ReadAuth(append(bytes.Clone(packet[:end]), wrong...))
		if !errors.Is(err, ErrDecrypt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCTR holds our counter mode against the standard library's, where the counter carries and
// where it wraps.
func TestCTR(t *testing.T) {
	var keys eciesKeys
	rand.Read(keys.enc[:])
	block := must(aes.NewCipher(keys.enc[:]))(t)
	random := make([]byte, ivSize)
	rand.Read(random)
	for _, iv := range [][]byte{
		random,
		make([]byte, ivSize),
		bytes.Repeat([]byte{0xff}, ivSize),
		append(bytes.Repeat([]byte{0x12}, 8), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe),
		append(bytes.Repeat([]byte{0xff}, 15), 0xf0),
	} {
		src := make([]byte, maxPacketSize)
		rand.Read(src)
		for _, n := range []int{0, 1, 15, 16, 17, 31, 32, 33, 300, len(src)} {
			want, got := make([]byte, n), make([]byte, n)
			cipher.NewCTR(block, iv).XORKeyStream(want, src[:n])
			var c ctr
			c.xor(&keys, got, src[:n], iv)
			if !bytes.Equal(got, want) {
				t.Errorf("iv %x, %d bytes: %x, want %x", iv, n, got, want)
			}
			c.xor(&keys, got, got, iv) // in place
			if !bytes.Equal(got, src[:n]) {
				t.Errorf("iv %x, %d bytes in place", iv, n)
			}
		}
	}
}
