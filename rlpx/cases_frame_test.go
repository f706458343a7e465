package rlpx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"testing"
	"time"

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
		for at := start; at < end; at++ {
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
	for _, size := range []int{openPiece + 1, 100 << 10, 3 << 20} {
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

func TestCase_F9_ManyMessagesBothWays(t *testing.T) {
	const messages = 1000
	conn, _, peer := rawOverPipe(t, nil)
	size := func(i int) int { return i * 7919 % 5001 }
	errs := make(chan error, 2)
	go func() {
		for i := range messages {
			if err := peer.SendMessage(uint64(i), pattern(size(i), byte(i))); err != nil {
				errs <- err
				return
			}
		}
		errs <- nil
	}()
	go func() {
		for i := range messages {
			f, err := peer.ReadFrame()
			if err != nil {
				errs <- err
				return
			}
			if !bytes.Equal(f.Data, rlpxtest.Data(uint64(i), pattern(size(i), byte(i)+1))) {
				errs <- fmt.Errorf("message %d of ours is not what was written", i)
				return
			}
		}
		errs <- nil
	}()
	go func() {
		for i := range messages {
			if _, err := conn.Write(uint64(i), pattern(size(i), byte(i)+1)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for i := range messages {
		wantRead(t, conn, uint64(i), pattern(size(i), byte(i)))
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
}

func TestCase_F10_AfterBadMAC(t *testing.T) {
	for _, at := range []int{0, headerSize, headerWire, headerWire + 16} {
		conn, counting, peer := rawOverTCP(t, nil)
		// A second good frame and more come with the bad one: none of it may be used.
		wire := sealing([]byte{1, 2, 3}, []byte{4, 5, 6})(peer.Egress)
		wire[at] ^= 4
		if err := peer.Send(wire); err != nil {
			t.Fatal(err)
		}
		text := badFrame
		if at < headerWire {
			text = badHeader
		}
		wantUnauthentic(t, conn, counting, text)
		if conn.ConnectionState().PeerProven {
			t.Error("proven by a bad MAC")
		}
	}
}

// Whatever an authentic peer gets wrong is one class of error, and it can be told so.
func TestCase_F12_OneClassForBreaches(t *testing.T) {
	huge := []byte{0x10, 0x80, 0x80, 0x80, 0x08}
	for _, tc := range []struct {
		name   string
		data   []byte
		snappy bool
		cfg    *Config
		code   uint64 // returned with the error
		text   string
	}{
		{"code 00", []byte{0x00}, false, nil, 0, "invalid message code"},
		{"code not canonical", []byte{0x81, 0x05}, false, nil, 0, "invalid message code"},
		{"code with leading zero", []byte{0x82, 0x00, 0x80}, false, nil, 0, "invalid message code"},
		{"code cut", []byte{0x82, 0x01}, false, nil, 0, "invalid message code"},
		{"code of nine bytes", []byte{0x89, 1, 2, 3, 4, 5, 6, 7, 8, 9}, false, nil, 0, "invalid message code"},
		{"code a long string", []byte{0xB8, 0x01, 0x05}, false, nil, 0, "invalid message code"},
		{"code a list", []byte{0xC1, 0x05}, false, nil, 0, "invalid message code"},
		{"code a long list", []byte{0xFF}, false, nil, 0, "invalid message code"},
		{"message over the limit", rlpxtest.Data(0x10, make([]byte, 101)), false, &Config{MaxMessageSize: 100}, 0x10, "message too big"},
		{"frame over the limit", rlpxtest.Data(0x10, make([]byte, 200)), false, &Config{MaxMessageSize: 100}, 0, "message too big"},
		{"snappy: no payload", []byte{0x10}, true, nil, 0x10, "0 bytes on the wire"},
		{"snappy: corrupt", []byte{0x10, 0x05, 0x00}, true, nil, 0x10, "2 bytes on the wire"},
		{"snappy: varint cut", []byte{0x10, 0xFF}, true, nil, 0x10, "1 bytes on the wire"},
		{"snappy: declares too much", huge, true, nil, 0x10, "message too big"},
		{"snappy: over the limit", rlpxtest.Data(0x10, snappy.Encode(nil, make([]byte, 101))), true, &Config{MaxMessageSize: 100}, 0x10, "message too big"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn, counting, peer := rawOverTCP(t, tc.cfg)
			conn.SetSnappy(tc.snappy)
			if err := peer.Send(sealing(tc.data, []byte{0x05, 0x00})(peer.Egress)); err != nil {
				t.Fatal(err)
			}
			code, data, _, err := conn.Read()
			if !errors.Is(err, ErrProtocol) || errors.Is(err, ErrAuthentication) || !bytes.Contains([]byte(err.Error()), []byte(tc.text)) {
				t.Fatalf("Read: %v", err)
			}
			if code != tc.code || data != nil {
				t.Fatalf("code %#x, data %x with %v, want code %#x", code, data, err, tc.code)
			}
			wantDead(t, conn, counting, err)
			conn.SetSnappy(false)
			if _, err := conn.Write(1, []byte{0xC1, 0x02}); err != nil {
				t.Fatal("saying why:", err)
			}
			if f, err := peer.ReadFrame(); err != nil || !bytes.Equal(f.Data, []byte{1, 0xC1, 0x02}) {
				t.Fatalf("the peer received %x, %v", f.Data, err)
			}
			if n := counting.Closes.Load(); n != 0 {
				t.Errorf("closed %d times by a breach", n)
			}
		})
	}
}

func TestCase_F13_FrameSizeAndMessageSize(t *testing.T) {
	zeros := make([]byte, 1<<20)
	block := snappy.Encode(nil, zeros)

	conn, _, peer := rawOverTCP(t, nil)
	conn.SetSnappy(true)
	wireSize, err := conn.Write(0x80, zeros)
	if err != nil || int(wireSize) != len(block) {
		t.Fatalf("Write: %d, %v, want %d", wireSize, err, len(block))
	}
	f, err := peer.ReadFrame()
	if err != nil || f.Header.Size() != 2+len(block) || !bytes.Equal(f.Data[2:], block) {
		t.Fatalf("header declares %d, want %d; %v", f.Header.Size(), 2+len(block), err)
	}

	// The plain size counts against the plain limit, the wire size against the wire limit.
	for _, tc := range []struct {
		name       string
		plain      int // MaxMessageSize
		wire       int // SetReadLimit
		ok         bool
		size, over int
	}{
		{"at both limits", len(zeros), 2 + len(block), true, 0, 0},
		{"over the plain limit", len(zeros) - 1, 2 + len(block), false, len(zeros), len(zeros) - 1},
		{"over the wire limit", len(zeros), 1 + len(block), false, 2 + len(block), 1 + len(block)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn, _, _ := recorded(&Config{MaxMessageSize: tc.plain}, nil, sealing(rlpxtest.Data(0x80, block)))
			conn.SetSnappy(true)
			conn.SetReadLimit(tc.wire)
			code, data, wireSize, err := conn.Read()
			if tc.ok {
				if err != nil || code != 0x80 || !bytes.Equal(data, zeros) || wireSize != len(block) {
					t.Fatalf("Read: %#x, %d bytes, %d on the wire, %v", code, len(data), wireSize, err)
				}
				return
			}
			var size *SizeError
			if !errors.As(err, &size) || !size.Read || size.Size != tc.size || size.Limit != tc.over || data != nil {
				t.Fatalf("Read: %v, want size %d over %d", err, tc.size, tc.over)
			}
		})
	}
}

// No failure of reading gets lost on the way to the caller.
func TestCase_F15_ReadNeverSwallowsAnError(t *testing.T) {
	fault := errors.New("fault of the net.Conn")
	payload := pattern(100, 3)
	frame := headerWire + rlpxtest.Padded(len(payload)+1) + 16
	for _, snappyOn := range []bool{false, true} {
		for k := range frame {
			for _, tc := range []struct {
				name     string
				err      error
				together bool
			}{{"EOF", io.EOF, false}, {"EOF with the last bytes", io.EOF, true}, {"timeout", rlpxtest.Timeout, false}, {"fault", fault, false}, {"fault with the last bytes", fault, true}} {
				conn, _, _ := recorded(nil, func(c net.Conn) net.Conn { return rlpxtest.FailRead(c, k, tc.err, tc.together) }, sealing(rlpxtest.Data(9, payload)))
				conn.SetSnappy(snappyOn)
				code, data, size, err := conn.Read()
				if code != 0 || data != nil || size != 0 {
					t.Fatalf("%s after %d bytes: %#x, %x, %d with error %v", tc.name, k, code, data, size, err)
				}
				want := tc.err
				if want == io.EOF && k > 0 {
					want = io.ErrUnexpectedEOF
				}
				if err != want {
					t.Fatalf("%s after %d bytes: %v, want %v", tc.name, k, err, want)
				}
			}
		}
	}
	// With the last byte of a frame: the message is whole and comes first.
	conn, _, _ := recorded(nil, func(c net.Conn) net.Conn { return rlpxtest.FailRead(c, frame, fault, true) }, sealing(rlpxtest.Data(9, payload)))
	wantRead(t, conn, 9, payload)
	for range 3 {
		if _, _, _, err := conn.Read(); err != fault {
			t.Fatalf("Read: %v, want the fault", err)
		}
	}
}

// Both directions use one key and one IV. That is the protocol, and not to be "improved" here.
func TestCase_F16_OneKeystream(t *testing.T) {
	sa, sb := rlpxtest.NewSecrets(16)
	a, b := rlpxtest.NewScript(nil), rlpxtest.NewScript(nil)
	ca, cb := initConn(a, nil, sa), initConn(b, nil, sb)
	for _, c := range []*Conn{ca, cb} {
		if _, err := c.Write(5, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	wa, wb := a.Written(), b.Written()
	if !bytes.Equal(wa[:headerSize], wb[:headerSize]) {
		t.Error("equal headers, different keystreams")
	}
	if bytes.Equal(wa[headerSize:headerWire], wb[headerSize:headerWire]) {
		t.Error("the directions share a MAC state")
	}
	if n := rlpxtest.Padded(101); !bytes.Equal(wa[headerWire:headerWire+n], wb[headerWire:headerWire+n]) {
		t.Error("equal frame data, different keystreams")
	}
}

// A dead connection stays dead with deadlines too.
func TestDeadlineAfterFatalError(t *testing.T) {
	conn, counting, _ := recorded(nil, nil, sealing())
	_, _, _, err := conn.Read()
	if err != io.EOF {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	wantDead(t, conn, counting, io.EOF)
}
