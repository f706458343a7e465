package rlpx

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// The tests named TestCase_F... are field bugs of other transports in framing and MAC.

// A header that declares no frame data is refused when it verifies: nothing else is sent here.
func TestCase_F1_ZeroFrame(t *testing.T) {
	for _, data := range [][]byte{nil, rlpxtest.HeaderData, bytes.Repeat([]byte{0xFF}, 13)} {
		conn, counting, peer := rawOverPipe(t, nil)
		go peer.Send(peer.Egress.SealHeader(rlpxtest.MakeHeader(0, data)))
		_, _, _, err := conn.Read()
		if !errors.Is(err, ErrProtocol) || errors.Is(err, ErrAuthentication) {
			t.Fatalf("header data %x: %v", data, err)
		}
		wantDead(t, conn, counting, err)

		// The peer can still be told why.
		go conn.Write(1, []byte{0xC1, 0x02})
		f, err := peer.ReadFrame()
		if err != nil || !bytes.Equal(f.Data, []byte{0x01, 0xC1, 0x02}) {
			t.Fatalf("Disconnect after a zero frame: %x, %v", f.Data, err)
		}
	}
}

func TestCase_F2_EveryByteDamaged(t *testing.T) {
	const before = 3 // messages that are intact
	for _, size := range []int{1, 15, 16, 33, 300} {
		payload := pattern(size-1, 0x33)
		var start, end int
		build := func(peer *rlpxtest.Direction) []byte {
			wire := sealing([]byte{0x80}, []byte{1, 2, 3}, []byte{4})(peer)
			start = len(wire)
			wire = append(wire, peer.Seal(rlpxtest.Data(5, payload))...)
			end = len(wire)
			return wire
		}
		recorded(nil, nil, build) // for start and end
		step := 1
		if testing.Short() {
			step = 3
		}
		for at := start; at < end; at += step {
			for _, bits := range []byte{0x01, 0x80} {
				conn, counting, _ := recorded(nil, func(c net.Conn) net.Conn { return rlpxtest.Damage(c, at, bits) }, build)
				for range before {
					if _, _, _, err := conn.Read(); err != nil {
						t.Fatal("intact message:", err)
					}
				}
				text := badFrame
				if at < start+headerWire {
					text = badHeader
				}
				wantUnauthentic(t, conn, counting, text)
			}
		}
	}
}

// A large frame is decrypted while it arrives; damage anywhere in it must still show nothing.
func TestCase_F2_DamageInStreamedFrame(t *testing.T) {
	sizes := []int{openPiece + 1, 100 << 10, 3 << 20}
	if testing.Short() {
		sizes = sizes[:2]
	}
	for _, size := range sizes {
		data := pattern(size, 7)
		data[0] = 7
		wire := rlpxtest.Padded(size) + headerWire + 16
		for _, at := range []int{headerWire, headerWire + smallBuffer, headerWire + burstBuffer - 33, wire / 2, wire - 17, wire - 16, wire - 1} {
			conn, counting, _ := recorded(nil, func(c net.Conn) net.Conn { return rlpxtest.Damage(c, min(at, wire-1), 0x10) }, sealing(data, []byte{1}))
			wantUnauthentic(t, conn, counting, badFrame)
		}
	}
}

func TestCase_F3_LargestFrame(t *testing.T) {
	conn, counting, peer := rawOverTCP(t, nil)
	incompressible := rlpxtest.Random(rand.New(rand.NewPCG(3, 3)), maxUint24)
	for _, tc := range []struct {
		name   string
		code   uint64
		size   int
		snappy bool
		ok     bool
	}{
		{"largest", 16, maxUint24 - 1, false, true},
		{"one more", 16, maxUint24, false, false},
		{"largest, code of two bytes", 0x80, maxUint24 - 2, false, true},
		{"one more, code of two bytes", 0x80, maxUint24 - 1, false, false},
		{"largest, code of nine bytes", math.MaxUint64, maxUint24 - 9, false, true},
		{"one more, code of nine bytes", math.MaxUint64, maxUint24 - 8, false, false},
		{"2^24", 0, 1 << 24, false, false},
		{"2^24+5, which would wrap", 0, 1<<24 + 5, false, false},
		{"plain fits, compressed does not", 16, maxUint24, true, false},
		{"plain over the limit, compressed not", 16, 1 << 24, true, false},
		{"largest plain", 16, maxUint24, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data := make([]byte, tc.size)
			if tc.name == "plain fits, compressed does not" {
				copy(data, incompressible)
			}
			conn.SetSnappy(tc.snappy)
			written := counting.BytesWritten.Load()
			type result struct {
				frame rlpxtest.Frame
				err   error
			}
			got := make(chan result, 1)
			receive := func() {
				f, err := peer.ReadFrame()
				got <- result{f, err}
			}
			if tc.ok {
				go receive()
				if _, err := conn.Write(tc.code, data); err != nil {
					t.Fatal(err)
				}
				r := <-got
				if r.err != nil {
					t.Fatal(r.err)
				}
				want := data
				if tc.snappy {
					want = snappy.Encode(nil, data)
				} else if r.frame.Header.Size() != maxUint24 {
					t.Errorf("header declares %d", r.frame.Header.Size())
				}
				if !bytes.Equal(r.frame.Data, rlpxtest.Data(tc.code, want)) {
					t.Error("the peer received something else")
				}
				return
			}
			_, err := conn.Write(tc.code, data)
			var size *SizeError
			if !errors.Is(err, ErrMessageTooBig) || !errors.As(err, &size) || size.Read || errors.Is(err, ErrProtocol) {
				t.Fatalf("Write: %v", err)
			}
			if n := counting.BytesWritten.Load() - written; n != 0 {
				t.Fatalf("%d bytes on the wire for a message that was refused", n)
			}
			conn.SetSnappy(false)
			go receive()
			if _, err := conn.Write(3, []byte("after")); err != nil {
				t.Fatal(err)
			}
			if r := <-got; r.err != nil || string(r.frame.Data) != "\x03after" {
				t.Fatalf("small message after the refusal: %q, %v", r.frame.Data, r.err)
			}
		})
	}
}

func TestCase_F4_HeaderData(t *testing.T) {
	t.Run("sent", func(t *testing.T) {
		conn, _, peer := rawOverPipe(t, nil)
		for _, size := range []int{0, 1, 15, 5000, wholeFrame + 1} {
			go conn.Write(200, make([]byte, size))
			f, err := peer.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			if want := rlpxtest.MakeHeader(2+size, []byte{0xC2, 0x80, 0x80}); f.Header != want {
				t.Errorf("%d bytes: header %x, want %x", size, f.Header, want)
			}
		}
	})
	t.Run("ignored", func(t *testing.T) {
		for _, data := range [][]byte{
			{0xC0}, {0xC2, 0x80, 0x80}, {0xC2, 0x01, 0x02}, {0xC3, 0x01, 0x02, 0x03},
			bytes.Repeat([]byte{0xFF}, 13), make([]byte, 13), {0x00}, {0xB8},
		} {
			frame := []byte{0x11, 1, 2, 3}
			conn, _, _ := recorded(nil, nil, func(peer *rlpxtest.Direction) []byte {
				wire := append(peer.SealHeader(rlpxtest.MakeHeader(len(frame), data)), peer.SealData(frame)...)
				return append(wire, peer.Seal([]byte{0x12})...)
			})
			wantRead(t, conn, 0x11, frame[1:])
			wantRead(t, conn, 0x12, nil)
		}
	})
}

// Headers of the chunked frames that the protocol once had mean nothing: each frame is a message.
func TestCase_F6_ChunkedFrames(t *testing.T) {
	chunk := pattern(1024, 1)
	ours, theirs := net.Pipe()
	conn, _, peer := rawSession(t, nil, ours, theirs)
	allocated := rlpxtest.TotalAlloc(func() {
		for i, data := range [][]byte{
			{0xC5, 0x80, 0x01, 0x82, 0x10, 0x00},       // first of a total of 4096
			{0xC2, 0x80, 0x01},                         // next
			{0xC6, 0x80, 0x01, 0x83, 0xFF, 0xFF, 0xFF}, // first of a total of 16 MiB
			{0xC2, 0x80, 0x01},
		} {
			frame := rlpxtest.Data(uint64(0x20+i), chunk)
			go peer.SendFrame(rlpxtest.MakeHeader(len(frame), data), frame)
			wantRead(t, conn, uint64(0x20+i), chunk)
		}
	})
	if allocated > 64<<10 {
		t.Errorf("%d bytes allocated for four small frames", allocated)
	}
}

// The bytes of a session, handshake included, mean the same however they are cut.
func TestCase_F7_Delivery(t *testing.T) {
	ourKey, peerKey := newKey(t), newKey(t)
	cfg := func() *Config { return &Config{Key: ourKey, Rand: fixedRand(1)} }

	// Record what a peer sends to a recipient whose randomness is fixed, so that it repeats.
	sizes := []int{0, 1, 15, 16, 17, 31, 32, 33, 4096}
	var wire []byte
	{
		ours, theirs := net.Pipe()
		conn := Server(ours, cfg())
		done := make(chan error, 1)
		go func() {
			_, err := conn.HandshakeContext(t.Context())
			done <- err
		}()
		recording := &rlpxtest.Filter{Conn: theirs, OnWrite: func(inner net.Conn, p []byte) (int, error) {
			wire = append(wire, p...)
			return inner.Write(p)
		}}
		peer, err := rlpxtest.Dial(t.Context(), recording, peerKey, &ourKey.PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		for i, size := range sizes {
			wire = append(wire, peer.Egress.Seal(rlpxtest.Data(uint64(i), pattern(size, byte(i))))...)
		}
		conn.Close()
	}
	auth := 2 + int(wire[0])<<8 + int(wire[1])

	replay := func(t *testing.T, wrap func(net.Conn) net.Conn) {
		t.Helper()
		conn := Server(wrap(rlpxtest.NewScript(wire)), cfg())
		key, err := conn.HandshakeContext(t.Context())
		if err != nil || !key.Equal(&peerKey.PublicKey) {
			t.Fatalf("handshake: %v, %v", key, err)
		}
		for i, size := range sizes {
			wantRead(t, conn, uint64(i), pattern(size, byte(i)))
		}
		wantClean(t, conn)
	}
	t.Run("one byte a read", func(t *testing.T) { replay(t, rlpxtest.OneByte) })
	t.Run("large reads", func(t *testing.T) { replay(t, func(c net.Conn) net.Conn { return c }) })
	t.Run("split in the handshake", func(t *testing.T) {
		step := 1
		if raceEnabled {
			step = 9
		}
		for k := 1; k <= auth+headerWire; k += step {
			replay(t, func(c net.Conn) net.Conn { return rlpxtest.SplitAt(c, k) })
		}
	})
	t.Run("split in the frames", func(t *testing.T) {
		var data [][]byte
		for i, size := range sizes {
			data = append(data, rlpxtest.Data(uint64(i), pattern(size, byte(i))))
		}
		for k := 1; k < len(wire)-auth; k++ {
			conn, _, _ := recorded(nil, func(c net.Conn) net.Conn { return rlpxtest.SplitAt(c, k) }, sealing(data...))
			for i, size := range sizes {
				wantRead(t, conn, uint64(i), pattern(size, byte(i)))
			}
			wantClean(t, conn)
		}
	})
}

func fixedRand(seed byte) io.Reader { return rand.NewChaCha8([32]byte{seed}) }
