package txdata

import (
	"bytes"
	"testing"

	"github.com/ethereum/go-ethereum/rlp"
	"github.com/golang/snappy"
)

// What it compresses to is what benchmarks with it are about.
func TestCompressesLikeTransactions(t *testing.T) {
	for _, tc := range []struct {
		size      int
		low, high float64
	}{{128, 0.7, 1.1}, {1 << 10, 0.65, 0.9}, {16 << 10, 0.6, 0.66}, {128 << 10, 0.6, 0.66}, {1 << 20, 0.6, 0.66}} {
		data := Make(tc.size)
		if len(data) != tc.size {
			t.Fatalf("%d bytes, want %d", len(data), tc.size)
		}
		if r := float64(len(snappy.Encode(nil, data))) / float64(tc.size); r < tc.low || r > tc.high {
			t.Errorf("%d bytes compress to %.3f, want %v to %v", tc.size, r, tc.low, tc.high)
		}
	}
	if !bytes.Equal(Make(5000), Make(9000)[:5000]) {
		t.Error("it is not the same each time")
	}
}

// All but the last are whole.
func TestHoldsTransactions(t *testing.T) {
	s := rlp.NewStream(bytes.NewReader(Make(64<<10)), 0)
	n := 0
	for {
		raw, err := s.Bytes()
		if err != nil {
			break
		}
		var tx transaction
		if len(raw) == 0 || raw[0] != 2 {
			t.Fatalf("transaction %d is of no known type", n)
		}
		if err := rlp.DecodeBytes(raw[1:], &tx); err != nil || tx.ChainID != chainID {
			t.Fatalf("transaction %d: %+v, error %v", n, tx, err)
		}
		n++
	}
	if n < 150 {
		t.Errorf("only %d transactions", n)
	}
}
