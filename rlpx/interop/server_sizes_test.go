package interop

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/rlpx"
)

// TestServerLargestMessages exchanges the largest messages that fit with go-ethereum's p2p.Server:
// frames of 16 MiB - 1, and messages of 16 MiB - 1 where compression leaves less of them. What is
// one byte larger is refused here, before anything is sent.
func TestServerLargestMessages(t *testing.T) {
	s := startServer(t, 20)
	overRoles(t, func(t *testing.T, who role, version uint64) {
		mirror := s.session(t, who, mirrorConfig(version)).Capability(mirrorName)
		for _, tc := range []struct {
			id       uint64
			codeSize int // in RLP
			content  func(int) []byte
		}{
			{0, 1, compressible},
			{0, 1, incompressible},
			{quitID - 1, 4, incompressible},
		} {
			size := largestExactly(version, tc.codeSize, tc.content)
			data := tc.content(size + 1)
			if err := mirror.Write(tc.id, data); !errors.Is(err, rlpx.ErrMessageTooBig) {
				t.Errorf("id %#x, %d bytes: %v", tc.id, len(data), err)
			}
			expectEcho(t, mirror, tc.id, data[:size])
		}
		expectEcho(t, mirror, 0, nil)
		seenSizes(t, gethRow(t, gethServer, who, version))
	})
}

const maxUint24 = 1<<24 - 1

// largestExactly is the size of the largest message that fits. The frame takes the code as well,
// and what counts for the frame is the size after compression; the size before it is bounded too.
func largestExactly(version uint64, codeSize int, content func(int) []byte) int {
	size := maxUint24 - codeSize
	if version < 5 {
		return size
	}
	if len(snappy.Encode(nil, content(maxUint24))) <= size {
		return maxUint24
	}
	// What does not compress grows by as much at any size near this one.
	return size - (len(snappy.Encode(nil, content(size))) - size)
}

// largest is the size of a message that fits, under a code of one byte, if hardly any larger one
// does.
func largest(version uint64, compressible bool) int {
	switch {
	case version < 5:
		return maxUint24 - 1 // the frame has the code as well
	case compressible:
		return maxUint24 // a limit on the plain size
	default:
		return 1<<24 - 1024 // leaves what snappy adds
	}
}

func compressible(size int) []byte {
	return bytes.Repeat([]byte("RLPx "), size/5+1)[:size]
}

func incompressible(size int) []byte {
	data := make([]byte, size)
	rand.NewChaCha8([32]byte{byte(size)}).Read(data)
	return data
}
