package handshake

import (
	"net"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/crypto/secp256k1"
	gethrlpx "github.com/ethereum/go-ethereum/p2p/rlpx"
)

// oursOverPipe and gethOverPipe do one handshake, both sides, over the same kind of connection.
func oursOverPipe(tb testing.TB, a, b testKey) {
	c1, c2 := net.Pipe()
	errc := make(chan error, 1)
	go func() {
		_, err := Respond(tb.Context(), c2, b.PrivateKey, nil, nil)
		errc <- err
	}()
	if _, err := Initiate(tb.Context(), c1, a.PrivateKey, &b.PublicKey, nil); err != nil {
		tb.Fatal(err)
	}
	if err := <-errc; err != nil {
		tb.Fatal(err)
	}
}

func gethOverPipe(tb testing.TB, a, b testKey) {
	c1, c2 := net.Pipe()
	errc := make(chan error, 1)
	go func() {
		_, err := gethrlpx.NewConn(c2, nil).Handshake(b.PrivateKey)
		errc <- err
	}()
	if _, err := gethrlpx.NewConn(c1, &b.PublicKey).Handshake(a.PrivateKey); err != nil {
		tb.Fatal(err)
	}
	if err := <-errc; err != nil {
		tb.Fatal(err)
	}
}

func BenchmarkHandshake(b *testing.B) {
	initiator, recipient := newTestKey(b), newTestKey(b)
	for _, impl := range []struct {
		name string
		run  func(testing.TB, testKey, testKey)
	}{{"rlpx", oursOverPipe}, {"geth", gethOverPipe}} {
		b.Run("impl="+impl.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				impl.run(b, initiator, recipient)
			}
		})
	}
}

// BenchmarkRefuse is what a packet of each kind costs before it is turned down.
func BenchmarkRefuse(b *testing.B) {
	key := newTestKey(b)
	for _, tt := range []struct {
		name  string
		bytes []byte
	}{
		{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n")},
		{"TLS", []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")},
		{"size", []byte{0, 112}},
		{"point", append([]byte{1, 0x1a, 4}, make([]byte, 281)...)},
	} {
		b.Run("packet="+tt.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Respond(b.Context(), newScript(tt.bytes), key.PrivateKey, nil, nil); err == nil {
					b.Fatal("accepted")
				}
			}
		})
	}
}

// TestAllocations keeps the whole handshake, both sides, at no more than a third of go-ethereum's
// allocations. The Go fallback for secp256k1 allocates in every multiplication, which is not ours
// to change, so there only less is asked.
func TestAllocations(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	ours := testing.AllocsPerRun(50, func() { oursOverPipe(t, a, b) })
	geths := testing.AllocsPerRun(50, func() { gethOverPipe(t, a, b) })
	t.Logf("allocations of a handshake: %.0f, go-ethereum %.0f", ours, geths)
	limit := geths / 3
	if _, cgo := any(crypto.S256()).(*secp256k1.BitCurve); !cgo {
		limit = geths * 2 / 3
	}
	if ours > limit {
		t.Errorf("%.0f allocations, want at most %.0f", ours, limit)
	}
}
