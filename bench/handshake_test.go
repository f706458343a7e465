package bench

import (
	"crypto/ecdsa"
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
)

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// BenchmarkHandshake is a full handshake, both sides, over net.Pipe. A
// handshake leaves nothing in the pipe, so one pipe serves them all and its making is not measured.
func BenchmarkHandshake(b *testing.B) {
	each(b, "net=pipe", func(b *testing.B, im impl) {
		initiator, recipient := newKey(b), newKey(b)
		ca, cb := connect(b, "pipe")
		defer ca.Close()
		start, answered := make(chan struct{}), make(chan error, 1)
		defer close(start)
		go func() {
			for range start {
				_, err := im.dial(cb, nil).Handshake(recipient)
				if err != nil {
					cb.Close() // or the initiator would wait for ever
				}
				answered <- err
			}
		}()
		b.ReportAllocs()
		var cpu cpuMeter
		cpu.start()
		for b.Loop() {
			start <- struct{}{}
			_, err := im.dial(ca, &recipient.PublicKey).Handshake(initiator)
			if err != nil {
				ca.Close()
			}
			if err := errors.Join(err, <-answered); err != nil {
				fail(b, err)
			}
		}
		cpu.report(b)
	})
}

// BenchmarkRefuse is what it costs a recipient to turn down what is no auth packet.
func BenchmarkRefuse(b *testing.B) {
	key := newKey(b)
	// What an honest size announces, so that nothing is refused for being short.
	body := payload(2100)
	for _, packet := range []struct {
		name  string
		bytes []byte
	}{
		{"http", []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")},
		{"tls", append([]byte{0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03}, body...)},
		{"too-short", append([]byte{0, 112}, body...)},
		{"too-long", append([]byte{8, 1}, body...)},
		{"no-point", append([]byte{1, 24, 4}, body...)},
	} {
		each(b, "packet="+packet.name, func(b *testing.B, im impl) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := im.dial(&tape{rest: packet.bytes}, nil).Handshake(key); err == nil {
					fail(b, errors.New("accepted"))
				}
			}
		})
	}
}
