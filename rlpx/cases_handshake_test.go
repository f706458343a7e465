package rlpx

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/crypto/ecies"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/go-rlpx/transport/handshake"
	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// The field bugs in handshake packets that package handshake tests one by one, as a connection
// meets them.

// roleConn is the end under test in one of the two roles.
func roleConn(inner net.Conn, initiator bool, remote *ecdsa.PublicKey, cfg *Config) *Conn {
	if initiator {
		return Client(inner, remote, cfg)
	}
	return Server(inner, cfg)
}

// A size over the limit is refused when its two bytes are there, though more never comes and the
// deadline is far, and no memory was set aside for what it announced.
func TestCase_H8_RefusedByTwoBytes(t *testing.T) {
	ourKey, theirKey := newKey(t), newKey(t)
	for _, initiator := range []bool{false, true} {
		for _, prefix := range [][]byte{{0x08, 0x01}, {0xff, 0xff}, {0x00, 0x70}, {0x00, 0x00}} {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer theirs.Close()
				counting := rlpxtest.Count(ours)
				conn := roleConn(counting, initiator, &theirKey.PublicKey, &Config{Key: ourKey, HandshakeTimeout: time.Hour})
				go func() {
					if initiator {
						readPacket(theirs)
					}
					theirs.Write(prefix)
				}()
				start := time.Now()
				_, err := conn.HandshakeContext(t.Context())
				if !errors.Is(err, handshake.ErrPacketSize) || time.Since(start) != 0 {
					t.Errorf("%x: %v after %v", prefix, err, time.Since(start))
				}
				if n := counting.BytesRead.Load(); n != 2 {
					t.Errorf("%x: %d bytes read", prefix, n)
				}
			})
		}
	}
	const conns = 200
	var scripts [conns]*Conn
	for i := range scripts {
		scripts[i] = Server(rlpxtest.NewScript([]byte{0xff, 0xff}), &Config{Key: ourKey, HandshakeTimeout: -1})
	}
	allocated := rlpxtest.TotalAlloc(func() {
		for _, c := range scripts {
			if _, err := c.HandshakeContext(context.Background()); err == nil {
				t.Fatal("no error")
			}
		}
	})
	if each := allocated / conns; each > 4<<10 {
		t.Errorf("%d bytes allocated for a refused size", each)
	}
}

// auth1 is (Auth₁) of EIP-8 (https://eips.ethereum.org/EIPS/eip-8), the one packet there in the old
// encoding, and staticB the key that it is for.
const (
	auth1 = `048ca79ad18e4b0659fab4853fe5bc58eb83992980f4c9cc147d2aa31532efd29a3d3dc6a3d89eaf
913150cfc777ce0ce4af2758bf4810235f6e6ceccfee1acc6b22c005e9e3a49d6448610a58e98744
ba3ac0399e82692d67c1f58849050b3024e21a52c9d3b01d871ff5f210817912773e610443a9ef14
2e91cdba0bd77b5fdf0769b05671fc35f83d83e4d3b0b000c6b2a1b1bba89e0fc51bf4e460df3105
c444f14be226458940d6061c296350937ffd5e3acaceeaaefd3c6f74be8e23e0f45163cc7ebd7622
0f0128410fd05250273156d548a414444ae2f7dea4dfca2d43c057adb701a715bf59f6fb66b2d1d2
0f2c703f851cbf5ac47396d9ca65b6260bd141ac4d53e2de585a73d1750780db4c9ee4cd4d225173
a4592ee77e2bd94d0be3691f3b406f9bba9b591fc63facc016bfa8`
	staticB = "b71c71a67e1177ad4e901695e1b4b9ee17ae16c6668d313eac2f96dbcda3f291"
)

// A whole auth of the old encoding looks like the beginning of a longer one. It is waited for until
// the deadline, and never decoded.
func TestCase_H10_LegacyAuth(t *testing.T) {
	packet, err := hex.DecodeString(strings.ReplaceAll(auth1, "\n", ""))
	if err != nil || len(packet) != 307 {
		t.Fatal(len(packet), err)
	}
	key, err := crypto.HexToECDSA(staticB)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ecies.ImportECDSA(key).Decrypt(packet, nil, nil); err != nil {
		t.Fatal("the vector is no auth for the key:", err)
	}
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			counting := rlpxtest.Count(ours)
			conn := Server(counting, &Config{Key: key, HandshakeTimeout: 7 * time.Second})
			go func() {
				theirs.Write(packet)
				if closes {
					theirs.Close()
				}
			}()
			start := time.Now()
			_, err := conn.HandshakeContext(t.Context())
			want, after := context.DeadlineExceeded, 7*time.Second
			if closes {
				want, after = handshake.ErrRemoteClosed, 0
			}
			if !errors.Is(err, want) || time.Since(start) != after {
				t.Errorf("closes %v: %v after %v", closes, err, time.Since(start))
			}
			if counting.Writes.Load() != 0 || counting.Closes.Load() != 1 {
				t.Errorf("%d writes, closed %d times", counting.Writes.Load(), counting.Closes.Load())
			}
		})
	}
}

// sealTo encrypts a handshake plaintext by go-ethereum's ECIES.
func sealTo(t *testing.T, to *ecdsa.PublicKey, plaintext []byte) []byte {
	t.Helper()
	if len(plaintext) == 0 {
		return sealShort(t, to, 113)
	}
	prefix := binary.BigEndian.AppendUint16(nil, uint16(len(plaintext)+113))
	c, err := ecies.Encrypt(rand.Reader, ecies.ImportECDSAPublic(to), plaintext, nil, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return append(prefix, c...)
}

// sealShort makes a packet of size bytes after its prefix whose tag is right for a body that may be
// too short for an IV.
func sealShort(t *testing.T, to *ecdsa.PublicKey, size int) []byte {
	t.Helper()
	r := newKey(t)
	x, _ := crypto.S256().ScalarMult(to.X, to.Y, crypto.FromECDSA(r))
	k := sha256.Sum256(append([]byte{0, 0, 0, 1}, x.FillBytes(make([]byte, 32))...))
	macKey := sha256.Sum256(k[16:])
	prefix := binary.BigEndian.AppendUint16(nil, uint16(size))
	body := rlpxtest.Random(mrand.New(mrand.NewPCG(uint64(size), 4)), max(0, size-65-32))
	mac := hmac.New(sha256.New, macKey[:])
	mac.Write(body)
	mac.Write(prefix)
	packet := append(append(prefix[:2:2], crypto.FromECDSAPub(&r.PublicKey)...), body...)
	return mac.Sum(packet)[:2+size]
}

// However a packet is malformed, the peer that sent it sees the same: not a byte in answer, and the
// end. On our side the connection is closed once, and nothing is left of it.
func TestCase_D7_MalformedPackets(t *testing.T) {
	ourKey, theirKey := newKey(t), newKey(t)
	other := newKey(t)
	encode := func(fields ...any) []byte {
		enc, err := rlp.EncodeToBytes(fields)
		if err != nil {
			t.Fatal(err)
		}
		return enc
	}
	pub, nonce := crypto.FromECDSAPub(&theirKey.PublicKey)[1:], bytes.Repeat([]byte{7}, 32)
	token, _ := crypto.S256().ScalarMult(ourKey.X, ourKey.Y, crypto.FromECDSA(theirKey))
	digest := token.FillBytes(make([]byte, 32))
	for i := range digest {
		digest[i] ^= nonce[i]
	}
	sig, err := crypto.Sign(digest, other)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(pub)
	flipped[63] ^= 1
	badKeys := map[string][]byte{"zeros": make([]byte, 64), "ones": bytes.Repeat([]byte{1}, 64), "y flipped": flipped}
	badSigs := map[string][]byte{
		"r = 0": append(make([]byte, 32), sig[32:]...), "all ff": bytes.Repeat([]byte{0xff}, 65), "all 0": make([]byte, 65),
		"s = 0": append(append(bytes.Clone(sig[:32]), make([]byte, 32)...), sig[64]), "id 4": append(bytes.Clone(sig[:64]), 4),
	}
	type packet struct {
		bytes []byte
		want  error
	}
	for _, initiator := range []bool{false, true} {
		packets := map[string]packet{}
		add := func(name string, plaintext []byte, want error) {
			packets[name] = packet{sealTo(t, &ourKey.PublicKey, plaintext), want}
		}
		good := encode(sig, pub, nonce, uint(4))
		short := encode(pub, nonce)
		if initiator {
			good, short = encode(pub, nonce, uint(4)), encode(pub)
		}
		add("empty", nil, handshake.ErrMessage)
		add("string", []byte{0x80}, handshake.ErrMessage)
		add("empty list", []byte{0xc0}, handshake.ErrMessage)
		add("list that is too short", short, handshake.ErrMessage)
		add("list longer than its data", good[:len(good)-1], handshake.ErrMessage)
		add("non-minimal length", append([]byte{0xf8, 0x20}, good[2:34]...), handshake.ErrMessage)
		add("version 81 04", append(bytes.Clone(good[:len(good)-1]), 0x81, 0x04), handshake.ErrMessage)
		for name, key := range badKeys {
			if initiator {
				add("ephemeral key of "+name, encode(key, nonce, uint(4)), handshake.ErrInvalidPublicKey)
			} else {
				add("static key of "+name, encode(sig, key, nonce, uint(4)), handshake.ErrInvalidPublicKey)
			}
		}
		if !initiator {
			for name, s := range badSigs {
				add("signature "+name, encode(s, pub, nonce, uint(4)), handshake.ErrSignature)
			}
			add("nonce of 31 bytes", encode(sig, pub, nonce[:31], uint(4)), handshake.ErrMessage)
			add("signature of 64 bytes", encode(sig[:64], pub, nonce, uint(4)), handshake.ErrMessage)
			add("public key of 63 bytes", encode(sig, pub[:63], nonce, uint(4)), handshake.ErrMessage)
		}
		for _, size := range []int{64, 65, 97, 98, 112} {
			packets[fmt.Sprintf("of %d bytes", size)] = packet{sealShort(t, &ourKey.PublicKey, size), handshake.ErrPacketSize}
		}
		whole := sealTo(t, &ourKey.PublicKey, good)
		for name, at := range map[string]int{"IV": 70, "ciphertext": 100, "tag": len(whole) - 1} {
			damaged := bytes.Clone(whole)
			damaged[at] ^= 1
			packets["damaged "+name] = packet{damaged, handshake.ErrDecrypt}
		}
		point := bytes.Clone(whole)
		copy(point[3:67], badKeys["ones"])
		packets["R off the curve"] = packet{point, handshake.ErrInvalidPublicKey}
		packets["to another key"] = packet{sealTo(t, &other.PublicKey, good), handshake.ErrDecrypt}

		for name, p := range packets {
			role := map[bool]string{false: "auth", true: "ack"}[initiator]
			t.Run(role+"/"+name, func(t *testing.T) {
				rlpxtest.CheckGoroutines(t)
				ours, theirs := net.Pipe()
				counting := rlpxtest.Count(ours)
				conn := roleConn(counting, initiator, &theirKey.PublicKey, &Config{Key: ourKey})
				answer := make(chan int, 1)
				go func() {
					if initiator {
						readPacket(theirs)
					}
					theirs.Write(p.bytes)
					rest, _ := io.ReadAll(theirs)
					theirs.Close()
					answer <- len(rest)
				}()
				key, err := conn.HandshakeContext(t.Context())
				if key != nil || !errors.Is(err, p.want) || !errors.Is(err, ErrHandshake) {
					t.Errorf("%v, want %v", err, p.want)
				}
				if n := <-answer; n != 0 {
					t.Errorf("answered with %d bytes", n)
				}
				if _, _, _, again := conn.Read(); again != err {
					t.Errorf("Read: %v", again)
				}
				conn.Close()
				if n := counting.Closes.Load(); n != 1 {
					t.Errorf("closed %d times", n)
				}
				if text := err.Error(); len(text) > 512 {
					t.Errorf("text of %d bytes", len(text))
				}
			})
		}
	}
}
