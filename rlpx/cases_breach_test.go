package rlpx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// The rest of the field bugs in framing and MAC: long sessions, breaches of the rules, sizes, and
// what both directions share.

func TestCase_F9_ManyMessagesBothWays(t *testing.T) {
	for _, kind := range kindsOfConn {
		t.Run(kind.name, func(t *testing.T) {
			const messages = 1000
			conn, _, peer := rawOver(t, kind.make, nil)
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
		})
	}
}

func TestCase_F10_AfterBadMAC(t *testing.T) {
	for _, kind := range kindsOfConn {
		t.Run(kind.name, func(t *testing.T) {
			for _, at := range []int{0, headerSize, headerWire, headerWire + 16} {
				conn, counting, peer := rawOver(t, kind.make, nil)
				// A second good frame and more come with the bad one: none of it may be used.
				wire := sealing([]byte{1, 2, 3}, []byte{4, 5, 6})(peer.Egress)
				wire[at] ^= 4
				go peer.Send(wire)
				text := badFrame
				if at < headerWire {
					text = badHeader
				}
				wantUnauthentic(t, conn, counting, text)
				if conn.ConnectionState().PeerProven {
					t.Error("proven by a bad MAC")
				}
			}
		})
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
