package p2p

import (
	"encoding/hex"
	"runtime"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/rlp"
)

// eip8Hello is the payload of the Hello packet in the test vectors of EIP-8
// (https://eips.ethereum.org/EIPS/eip-8, "Hello packet").
const eip8Hello = "f87137916b6e6574682f76302e39312f706c616e39cdc5836574683dc6846d6f726b16" +
	"82270fb840fda1cff674c90c9a197539fe3dfb53086ace64f83ed7c6eabec741f7f381cc803e52ab2cd55d5569" +
	"bce4347107a310dfd5f88a010cd2ffd1005ca406f1842877c883666f6f836261720304"

const eip8ID = "fda1cff674c90c9a197539fe3dfb53086ace64f83ed7c6eabec741f7f381cc80" +
	"3e52ab2cd55d5569bce4347107a310dfd5f88a010cd2ffd1005ca406f1842877"

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func testID(t testing.TB) [IDLength]byte { return [IDLength]byte(unhex(t, eip8ID)) }

// Builders of arbitrary RLP: what AppendHello would not write.

func str(b []byte) []byte {
	out, err := rlp.EncodeToBytes(b)
	if err != nil {
		panic(err)
	}
	return out
}

func num(v uint64) []byte { return rlp.AppendUint64(nil, v) }

func list(items ...[]byte) []byte {
	raw := make([]rlp.RawValue, len(items))
	for i := range items {
		raw[i] = items[i]
	}
	out, err := rlp.EncodeToBytes(raw)
	if err != nil {
		panic(err)
	}
	return out
}

func pair(name string, version uint64) []byte { return list(str([]byte(name)), num(version)) }

// helloParts returns the five encoded elements of a good Hello, for a test to replace some.
func helloParts(t testing.TB) [][]byte {
	id := testID(t)
	return [][]byte{num(5), str([]byte("peer/v1")), list(pair("eth", 68)), num(30303), str(id[:])}
}

const (
	partVersion = iota
	partName
	partCaps
	partPort
	partID
)

// helloWith returns a Hello payload with one element replaced.
func helloWith(t testing.TB, part int, enc []byte) []byte {
	parts := helloParts(t)
	parts[part] = enc
	return list(parts...)
}

// checkText fails if an error text is long or carries bytes that a terminal acts upon.
func checkText(t testing.TB, text string) {
	t.Helper()
	if len(text) >= 512 {
		t.Errorf("text of %d bytes", len(text))
	}
	for i := range len(text) {
		if !isPrintable(text[i]) {
			t.Errorf("text has byte %#02x: %q", text[i], text)
			return
		}
	}
}

// bytesPerRun measures what f allocates, in bytes on average.
func bytesPerRun(f func()) uint64 {
	const runs = 100
	var before, after runtime.MemStats
	f()
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / runs
}

// helloOfSize returns a good Hello payload of exactly n bytes, n over 1000.
func helloOfSize(t testing.TB, n int) []byte {
	t.Helper()
	payload := helloWith(t, partName, str(make([]byte, 500)))
	payload = helloWith(t, partName, str(make([]byte, 500+n-len(payload))))
	if len(payload) != n {
		t.Fatalf("built %d bytes, want %d", len(payload), n)
	}
	return payload
}
