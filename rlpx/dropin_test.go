package rlpx

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	gethrlpx "github.com/ethereum/go-ethereum/p2p/rlpx"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// What callers of go-ethereum's Conn rely on.

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s does not panic", what)
		}
	}()
	f()
}

func TestPanicsOfACallersBug(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	conn := NewConn(ours, nil)
	mustPanic(t, "Read before the handshake", func() { conn.Read() })
	mustPanic(t, "Write before the handshake", func() { conn.Write(1, nil) })

	a, b := net.Pipe()
	ta, _ := handshakePair(t, newOurs, newOurs, a, b)
	done := ta.(*Conn)
	mustPanic(t, "a second handshake", func() { done.Handshake(newKey(t)) })
	mustPanic(t, "a second handshake", func() { done.HandshakeContext(t.Context()) })
	sec, _ := rlpxtest.NewSecrets(1)
	secrets := func() Secrets {
		return Secrets{AES: sec.AES, MAC: sec.MAC, EgressMAC: sec.EgressMAC, IngressMAC: sec.IngressMAC}
	}
	mustPanic(t, "InitWithSecrets after a handshake", func() { done.InitWithSecrets(secrets()) })
	for name, spoil := range map[string]func(*Secrets){
		"AES key of 5 bytes":    func(s *Secrets) { s.AES = make([]byte, 5) },
		"no MAC key":            func(s *Secrets) { s.MAC = nil },
		"digest of 28 bytes":    func(s *Secrets) { s.EgressMAC = sha256.New224() },
		"digest of 28 bytes in": func(s *Secrets) { s.IngressMAC = sha256.New224() },
	} {
		s := secrets()
		spoil(&s)
		fresh := NewConn(ours, nil)
		mustPanic(t, "InitWithSecrets: "+name, func() { fresh.InitWithSecrets(s) })
		// Whoever recovers still has a connection that works.
		fresh.InitWithSecrets(secrets())
	}
	// The connection goes on after the panics.
	go done.Close()
}

// The remote key is on the curve of the caller's key, so that the two compare by reflection.
func TestRemoteKeyComparesByReflection(t *testing.T) {
	for _, impl := range []struct {
		name string
		a, b func(net.Conn, *ecdsa.PublicKey) transport
	}{{"we dial", newOurs, newGeth}, {"we listen", newGeth, newOurs}} {
		t.Run(impl.name, func(t *testing.T) {
			a, b := net.Pipe()
			handshakePair(t, impl.a, impl.b, a, b) // compares with reflect.DeepEqual
		})
	}
}

func TestErrorTextsOfGoEthereum(t *testing.T) {
	damaged := func(at int) error {
		conn, _, _ := recorded(nil, func(c net.Conn) net.Conn { return rlpxtest.Damage(c, at, 1) }, sealing([]byte{1, 2}))
		_, _, _, err := conn.Read()
		return err
	}
	sec, _ := rlpxtest.NewSecrets(1)
	writer := initConn(rlpxtest.Discard(), nil, sec)
	_, tooBig := writer.Write(1, make([]byte, maxUint24+1))
	_, tooBigWithCode := writer.Write(1, make([]byte, maxUint24))
	read := func(snappyOn bool, data []byte) error {
		conn, _, _ := recorded(nil, nil, sealing(data))
		conn.SetSnappy(snappyOn)
		_, _, _, err := conn.Read()
		return err
	}
	for _, tc := range []struct {
		err  error
		text string
	}{
		{damaged(5), "bad header MAC"},
		{damaged(20), "bad header MAC"},
		{damaged(40), "bad frame MAC"},
		{tooBig, "message length >= 16MB"},
		{tooBigWithCode, "message length >= 16MB"},
		{tooBig, "message too big"},
		{read(true, []byte{1, 0x80, 0x80, 0x80, 0x08}), "message length >= 16MB"},
		{read(false, []byte{0x00}), "invalid message code"},
		{read(true, []byte{1, 0x05, 0xFF}), snappy.ErrCorrupt.Error()},
	} {
		if tc.err == nil || !strings.Contains(tc.err.Error(), tc.text) || !strings.HasPrefix(tc.err.Error(), "rlpx: ") {
			t.Errorf("%q does not say %q", tc.err, tc.text)
		}
	}
}

// The same session, once through each implementation: results and sizes agree.
func TestResultsAreGoEthereums(t *testing.T) {
	type result struct {
		code     uint64
		data     []byte
		wireSize int
		failed   bool
	}
	corrupt := []byte{0x22, 0x05, 0x00}
	for _, snappyOn := range []bool{false, true} {
		frames := [][]byte{
			{0x80, 0x01, 0x00, 0x07}, {0x10, 0x00}, {0x81, 0x80, 0x02, 0x04, 1, 2},
			rlpxtest.Data(0x1234, snappy.Encode(nil, make([]byte, 10_000))), corrupt,
		}
		_, sb := rlpxtest.NewSecrets(99)
		wire := sealing(frames...)(rlpxtest.NewSession(sb).Egress)
		run := func(init func(net.Conn, rlpxtest.Secrets) transport) (results []result) {
			sa, _ := rlpxtest.NewSecrets(99)
			c := init(rlpxtest.NewScript(wire), sa)
			c.SetSnappy(snappyOn)
			for range frames {
				code, data, wireSize, err := c.Read()
				if err != nil {
					results = append(results, result{code: code, failed: true})
					continue
				}
				if data == nil {
					t.Error("nil data without an error")
				}
				results = append(results, result{code, bytes.Clone(data), wireSize, false})
			}
			return results
		}
		ours := run(func(c net.Conn, sec rlpxtest.Secrets) transport { return initConn(c, nil, sec) })
		theirs := run(func(c net.Conn, sec rlpxtest.Secrets) transport { return initGeth(c, sec) })
		if !reflect.DeepEqual(ours, theirs) {
			t.Errorf("snappy %v:\nours   %v\ntheirs %v", snappyOn, ours, theirs)
		}
		if last := ours[len(ours)-1]; snappyOn && (last.code != 0x22 || !last.failed) {
			t.Errorf("corrupt payload: %+v, want the code with the error", last)
		}
	}
	// And what Write returns.
	for _, snappyOn := range []bool{false, true} {
		for _, size := range []int{0, 1, 1000, 1 << 20} {
			sa, _ := rlpxtest.NewSecrets(7)
			sb, _ := rlpxtest.NewSecrets(7)
			ours, theirs := initConn(rlpxtest.Discard(), nil, sa), initGeth(rlpxtest.Discard(), sb)
			ours.SetSnappy(snappyOn)
			theirs.SetSnappy(snappyOn)
			n, err := ours.Write(0x80, make([]byte, size))
			m, err2 := theirs.Write(0x80, make([]byte, size))
			if n != m || err != nil || err2 != nil {
				t.Errorf("Write of %d bytes: %d and %d, %v and %v", size, n, m, err, err2)
			}
		}
	}
}

func initGeth(conn net.Conn, sec rlpxtest.Secrets) *gethrlpx.Conn {
	c := gethrlpx.NewConn(conn, nil)
	c.InitWithSecrets(gethrlpx.Secrets{AES: sec.AES, MAC: sec.MAC, EgressMAC: sec.EgressMAC, IngressMAC: sec.IngressMAC})
	return c
}

// go-ethereum's own server tests start sessions from SHA-256 states and AES-128 keys.
func TestOtherHashesAndKeySizes(t *testing.T) {
	for _, keyLen := range []int{16, 24, 32} {
		for _, snappyOn := range []bool{false, true} {
			t.Run(fmt.Sprintf("AES-%d/snappy=%v", 8*keyLen, snappyOn), func(t *testing.T) {
				sec := func() rlpxtest.Secrets {
					return rlpxtest.Secrets{AES: make([]byte, keyLen), MAC: make([]byte, keyLen), EgressMAC: sha256.New(), IngressMAC: sha256.New()}
				}
				a, b := tcpPipe(t)
				ours, theirs := initConn(a, nil, sec()), initGeth(b, sec())
				t.Cleanup(func() { ours.Close(); theirs.Close() })
				ours.SetSnappy(snappyOn)
				theirs.SetSnappy(snappyOn)
				for _, size := range []int{0, 1, 15, 16, 100, 10_000, 2 << 20} {
					exchange(t, ours, theirs, 16, pattern(size, 1))
					exchange(t, theirs, ours, 0, pattern(size, 2))
				}
			})
		}
	}
}

// fakeHash always has the same digest.
type fakeHash []byte

func (fakeHash) Write(p []byte) (int, error) { return len(p), nil }
func (fakeHash) Reset()                      {}
func (fakeHash) BlockSize() int              { return 0 }
func (h fakeHash) Size() int                 { return len(h) }
func (h fakeHash) Sum(b []byte) []byte       { return append(b, h...) }

// The known frame of go-ethereum's test of its own framing: keys are the hash of nothing, the MAC
// state is a fake, the message has code 8 and holds the RLP list 1, 2, 3, 4.
func TestKnownFrameOfGoEthereum(t *testing.T) {
	const ones = "01010101010101010101010101010101"
	golden, err := hex.DecodeString("00828ddae471818bb0bfa6b551d1cb42" + ones + "ba628a4ba590cb43f7848f41c4382885" + ones)
	if err != nil {
		t.Fatal(err)
	}
	hash := fakeHash(bytes.Repeat([]byte{1}, 32))
	script := rlpxtest.NewScript(golden)
	conn := NewConn(script, nil)
	conn.InitWithSecrets(Secrets{AES: crypto.Keccak256(), MAC: crypto.Keccak256(), EgressMAC: hash, IngressMAC: hash})
	payload, err := rlp.EncodeToBytes([]uint{1, 2, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(8, payload); err != nil {
		t.Fatal(err)
	}
	if wire := script.Written(); !bytes.Equal(wire, golden) {
		t.Errorf("wrote\n%x, want\n%x", wire, golden)
	}
	wantRead(t, conn, 8, []byte{0xC4, 1, 2, 3, 4})
	wantClean(t, conn)
}

// A message that is refused for its size leaves the connection as it was, in both implementations'
// eyes.
func TestSizeErrorBetweenMessages(t *testing.T) {
	a, b := tcpPipe(t)
	ours, theirs := handshakePair(t, newOurs, newGeth, a, b)
	for _, snappyOn := range []bool{false, true} {
		ours.SetSnappy(snappyOn)
		theirs.SetSnappy(snappyOn)
		exchange(t, ours, theirs, 1, pattern(100, 1))
		for range 3 {
			if _, err := ours.Write(1, make([]byte, maxUint24+1)); !errors.Is(err, ErrMessageTooBig) {
				t.Fatal(err)
			}
		}
		exchange(t, ours, theirs, 2, pattern(1000, 2))
		exchange(t, theirs, ours, 3, pattern(1000, 3))
	}
}
