package handshake

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/ethereum/go-ethereum/rlp"
)

// The names of the tests here say which fault, seen in another client, must not be ours.

// refused checks that a read fails with want, as an *Error, and that the text is fit to print.
func refused(tb testing.TB, what string, err, want error) {
	tb.Helper()
	var e *Error
	if !errors.Is(err, want) || !errors.As(err, &e) {
		tb.Errorf("%s: error %v, want %v", what, err, want)
		return
	}
	text := err.Error()
	if len(text) >= 512 {
		tb.Errorf("%s: error of %d bytes", what, len(text))
	}
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' {
			tb.Errorf("%s: error has byte %#x: %q", what, c, text)
		}
	}
}

// TestCase_H1_InvalidR: an R that is no point fails before anything is computed with our static
// key.
func TestCase_H1_InvalidR(t *testing.T) {
	mults := countMults(t)
	for _, rd := range readers(t) {
		valid := seal(t, rd.key, rd.valid)
		random := make([]byte, len(valid))
		rand.Read(random)
		for name, r := range offCurve(valid[3:67]) {
			packet := bytes.Clone(random)
			copy(packet, valid[:3])
			copy(packet[3:], r)
			read := rd.start(t)
			*mults = 0
			refused(t, rd.name+" "+name, read(packet), ErrInvalidPublicKey)
			if *mults != 0 {
				t.Errorf("%s %s: %d multiplications", rd.name, name, *mults)
			}
			s := newScript(packet)
			_, err := rd.drive(t, s)
			refused(t, rd.name+" "+name+" by the driver", err, ErrInvalidPublicKey)
			if rd.name == "auth" && s.out.Len() != 0 {
				t.Errorf("%s: %d bytes written", name, s.out.Len())
			}
		}
		for _, format := range []byte{0, 2, 3, 5, 6, 7} { // 6 and 7 are hybrid forms of the right length
			packet := bytes.Clone(valid)
			packet[2] = format
			read := rd.start(t)
			*mults = 0
			refused(t, fmt.Sprintf("%s format %d", rd.name, format), read(packet), ErrInvalidPublicKey)
			if *mults != 0 {
				t.Errorf("%s format %d: %d multiplications", rd.name, format, *mults)
			}
		}
	}
}

// TestCase_H2_InvalidKeyInMessage: the same for the keys inside messages that decrypt, of which
// only the ECIES part has been computed then.
func TestCase_H2_InvalidKeyInMessage(t *testing.T) {
	mults := countMults(t)
	a, b := newTestKey(t), newTestKey(t)
	for name, point := range offCurve(a.pub()) {
		fields := authFields(t, a, b)
		fields[1] = point
		packet := seal(t, b, encode(t, fields))
		r := newResponderFor(t, b)
		*mults = 0
		_, err := r.ReadAuth(packet)
		refused(t, "auth "+name, err, ErrInvalidPublicKey)
		if *mults != 1 {
			t.Errorf("auth %s: %d multiplications", name, *mults)
		}
		s := newScript(packet)
		_, err = Respond(t.Context(), s, b.PrivateKey, nil, nil)
		refused(t, "auth by the driver "+name, err, ErrInvalidPublicKey)
		if s.out.Len() != 0 {
			t.Errorf("auth %s: %d bytes written", name, s.out.Len())
		}

		fields = ackFields(t)
		fields[0] = point
		packet = seal(t, a, encode(t, fields))
		i := newInitiatorFor(t, a, b)
		must(i.WriteAuth(nil))(t)
		*mults = 0
		_, err = i.ReadAck(packet)
		refused(t, "ack "+name, err, ErrInvalidPublicKey)
		if *mults != 1 {
			t.Errorf("ack %s: %d multiplications", name, *mults)
		}
	}
}

// TestCase_H4_H5_ShortBody: bodies too short for an IV, with tags that are right for them, so that
// nothing but the length can refuse them.
func TestCase_H4_H5_ShortBody(t *testing.T) {
	sizes := []int{0, 1, 64, 65, 66, 80}
	for n := 81; n <= 128; n++ { // the tag cut, then bodies of 0 to 31 bytes
		sizes = append(sizes, n)
	}
	for _, rd := range readers(t) {
		for _, n := range sizes {
			want := ErrPacketSize
			if n >= eciesOverhead {
				want = ErrMessage // the tag verifies; an empty or short random plaintext is no message
			}
			packet := sealShort(t, rd.key, n)
			refused(t, fmt.Sprintf("%s of %d bytes", rd.name, n), rd.start(t)(packet), want)
			_, err := rd.drive(t, newScript(packet))
			refused(t, fmt.Sprintf("%s of %d bytes by the driver", rd.name, n), err, want)
		}
		for _, packet := range [][]byte{nil, {}, {1}, {0, 113}, {1, 0x1a}} {
			refused(t, fmt.Sprintf("%s %x", rd.name, packet), rd.start(t)(packet), ErrPacketSize)
		}
	}
	if eciesOverhead != 65+16+32 {
		t.Errorf("ECIES overhead is %d", eciesOverhead)
	}
}

// TestCase_H6_Prefixes: every prefix of a valid packet, then the end of the stream or a size to
// match.
func TestCase_H6_Prefixes(t *testing.T) {
	for _, rd := range readers(t) {
		packet := seal(t, rd.key, append(rd.valid, make([]byte, 100)...))
		for n := range len(packet) {
			_, err := rd.drive(t, newScript(packet[:n]))
			refused(t, fmt.Sprintf("%s cut at %d", rd.name, n), err, ErrRemoteClosed)
			if n < 2 {
				continue
			}
			cut := bytes.Clone(packet[:n])
			binary.BigEndian.PutUint16(cut, uint16(n-2))
			want := ErrDecrypt
			if n-2 < eciesOverhead {
				want = ErrPacketSize
			}
			refused(t, fmt.Sprintf("%s shortened to %d", rd.name, n), rd.start(t)(cut), want)
		}
	}
}

// TestCase_H7_Sizes: sizes below the smallest message, each with the bytes that it announces, and
// messages without any padding, which are fine.
func TestCase_H7_Sizes(t *testing.T) {
	for _, rd := range readers(t) {
		smallest := eciesOverhead + len(rd.valid)
		if want := map[string]int{"auth": 282, "ack": 215}[rd.name]; smallest != want {
			t.Fatalf("smallest %s has %d bytes", rd.name, smallest)
		}
		for n := range smallest {
			packet := make([]byte, 2+n)
			binary.BigEndian.PutUint16(packet, uint16(n))
			want := ErrInvalidPublicKey // R is zeros
			if n < eciesOverhead {
				want = ErrPacketSize
			}
			refused(t, fmt.Sprintf("%s of %d zeros", rd.name, n), rd.start(t)(packet), want)
			if n >= eciesOverhead {
				// Decrypts, and is a prefix of a valid message.
				packet = seal(t, rd.key, rd.valid[:n-eciesOverhead])
				refused(t, fmt.Sprintf("%s of %d bytes", rd.name, n), rd.start(t)(packet), ErrMessage)
			}
		}
		packet := seal(t, rd.key, rd.valid)
		if err := rd.start(t)(packet); err != nil {
			t.Errorf("%s without padding: %v", rd.name, err)
		}
	}
}

// TestCase_H8_MaxSize: one byte over the limit is refused after the prefix, the limit itself is
// fine.
func TestCase_H8_MaxSize(t *testing.T) {
	for _, rd := range readers(t) {
		packet := seal(t, rd.key, append(rd.valid, make([]byte, maxPacketSize-eciesOverhead-len(rd.valid))...))
		if len(packet) != 2+2048 {
			t.Fatalf("packet of %d bytes", len(packet))
		}
		if err := rd.start(t)(packet); err != nil {
			t.Errorf("%s of the greatest size: %v", rd.name, err)
		}
		if _, err := rd.drive(t, newScript(packet)); err != nil {
			t.Errorf("%s of the greatest size by the driver: %v", rd.name, err)
		}
		for _, prefix := range [][]byte{{8, 1}, {0xff, 0xff}, {0, 112}, {0, 0}} {
			s := newScript(append(prefix, packet...))
			_, err := rd.drive(t, s)
			refused(t, fmt.Sprintf("%s size %x", rd.name, prefix), err, ErrPacketSize)
			if left := s.in.Len(); left != len(packet) {
				t.Errorf("%s size %x: %d bytes read past the prefix", rd.name, prefix, len(packet)-left)
			}
			if prefix[0] > 0 && !bytes.Contains([]byte(err.Error()), []byte("message too big")) {
				t.Errorf("text %q", err)
			}
			err = rd.start(t)(append(prefix, packet[2:]...))
			refused(t, fmt.Sprintf("%s size %x", rd.name, prefix), err, ErrPacketSize)
		}
	}
}

// TestCase_H10_Legacy: an auth of the encoding before EIP-8, whose first bytes read as a size of
// 1164, is never decoded, although it is whole.
func TestCase_H10_Legacy(t *testing.T) {
	key := newTestKey(t)
	packet := seal(t, key, make([]byte, 307-113))[2:] // ECIES of 194 bytes, without size prefix
	packet = append([]byte{4, 0x8c}, packet...)[:307]
	s := newScript(packet)
	_, err := Respond(t.Context(), s, key.PrivateKey, nil, nil)
	refused(t, "legacy auth", err, ErrRemoteClosed)
	if s.out.Len() != 0 {
		t.Error("answered")
	}
}

// TestCase_H11_Tolerance: versions, extra elements and trailing bytes are not looked at.
func TestCase_H11_Tolerance(t *testing.T) {
	accepted := map[string][]any{}
	for _, v := range []uint64{0, 3, 4, 5, 56, 1 << 32, 1<<64 - 1} {
		accepted[fmt.Sprint("version ", v)] = []any{v}
	}
	accepted["version of 24 bytes"] = []any{bytes.Repeat([]byte{0xab}, 24)}
	accepted["version with leading zeros"] = []any{[]byte{0, 0, 4}}
	accepted["version is a list"] = []any{[]any{uint(4), []any{}}}
	accepted["empty list"] = []any{uint(4), []any{}}
	accepted["nested lists"] = []any{uint(4), []any{[]any{uint(1)}, []any{[]any{}, "x"}}, "y"}
	many := []any{uint(4)}
	for range 300 {
		many = append(many, []byte{7})
	}
	accepted["300 elements"] = many
	deep := []byte{0xc0}
	for range 100 {
		deep = must(rlp.EncodeToBytes([]rlp.RawValue{deep}))(t)
	}
	accepted["nested 100 deep"] = []any{uint(4), rlp.RawValue(deep)}

	junk := make([]byte, 200)
	rand.Read(junk)
	a, b := newTestKey(t), newTestKey(t)
	for name, tail := range accepted {
		for _, trailing := range [][]byte{nil, junk} {
			fields := authFields(t, a, b)
			auth := append(encode(t, append(fields[:3:3], tail...)), trailing...)
			remote, err := newResponderFor(t, b).ReadAuth(seal(t, b, auth))
			if err != nil || !remote.Equal(&a.PublicKey) {
				t.Errorf("auth, %s, %d bytes of junk: %v", name, len(trailing), err)
			}
			i := newInitiatorFor(t, a, b)
			must(i.WriteAuth(nil))(t)
			fields = ackFields(t)
			ack := append(encode(t, append(fields[:2:2], tail...)), trailing...)
			if _, err := i.ReadAck(seal(t, a, ack)); err != nil {
				t.Errorf("ack, %s, %d bytes of junk: %v", name, len(trailing), err)
			}
		}
	}
}

// TestCase_H14_WrongKey: auth for another key than ours.
func TestCase_H14_WrongKey(t *testing.T) {
	a, b, other := newTestKey(t), newTestKey(t), newTestKey(t)
	auth := must(newInitiatorFor(t, a, other).WriteAuth(nil))(t)
	s := newScript(auth)
	_, err := Respond(t.Context(), s, b.PrivateKey, nil, nil)
	refused(t, "recipient", err, ErrDecrypt)
	if s.out.Len() != 0 {
		t.Errorf("%d bytes written", s.out.Len())
	}
}
