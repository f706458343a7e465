package rlpx

import (
	"bytes"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"reflect"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	gethrlpx "github.com/ethereum/go-ethereum/p2p/rlpx"
)

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// transport is what our Conn and go-ethereum's have in common.
type transport interface {
	Handshake(*ecdsa.PrivateKey) (*ecdsa.PublicKey, error)
	Read() (uint64, []byte, int, error)
	Write(uint64, []byte) (uint32, error)
	SetSnappy(bool)
	Close() error
}

var (
	_ transport = (*Conn)(nil)
	_ transport = (*gethrlpx.Conn)(nil)
)

func newOurs(c net.Conn, dest *ecdsa.PublicKey) transport { return NewConn(c, dest) }
func newGeth(c net.Conn, dest *ecdsa.PublicKey) transport { return gethrlpx.NewConn(c, dest) }

// dialPair returns two ends of a loopback TCP connection.
func tcpPipe(t testing.TB) (net.Conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed := make(chan net.Conn, 1)
	go func() {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Error(err)
		}
		dialed <- c
	}()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return <-dialed, accepted
}

func netPipe(testing.TB) (net.Conn, net.Conn) { return net.Pipe() }

// handshakePair runs the handshake between two transports over a and b.
func handshakePair(t testing.TB, newA, newB func(net.Conn, *ecdsa.PublicKey) transport, a, b net.Conn) (transport, transport) {
	t.Helper()
	keyA, keyB := newKey(t), newKey(t)
	ta, tb := newA(a, &keyB.PublicKey), newB(b, nil)
	type result struct {
		key *ecdsa.PublicKey
		err error
	}
	done := make(chan result, 1)
	go func() {
		key, err := tb.Handshake(keyB)
		done <- result{key, err}
	}()
	gotB, err := ta.Handshake(keyA)
	if err != nil {
		t.Fatal("initiator:", err)
	}
	r := <-done
	if r.err != nil {
		t.Fatal("recipient:", r.err)
	}
	if !reflect.DeepEqual(gotB, &keyB.PublicKey) || !reflect.DeepEqual(r.key, &keyA.PublicKey) {
		t.Fatal("wrong remote keys")
	}
	t.Cleanup(func() { ta.Close(); tb.Close() })
	return ta, tb
}

// pattern is compressible but not uniform, so that a slip of position shows.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = seed + byte(i/7) ^ byte(i>>9)
	}
	return b
}

func exchange(t *testing.T, from, to transport, code uint64, data []byte) {
	t.Helper()
	werr := make(chan error, 1)
	go func() {
		_, err := from.Write(code, data)
		werr <- err
	}()
	gotCode, got, _, err := to.Read()
	if err != nil {
		t.Fatalf("code %#x, %d bytes: read: %v", code, len(data), err)
	}
	if err := <-werr; err != nil {
		t.Fatalf("code %#x, %d bytes: write: %v", code, len(data), err)
	}
	if gotCode != code || !bytes.Equal(got, data) || got == nil {
		t.Fatalf("code %#x, %d bytes: got code %#x, %d bytes, equal: %v", code, len(data), gotCode, len(got), bytes.Equal(got, data))
	}
}

func TestInteropWithGoEthereum(t *testing.T) {
	codes := []uint64{0, 1, 16, 127, 128, 255, 256, 1 << 32, math.MaxUint64}
	sizes := []int{0, 1, 13, 14, 15, 16, 17, 120, 135, 136, 137, 64 << 10, 1 << 20}
	for _, pipe := range []struct {
		name string
		make func(testing.TB) (net.Conn, net.Conn)
	}{{"pipe", netPipe}, {"tcp", tcpPipe}} {
		for _, impl := range []struct {
			name string
			a, b func(net.Conn, *ecdsa.PublicKey) transport
		}{{"we-dial", newOurs, newGeth}, {"we-listen", newGeth, newOurs}, {"both-ours", newOurs, newOurs}} {
			for _, snappy := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/snappy=%v", pipe.name, impl.name, snappy), func(t *testing.T) {
					t.Parallel()
					ca, cb := pipe.make(t)
					a, b := handshakePair(t, impl.a, impl.b, ca, cb)
					a.SetSnappy(snappy)
					b.SetSnappy(snappy)
					for i, code := range codes {
						for j, size := range sizes {
							data := pattern(size, byte(i*16+j))
							exchange(t, a, b, code, data)
							exchange(t, b, a, code, data)
						}
					}
					// The largest message that fits a frame with its code.
					largest := pattern(maxUint24-1, 9)
					exchange(t, a, b, 16, largest)
					exchange(t, b, a, 16, largest)
					exchange(t, a, b, 17, []byte("after"))
				})
			}
		}
	}
}

func TestSizeErrorLeavesConnUsable(t *testing.T) {
	ca, cb := tcpPipe(t)
	a, b := handshakePair(t, newOurs, newGeth, ca, cb)
	for _, tc := range []struct {
		code uint64
		size int
	}{{0, maxUint24}, {128, maxUint24 - 1}, {0, maxUint24 + 1}, {math.MaxUint64, maxUint24 - 8}, {0, 1<<24 + 5}} {
		_, err := a.Write(tc.code, make([]byte, tc.size))
		var se *SizeError
		if !errors.Is(err, ErrMessageTooBig) || !errors.As(err, &se) || errors.Is(err, ErrProtocol) {
			t.Fatalf("code %d, %d bytes: %v", tc.code, tc.size, err)
		}
		exchange(t, a, b, 1, []byte("still here"))
	}
}

func TestEOF(t *testing.T) {
	ca, cb := tcpPipe(t)
	a, b := handshakePair(t, newOurs, newOurs, ca, cb)
	exchange(t, a, b, 3, nil)
	a.Close()
	for range 3 {
		if _, _, _, err := b.Read(); err != io.EOF {
			t.Fatalf("Read after the peer closed: %v, want io.EOF", err)
		}
	}
	if _, err := a.Write(3, nil); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("Write after Close: %v", err)
	}
	if _, _, _, err := a.Read(); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("Read after Close: %v", err)
	}
}
