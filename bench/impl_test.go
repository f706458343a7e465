package bench

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	gethrlpx "github.com/ethereum/go-ethereum/p2p/rlpx"

	"github.com/go-rlpx/transport/internal/txdata"
	"github.com/go-rlpx/transport/rlpx"
)

// transport is what the Conn of both implementations can do.
type transport interface {
	Handshake(prv *ecdsa.PrivateKey) (*ecdsa.PublicKey, error)
	Read() (code uint64, data []byte, wireSize int, err error)
	Write(code uint64, data []byte) (wireSize uint32, err error)
	SetSnappy(enabled bool)
	Close() error
}

// impl is an implementation under test.
type impl struct {
	name string

	// dial wraps conn for a handshake, as the initiator if dest is not nil.
	dial func(conn net.Conn, dest *ecdsa.PublicKey) transport

	// resume starts a session without a handshake.
	resume func(conn net.Conn, s secrets) transport
}

// The reference comes first: benchstat makes the first column its base.
var impls = []impl{{
	name: "geth",
	dial: func(conn net.Conn, dest *ecdsa.PublicKey) transport { return gethrlpx.NewConn(conn, dest) },
	resume: func(conn net.Conn, s secrets) transport {
		c := gethrlpx.NewConn(conn, nil)
		c.InitWithSecrets(gethrlpx.Secrets{AES: s.aes, MAC: s.mac, EgressMAC: seeded(s.egress), IngressMAC: seeded(s.ingress)})
		return c
	},
}, {
	name: "rlpx",
	dial: func(conn net.Conn, dest *ecdsa.PublicKey) transport { return rlpx.NewConn(conn, dest) },
	resume: func(conn net.Conn, s secrets) transport {
		c := rlpx.NewConn(conn, nil)
		c.InitWithSecrets(rlpx.Secrets{AES: s.aes, MAC: s.mac, EgressMAC: seeded(s.egress), IngressMAC: seeded(s.ingress)})
		return c
	},
}}

// sharing returns the implementation with connections that share hashing, if it can do that.
func (im impl) sharing() impl {
	if im.name == "rlpx" {
		im.resume = shared.resume
	}
	return im
}

// reference makes the recordings that both implementations read.
var reference = impls[0]

// each runs one row for every implementation. The implementation is the
// innermost part of the name, so the two sides of a ratio are measured one right after the other.
func each(b *testing.B, row string, run func(b *testing.B, im impl)) {
	for _, im := range impls {
		b.Run(row+"/impl="+im.name, func(b *testing.B) { run(b, im) })
	}
}

// secrets are those of one end of a session.
type secrets struct {
	aes, mac        []byte
	egress, ingress []byte // what the MAC states have absorbed
}

// newSecrets makes the secrets of session number n.
func newSecrets(n int) secrets {
	derive := func(label string) []byte {
		return crypto.Keccak256(binary.BigEndian.AppendUint64([]byte(label), uint64(n)))
	}
	// As long as the auth and ack packets that a handshake leaves in the states.
	seed := func(label string) []byte {
		var s []byte
		for i := range 16 {
			s = append(s, derive(fmt.Sprint(label, i))...)
		}
		return s[:500]
	}
	return secrets{aes: derive("aes"), mac: derive("mac"), egress: seed("egress"), ingress: seed("ingress")}
}

// peer returns the secrets of the other end.
func (s secrets) peer() secrets {
	s.egress, s.ingress = s.ingress, s.egress
	return s
}

// seeded returns the kind of state that go-ethereum's handshake makes: what it
// hashes with is part of what is compared.
func seeded(seed []byte) crypto.KeccakState {
	h := crypto.NewKeccakState()
	h.Write(seed)
	return h
}

// pair returns the two ends of session number n.
func pair(tb testing.TB, im impl, network string, n int, snappy bool) (a, b transport) {
	tb.Helper()
	ca, cb := connect(tb, network)
	s := newSecrets(n)
	a, b = im.resume(ca, s), im.resume(cb, s.peer())
	a.SetSnappy(snappy)
	b.SetSnappy(snappy)
	tb.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// msgCode is the message code of everything that is sent: the first that a
// capability can have.
const msgCode = 16

// largest is what names call size=16MiB: the largest message, whose frame data, with
// one byte of code, fills the 24 bits of a frame's size. TestBenchmarks has no time for that much.
var largest = 1<<24 - 2

// transactions is what most payloads are the beginning of.
var transactions = sync.OnceValue(func() []byte { return txdata.Make(1 << 20) })

// payload returns size bytes of a list of transactions, of which snappy leaves two thirds.
func payload(size int) []byte {
	if size > len(transactions()) {
		return txdata.Make(size)
	}
	return bytes.Clone(transactions()[:size])
}

// size is a number of bytes that prints as benchmark names have it.
type size int

func (s size) String() string {
	switch {
	case s >= 1<<20 && s%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", s>>20)
	case s >= 1<<10 && s%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", s>>10)
	default:
		return fmt.Sprintf("%dB", int(s))
	}
}

// onOff names a switch.
func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// forEach runs a row for every size, plain and compressed.
func forEach(b *testing.B, sizes []size, run func(b *testing.B, im impl, size size, snappy bool)) {
	for _, size := range sizes {
		for _, snappy := range []bool{false, true} {
			each(b, fmt.Sprintf("size=%v/snappy=%s", size, onOff(snappy)), func(b *testing.B, im impl) {
				run(b, im, size, snappy)
			})
		}
	}
}

// mustRead fails the benchmark unless the next message is one of size bytes.
func mustRead(b *testing.B, c transport, size int) {
	code, data, _, err := c.Read()
	if err != nil || code != msgCode || len(data) != size {
		fail(b, fmt.Errorf("read code %d, %d bytes, error %v; want code %d, %d bytes", code, len(data), err, msgCode, size))
	}
}

// mustWrite fails the benchmark unless data can be sent.
func mustWrite(b testing.TB, c transport, data []byte) {
	if _, err := c.Write(msgCode, data); err != nil {
		fail(b, err)
	}
}

// failure is why a benchmark failed: testing.Benchmark keeps that to itself, and TestBenchmarks
// wants to say.
var failure error

func fail(b testing.TB, err error) {
	failure = fmt.Errorf("%s: %w", b.Name(), err)
	b.Fatal(err)
}
