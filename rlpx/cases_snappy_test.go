package rlpx

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// The tests named TestCase_S... are field bugs of other transports in compression.

func TestCase_S1_DeclaredLength(t *testing.T) {
	uvarint := func(n uint64) []byte { return binary.AppendUvarint(nil, n) }
	for _, tc := range []struct {
		name    string
		payload []byte
		cfg     *Config
		tooBig  bool
	}{
		{"2^24", []byte{0x80, 0x80, 0x80, 0x08}, nil, true},
		{"4 GiB - 1", []byte{0xFF, 0xFF, 0xFF, 0xFF, 0x0F}, nil, true},
		{"2^31", uvarint(1 << 31), nil, true},
		{"2^24-1 of nothing", []byte{0xFF, 0xFF, 0xFF, 0x07}, nil, false},
		{"2^24-1 of ten bytes", append([]byte{0xFF, 0xFF, 0xFF, 0x07}, 1, 2, 3, 4, 5, 6), nil, false},
		{"at the limit of nothing", uvarint(1 << 20), &Config{MaxMessageSize: 1 << 20}, false},
		{"over the limit", uvarint(1<<20 + 1), &Config{MaxMessageSize: 1 << 20}, true},
		{"over the limit of the code", uvarint(2001), &Config{MessageLimit: func(uint64) int { return 2000 }}, true},
		{"over 4 GiB", []byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01}, nil, false}, // no length in snappy's format
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn, counting, peer := rawOverTCP(t, tc.cfg)
			conn.SetSnappy(true)
			if err := peer.Send(sealing([]byte{0x11, 0x00}, rlpxtest.Data(0x10, tc.payload))(peer.Egress)); err != nil {
				t.Fatal(err)
			}
			wantRead(t, conn, 0x11, nil) // so that what a first read costs is not counted
			var code uint64
			var data []byte
			var err error
			allocated := rlpxtest.TotalAlloc(func() { code, data, _, err = conn.Read() })
			if code != 0x10 || data != nil || !errors.Is(err, ErrProtocol) || errors.Is(err, ErrMessageTooBig) != tc.tooBig {
				t.Fatalf("Read: %#x, %x, %v", code, data, err)
			}
			if allocated > 64<<10 {
				t.Errorf("%d bytes allocated", allocated)
			}
			if conn.in.plain.Held() {
				t.Error("a buffer for the message is still held")
			}
			wantDead(t, conn, counting, err)
		})
	}
}

// A message of exactly the limit is fine, compressed or not, and one byte more is not.
func TestCase_S1_Limits(t *testing.T) {
	const limit = 5000
	for _, snappyOn := range []bool{false, true} {
		for _, cfg := range []*Config{
			{MaxMessageSize: limit},
			{MessageLimit: func(code uint64) int {
				if code == 0x30 {
					return limit
				}
				return maxUint24
			}},
			{MaxMessageSize: 2 * limit, MessageLimit: func(uint64) int { return limit }},
			{MaxMessageSize: limit, MessageLimit: func(uint64) int { return 2 * limit }},
		} {
			for _, over := range []int{0, 1} {
				payload := pattern(limit+over, 4)
				if snappyOn {
					payload = snappy.Encode(nil, payload)
				}
				conn, _, _ := recorded(cfg, nil, sealing(rlpxtest.Data(0x30, payload)))
				conn.SetSnappy(snappyOn)
				if over == 0 {
					wantRead(t, conn, 0x30, pattern(limit, 4))
					continue
				}
				code, data, _, err := conn.Read()
				var size *SizeError
				if !errors.As(err, &size) || size.Size != limit+1 || size.Limit != limit || !size.Read || code != 0x30 || data != nil {
					t.Errorf("snappy %v: Read: %#x, %d bytes, %v", snappyOn, code, len(data), err)
				}
			}
		}
	}
}

// What cannot be decompressed is there raw, for the layer that knows of peers which forget to
// compress.
func TestCase_S4_PayloadError(t *testing.T) {
	for _, tc := range []struct {
		payload []byte
		data    []byte // nil: an error
	}{
		{[]byte{0xC1, 0x04}, nil},
		{[]byte{0x04}, nil},
		{[]byte{0xC1, 0x80}, nil},
		{[]byte{0x80}, nil},
		{nil, nil},
		{[]byte{0x00}, []byte{}}, // a raw bare 0 cannot be told from compressed nothing
		{[]byte{0x02, 0x04, 0xC1, 0x04}, []byte{0xC1, 0x04}},
		{[]byte{0x01, 0x00, 0x04}, []byte{0x04}},
	} {
		conn, counting, _ := recorded(nil, nil, sealing(rlpxtest.Data(1, tc.payload)))
		conn.SetSnappy(true)
		code, data, wireSize, err := conn.Read()
		if code != 1 {
			t.Fatalf("payload %x: code %#x", tc.payload, code)
		}
		if tc.data != nil {
			if err != nil || data == nil || !bytes.Equal(data, tc.data) || wireSize != len(tc.payload) {
				t.Errorf("payload %x: %x, %d, %v", tc.payload, data, wireSize, err)
			}
			continue
		}
		var pe *PayloadError
		if !errors.As(err, &pe) || !errors.Is(err, ErrProtocol) || pe.Code != 1 || pe.Size != len(tc.payload) || !bytes.Equal(pe.Payload, tc.payload) || pe.Err == nil {
			t.Errorf("payload %x: %#v", tc.payload, err)
		}
		wantDead(t, conn, counting, err)
	}
}

func TestCase_S5_BaseMessagesAreCompressed(t *testing.T) {
	for _, tc := range []struct {
		snappy bool
		code   uint64
		data   []byte
		frame  []byte
	}{
		{true, 2, []byte{0xC0}, []byte{0x02, 0x01, 0x00, 0xC0}},
		{true, 3, []byte{0xC0}, []byte{0x03, 0x01, 0x00, 0xC0}},
		{true, 1, []byte{0xC1, 0x04}, []byte{0x01, 0x02, 0x04, 0xC1, 0x04}},
		{false, 2, []byte{0xC0}, []byte{0x02, 0xC0}},
		{false, 3, []byte{0xC0}, []byte{0x03, 0xC0}},
	} {
		conn, _, peer := rawOverPipe(t, nil)
		conn.SetSnappy(tc.snappy)
		go conn.Write(tc.code, tc.data)
		if f, err := peer.ReadFrame(); err != nil || !bytes.Equal(f.Data, tc.frame) {
			t.Errorf("snappy %v, code %d: frame data %x, %v, want %x", tc.snappy, tc.code, f.Data, err, tc.frame)
		}
	}
}

func TestCase_S6_EmptyMessage(t *testing.T) {
	for _, code := range []byte{0x02, 0x10} {
		conn, counting, _ := recorded(nil, nil, sealing([]byte{code}))
		conn.SetSnappy(true)
		got, data, _, err := conn.Read()
		var pe *PayloadError
		if got != uint64(code) || data != nil || !errors.As(err, &pe) {
			t.Fatalf("code %#x without a payload: %#x, %x, %v", code, got, data, err)
		}
		wantDead(t, conn, counting, err)
	}
	conn, _, _ := recorded(nil, nil, sealing([]byte{0x10, 0x00}))
	conn.SetSnappy(true)
	wantRead(t, conn, 0x10, nil)

	for _, empty := range [][]byte{nil, {}} {
		conn, _, peer := rawOverPipe(t, nil)
		conn.SetSnappy(true)
		go conn.Write(0x10, empty)
		if f, err := peer.ReadFrame(); err != nil || !bytes.Equal(f.Data, []byte{0x10, 0x00}) {
			t.Errorf("empty message: frame data %x, %v", f.Data, err)
		}
	}
}

// A message that was received together with Hello is decompressed if SetSnappy comes in between.
func TestCase_S8_SetSnappyWithFramesBuffered(t *testing.T) {
	hello, status := pattern(300, 1), pattern(3000, 2)
	for i := range 100 {
		conn, counting, peer := rawOverTCP(t, nil)
		if err := peer.Send(sealing(rlpxtest.Data(0, hello), rlpxtest.Data(0x10, snappy.Encode(nil, status)), rlpxtest.Data(0x11, snappy.Encode(nil, hello)))(peer.Egress)); err != nil {
			t.Fatal(err)
		}
		wantRead(t, conn, 0, hello)
		conn.SetSnappy(true)
		wantRead(t, conn, 0x10, status)
		wantRead(t, conn, 0x11, hello)
		if i == 0 && counting.Reads.Load() > 3 {
			t.Errorf("%d reads: the frames did not come together", counting.Reads.Load())
		}
	}
}

// SetSnappy is called by whoever completes Hello while a writer is about to start.
func TestCase_S9_SwitchWhileWriting(t *testing.T) {
	for range 50 {
		a, b := tcpPipe(t)
		ca, cb := pairOver(t, a, b)
		data := pattern(2000, 9)
		var wg sync.WaitGroup
		for _, c := range []*Conn{ca, cb} {
			said, ready := make(chan struct{}), make(chan struct{})
			wg.Go(func() { // writer
				if _, err := c.Write(0, data[:100]); err != nil {
					t.Error(err)
				}
				close(said)
				<-ready
				for i := range 20 {
					if _, err := c.Write(uint64(i), data); err != nil {
						t.Error(err)
					}
				}
			})
			wg.Go(func() { // reader
				if code, got, _, err := c.Read(); err != nil || code != 0 || !bytes.Equal(got, data[:100]) {
					t.Errorf("Hello: %d, %v", code, err)
				}
				<-said
				c.SetSnappy(true)
				close(ready)
				for i := range 20 {
					code, got, wireSize, err := c.Read()
					if err != nil || code != uint64(i) || !bytes.Equal(got, data) || wireSize >= len(data) {
						t.Errorf("message %d: code %d, %d bytes, %d on the wire, %v", i, code, len(got), wireSize, err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}

// Whatever stands for a block behind a valid MAC, Read returns the message that snappy makes of it
// or an error, and the connection says for ever what it was. FuzzPayloadSnappy has more.
func TestCase_S10_CorruptSnappy(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 10))
	good := snappy.Encode(nil, append(pattern(3000, 1), rlpxtest.Random(r, 500)...))
	messages, errs := 0, 0
	for i := range 3000 {
		payload := bytes.Clone(good)
		switch i % 4 {
		case 0: // some bytes are others
			for range 1 + r.IntN(4) {
				payload[r.IntN(len(payload))] = byte(r.Uint32())
			}
		case 1: // cut
			payload = payload[:r.IntN(len(payload))]
		case 2: // a part is missing
			at := r.IntN(len(payload))
			payload = append(payload[:at], payload[min(len(payload), at+r.IntN(20)):]...)
		default: // noise, after a plausible length
			payload = append(binary.AppendUvarint(nil, r.Uint64N(5000)), rlpxtest.Random(r, r.IntN(200))...)
		}
		conn, counting, _ := recorded(nil, nil, sealing(rlpxtest.Data(0x10, payload)))
		conn.SetSnappy(true)
		code, data, _, err := conn.Read()
		want, wantErr := snappy.Decode(nil, payload)
		if code != 0x10 || (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(data, want) {
			t.Fatalf("%x: code %#x, %d bytes, %v; snappy says %v", payload, code, len(data), err, wantErr)
		}
		if err == nil {
			messages++
			continue
		}
		errs++
		if !errors.Is(err, ErrProtocol) || data != nil {
			t.Fatalf("%x: %d bytes, %v", payload, len(data), err)
		}
		wantDead(t, conn, counting, err)
	}
	if messages < 100 || errs < 1000 {
		t.Errorf("%d messages and %d errors: the test is one-sided", messages, errs)
	}
}

// Writing many messages keeps nothing.
func TestCase_S13_NothingLeaksPerMessage(t *testing.T) {
	messages := 100_000
	if raceEnabled {
		messages = 10_000
	}
	sec, _ := rlpxtest.NewSecrets(13)
	conn := initConn(rlpxtest.Discard(), nil, sec)
	conn.SetSnappy(true)
	data := pattern(100, 5)
	write := func(n int) {
		for range n {
			if _, err := conn.Write(0x10, data); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(100)
	before := rlpxtest.HeapInUse()
	write(messages)
	if after := rlpxtest.HeapInUse(); after > before+256<<10 {
		t.Errorf("%d bytes more in use after %d messages", after-before, messages)
	}
	if conn.out.buf.Held() {
		t.Error("a buffer is held between messages")
	}
}

func TestCase_I1_DisconnectOnTheWire(t *testing.T) {
	for _, tc := range []struct{ frame, data []byte }{
		{[]byte{0x01, 0x01, 0x00, 0x04}, []byte{0x04}},
		{[]byte{0x01, 0x01, 0x00, 0x10}, []byte{0x10}},
		{[]byte{0x01, 0x02, 0x04, 0xC1, 0x04}, []byte{0xC1, 0x04}},
		{[]byte{0x01, 0x01, 0x00, 0x80}, []byte{0x80}},
	} {
		conn, _, _ := recorded(nil, nil, sealing(tc.frame))
		conn.SetSnappy(true)
		wantRead(t, conn, 1, tc.data)
	}
}

// The error of bad snappy names the code and the length, and quotes nothing that the peer chose.
func TestCase_I4_PayloadErrorText(t *testing.T) {
	payload := []byte("\xF0\xFFNOT\x1b[31m SNAPPY" + strings.Repeat("x", 5000))
	conn, _, _ := recorded(nil, nil, sealing(rlpxtest.Data(0x1234, payload)))
	conn.SetSnappy(true)
	_, _, _, err := conn.Read()
	var pe *PayloadError
	if !errors.As(err, &pe) || pe.Size != len(payload) || !bytes.Equal(pe.Payload, payload[:shownPayload]) {
		t.Fatal(err)
	}
	text := err.Error()
	if !strings.Contains(text, "0x1234") || !strings.Contains(text, fmt.Sprint(len(payload))) {
		t.Errorf("%q lacks code or length", text)
	}
	if len(text) > 512 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) || strings.Contains(text, "NOT") {
		t.Errorf("%q quotes the peer", text)
	}
}
