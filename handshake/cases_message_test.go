package handshake

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
)

// The cases of cases_test.go that are about what a packet holds.

// TestCase_H16_Signature: signatures out of range fail before the static keys are multiplied. One
// that is merely made up gets an ack, but neither its sender nor the owner of the key can derive
// the secrets.
func TestCase_H16_Signature(t *testing.T) {
	mults := countMults(t)
	attacker, victim, b := newTestKey(t), newTestKey(t), newTestKey(t)
	n := crypto.S256().Params().N.Bytes()
	sig := authFields(t, victim, b)[0].([]byte)
	edit := func(f func(sig []byte)) []byte {
		s := bytes.Clone(sig)
		f(s)
		return s
	}
	for name, sig := range map[string][]byte{
		"r = 0":         edit(func(s []byte) { clear(s[:32]) }),
		"s = 0":         edit(func(s []byte) { clear(s[32:64]) }),
		"r = n":         edit(func(s []byte) { copy(s[:32], n) }),
		"s = n":         edit(func(s []byte) { copy(s[32:64], n) }),
		"r > n":         edit(func(s []byte) { copy(s[:32], bytes.Repeat([]byte{0xff}, 32)) }),
		"s > n":         edit(func(s []byte) { copy(s[32:64], bytes.Repeat([]byte{0xff}, 32)) }),
		"id 4":          edit(func(s []byte) { s[64] = 4 }),
		"id 27":         edit(func(s []byte) { s[64] = 27 }),
		"id 31":         edit(func(s []byte) { s[64] = 31 }),
		"id 229":        edit(func(s []byte) { s[64] = 229 }), // + 27 is 0 in a byte
		"id 255":        edit(func(s []byte) { s[64] = 255 }),
		"all ff":        bytes.Repeat([]byte{0xff}, 65),
		"all 0":         make([]byte, 65),
		"high recovery": edit(func(s []byte) { s[64] |= 2 }), // x = r + n is not below p for nearly every r
	} {
		fields := authFields(t, victim, b)
		fields[0] = sig
		packet := seal(t, b, encode(t, fields))
		r := newResponderFor(t, b)
		*mults = 0
		_, err := r.ReadAuth(packet)
		refused(t, name, err, ErrSignature)
		if name != "high recovery" && *mults != 1 {
			t.Errorf("%s: %d multiplications", name, *mults)
		}
	}

	// A signature by the attacker over something else.
	made := must(crypto.Sign(bytes.Repeat([]byte{5}, 32), attacker.PrivateKey))(t)
	fields := authFields(t, victim, b)
	fields[0] = made
	r := newResponderFor(t, b)
	remote := must(r.ReadAuth(seal(t, b, encode(t, fields))))(t)
	if !remote.Equal(&victim.PublicKey) {
		t.Fatal("another key claimed")
	}
	ack, _, err := r.WriteAck(nil)
	if err != nil {
		t.Fatal(err)
	}
	i := newInitiatorFor(t, attacker, b)
	must(i.WriteAuth(nil))(t)
	_, err = i.ReadAck(ack)
	refused(t, "the attacker reading the ack", err, ErrDecrypt)
}

// TestCase_H19_Malformed: plaintexts that decrypt and are no message.
func TestCase_H19_Malformed(t *testing.T) {
	raw := func(b ...byte) rlp.RawValue { return b }
	for _, rd := range readers(t) {
		a, b := newTestKey(t), newTestKey(t)
		fields := func() []any {
			if rd.name == "auth" {
				return authFields(t, a, b)
			}
			return ackFields(t)
		}
		plaintexts := map[string][]byte{
			"empty":                  {},
			"string":                 {0x80},
			"byte":                   {0x04},
			"empty list":             {0xc0},
			"list longer than data":  rd.valid[:len(rd.valid)-1],
			"list header cut":        {0xf8},
			"non-minimal length":     {0xf8, 0x20},
			"leading zero in length": append([]byte{0xf9, 0}, rd.valid[1:]...),
			"length of 8 bytes":      bytes.Repeat([]byte{0xff}, 120),
			"zeros":                  make([]byte, 300),
			"version is 81 04":       encode(t, append(fields()[:len(fields())-1:len(fields())-1], raw(0x81, 4))),
			"version is cut":         encode(t, append(fields()[:len(fields())-1:len(fields())-1], raw(0xb8))),
			"extra element is cut":   encode(t, append(fields(), raw(0xc2, 1))),
		}
		for n := range len(fields()) {
			plaintexts[fmt.Sprint("list of ", n)] = encode(t, fields()[:n])
			if n == len(fields())-1 {
				break
			}
			for what, value := range map[string]any{"list": []any{fields()[n]}, "empty": []byte{}, "integer": uint(4)} {
				f := fields()
				f[n] = value
				plaintexts[fmt.Sprintf("element %d is %s", n, what)] = encode(t, f)
			}
			for _, d := range []int{-1, 1} {
				f := fields()
				f[n] = append(bytes.Clone(f[n].([]byte)), 1)[:len(f[n].([]byte))+d]
				plaintexts[fmt.Sprintf("element %d has %+d bytes", n, d)] = encode(t, f)
			}
		}
		for name, p := range plaintexts {
			refused(t, rd.name+" "+name, rd.start(t)(seal(t, rd.key, p)), ErrMessage)
		}
	}
}

// TestCase_H20_Bits: any single bit of a packet that is changed makes it fail, and so does a tag
// without the size.
func TestCase_H20_Bits(t *testing.T) {
	for _, rd := range readers(t) {
		packet := seal(t, rd.key, rd.valid)
		for bit := range 8 * len(packet) {
			flipped := bytes.Clone(packet)
			flipped[bit/8] ^= 1 << (bit % 8)
			want := ErrDecrypt
			if bit < 16 {
				// Give it the length that it announces.
				size := int(binary.BigEndian.Uint16(flipped))
				flipped = append(flipped, make([]byte, 1<<16)...)[:2+size]
				if size < eciesOverhead || size > maxPacketSize {
					want = ErrPacketSize
				}
			} else if bit < 8*67 {
				want = ErrInvalidPublicKey // nearly always; a point that happens to be valid fails at the tag
			}
			err := rd.start(t)(flipped)
			if want == ErrInvalidPublicKey && errors.Is(err, ErrDecrypt) {
				continue
			}
			refused(t, fmt.Sprintf("%s bit %d", rd.name, bit), err, want)
		}
	}
}

// TestCase_H21_Padding: packets differ in size, within the bounds, and say how long they are.
func TestCase_H21_Padding(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	auths, acks := map[int]int{}, map[int]int{}
	check := func(sizes map[int]int, packet []byte, smallest int) {
		size := int(binary.BigEndian.Uint16(packet))
		if size != len(packet)-2 || size < smallest+100 || size > smallest+300 {
			t.Errorf("size %d, %d bytes follow", size, len(packet)-2)
		}
		sizes[size]++
	}
	for range 200 {
		i, r := newInitiatorFor(t, a, b), newResponderFor(t, b)
		auth := must(i.WriteAuth(nil))(t)
		must(r.ReadAuth(auth))(t)
		ack, _, err := r.WriteAck(nil)
		if err != nil {
			t.Fatal(err)
		}
		check(auths, auth, 282)
		check(acks, ack, 215)
	}
	if len(auths) <= 50 || len(acks) <= 50 {
		t.Errorf("%d sizes of auth, %d of ack", len(auths), len(acks))
	}

	// Every length, the two bounds included, equally often over all values of the two bytes.
	counts := map[int]int{}
	var buf [2]byte
	for v := range 1 << 16 {
		two := binary.BigEndian.AppendUint16(nil, uint16(v))
		if n, err := drawPadding(bytes.NewReader(two), &buf); err == nil {
			counts[n]++
		}
	}
	for n := minPadding; n <= maxPadding; n++ {
		if counts[n] != counts[minPadding] || counts[n] == 0 {
			t.Errorf("padding %d drawn %d times of 65536", n, counts[n])
		}
	}
	if len(counts) != maxPadding-minPadding+1 {
		t.Errorf("%d lengths", len(counts))
	}
}

// TestCase_H23_TagBytes: which byte of a tag is wrong makes no difference to what is returned.
func TestCase_H23_TagBytes(t *testing.T) {
	for _, rd := range readers(t) {
		packet := seal(t, rd.key, rd.valid)
		var text string
		for n := range 32 {
			flipped := bytes.Clone(packet)
			flipped[len(flipped)-32+n] ^= 0x40
			err := rd.start(t)(flipped)
			if errors.Unwrap(err) != ErrDecrypt {
				t.Fatalf("%s byte %d: %v", rd.name, n, err)
			}
			if text == "" {
				text = err.Error()
			}
			if err.Error() != text {
				t.Errorf("%s byte %d: %q, other bytes %q", rd.name, n, err, text)
			}
		}
	}
}

// TestFailedReadLeavesState: after packets that fail at each stage the same state still completes
// the handshake.
func TestFailedReadLeavesState(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	i, r := newInitiatorFor(t, a, b), newResponderFor(t, b)
	bad := func(to testKey, fields []any, replace map[int]any) (packets [][]byte) {
		packets = append(packets, nil, make([]byte, 400), seal(t, to, nil))
		for n, v := range replace {
			f := append([]any(nil), fields...)
			f[n] = v
			packets = append(packets, seal(t, to, encode(t, f)))
		}
		good := seal(t, to, encode(t, fields))
		good[len(good)-1] ^= 1
		return append(packets, good)
	}
	auth := must(i.WriteAuth(nil))(t)
	other := newTestKey(t)
	made := must(crypto.Sign(make([]byte, 32), other.PrivateKey))(t)
	made[64] |= 2 // nearly always recovers to nothing, after the multiplications
	for n, packet := range bad(b, authFields(t, other, b), map[int]any{0: made, 1: make([]byte, 64), 2: "short"}) {
		if _, err := r.ReadAuth(packet); err == nil {
			t.Fatalf("bad auth %d is accepted", n)
		}
	}
	must(r.ReadAuth(auth))(t)
	ack, sr, err := r.WriteAck(nil)
	if err != nil {
		t.Fatal(err)
	}
	for n, packet := range bad(a, ackFields(t), map[int]any{0: make([]byte, 64), 1: "short"}) {
		if _, err := i.ReadAck(packet); err == nil {
			t.Fatalf("bad ack %d is accepted", n)
		}
	}
	checkAgree(t, must(i.ReadAck(ack))(t), sr)
}
