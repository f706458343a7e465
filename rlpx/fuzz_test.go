package rlpx

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/ethereum/go-ethereum/rlp"
	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// FuzzFrameStream reads a stream of frames with correct MACs and arbitrary content. The input is a
// series of frames: one byte of options, thirteen of header data, two of length, the frame data.
// What comes back must be what the rules say of each frame, whatever the pieces in which it is
// delivered; with a byte damaged nothing after it may come back.
func FuzzFrameStream(f *testing.F) {
	f.Add([]byte{}, uint16(0), uint32(0))
	f.Add(append(make([]byte, 14), 0, 3, 0x80, 1, 2), uint16(1), uint32(0))
	f.Add(append(append(make([]byte, 14), 0, 3, 0x10, 1, 2), append(make([]byte, 14), 0, 0)...), uint16(7), uint32(40))
	f.Add(append([]byte{1, 0xC2, 0x80, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0, 4, 0x10, 2, 4, 0xAA), uint16(33), uint32(33))
	f.Fuzz(func(t *testing.T, input []byte, cut uint16, damage uint32) {
		const seed = 1234
		sec, peerSec := rlpxtest.NewSecrets(seed)
		peer := rlpxtest.NewSession(peerSec).Egress
		var wire []byte
		var frames [][]byte
		var ends []int // of the wire, after each frame
		snappyOn := false
		for len(input) >= 16 && len(frames) < 50 {
			snappyOn = snappyOn || input[0]&1 != 0
			data, n := input[1:14], int(input[14])<<8|int(input[15])
			input = input[16:]
			frame := input[:min(n, len(input))]
			input = input[len(frame):]
			wire = append(wire, peer.SealHeader(rlpxtest.MakeHeader(len(frame), data))...)
			if len(frame) > 0 {
				wire = append(wire, peer.SealData(frame)...)
			}
			frames, ends = append(frames, frame), append(ends, len(wire))
		}
		var inner net.Conn = rlpxtest.NewScript(wire)
		if step := int(cut % 97); step > 0 {
			inner = &rlpxtest.Filter{Conn: inner, OnRead: func(c net.Conn, p []byte) (int, error) { return c.Read(p[:min(step, len(p))]) }}
		}
		damaged := len(wire)
		if at := int(damage) - 1; at >= 0 && at < len(wire) {
			damaged = at
			inner = rlpxtest.Damage(inner, at, byte(1+damage%255))
		}
		conn := initConn(inner, nil, sec)
		conn.SetSnappy(snappyOn)
		for i, frame := range frames {
			code, data, wireSize, err := conn.Read()
			if damaged < ends[i] {
				if !errors.Is(err, ErrAuthentication) || data != nil {
					t.Fatalf("frame %d is damaged: %x, %v", i, data, err)
				}
				return
			}
			wantCode, wantData, wantErr := rules(frame, snappyOn)
			if wantErr {
				if !errors.Is(err, ErrProtocol) || data != nil || code != wantCode || len(err.Error()) > 512 {
					t.Fatalf("frame %d, %x: code %#x, data %x, error %v", i, frame, code, data, err)
				}
				return
			}
			if err != nil || data == nil || code != wantCode || !bytes.Equal(data, wantData) || wireSize != len(frame)-len(rlpxtest.Code(code)) {
				t.Fatalf("frame %d, %x: code %#x, data %x, wire size %d, error %v", i, frame, code, data, wireSize, err)
			}
		}
		if _, _, _, err := conn.Read(); err != io.EOF {
			t.Fatalf("at the end: %v", err)
		}
	})
}

// rules says what an authentic frame means.
func rules(frame []byte, snappyOn bool) (code uint64, data []byte, bad bool) {
	if len(frame) == 0 {
		return 0, nil, true
	}
	code, payload, err := rlp.SplitUint64(frame)
	if err != nil {
		return 0, nil, true
	}
	if !snappyOn {
		return code, payload, false
	}
	if n, err := snappy.DecodedLen(payload); err != nil || n > maxUint24 {
		return code, nil, true
	}
	data, err = snappy.Decode(nil, payload)
	return code, data, err != nil
}

// FuzzPayloadSnappy reads one message with an arbitrary payload, compressed and raw. Decompression
// agrees with the library's, keeps the limit, and what is accepted can be written and read again.
func FuzzPayloadSnappy(f *testing.F) {
	for _, seed := range [][]byte{
		{}, {0x00}, {0x01, 0x00, 0xC0}, {0x02, 0x04, 0xC1, 0x04}, {0xC1, 0x04}, {0x04}, {0x80, 0x80, 0x80, 0x08},
		{0xFF, 0xFF, 0xFF, 0x07}, {0xFF, 0xFF, 0xFF, 0xFF, 0x0F}, snappy.Encode(nil, make([]byte, 1000)), snappy.Encode(nil, pattern(5000, 1)),
	} {
		f.Add(uint64(0x10), seed, uint32(0))
		f.Add(uint64(1), seed, uint32(100))
	}
	f.Fuzz(func(t *testing.T, code uint64, payload []byte, limit uint32) {
		cfg := &Config{MaxMessageSize: int(limit % (1 << 24))}
		conn, _, _ := recorded(cfg, nil, sealing(rlpxtest.Data(code, payload)))
		conn.SetSnappy(true)
		got, data, _, err := conn.Read()
		want, snappyErr := []byte(nil), error(nil)
		if n, lenErr := snappy.DecodedLen(payload); lenErr != nil {
			snappyErr = lenErr
		} else if n <= maxUint24 {
			want, snappyErr = snappy.Decode(nil, payload)
		}
		var size *SizeError
		var bad *PayloadError
		switch {
		case errors.As(err, &size):
			if size.Size <= size.Limit || !errors.Is(err, ErrProtocol) || data != nil {
				t.Fatalf("%v with %d bytes", err, len(data))
			}
			if size.What == "frame" && len(payload) <= cfg.maxMessageSize() {
				t.Fatalf("%v, the payload has %d bytes and the limit is %d", err, len(payload), cfg.maxMessageSize())
			}
			return
		case errors.As(err, &bad):
			if snappyErr == nil || got != code || bad.Code != code || bad.Size != len(payload) ||
				!bytes.Equal(bad.Payload, payload[:min(len(payload), shownPayload)]) || data != nil {
				t.Fatalf("%v; snappy says %v", err, snappyErr)
			}
			return
		case err != nil:
			t.Fatal(err)
		}
		if snappyErr != nil || got != code || !bytes.Equal(data, want) || len(data) > cfg.maxMessageSize() {
			t.Fatalf("code %#x, %d bytes; snappy says %d bytes, %v", got, len(data), len(want), snappyErr)
		}
		sec, peerSec := rlpxtest.NewSecrets(9)
		script := rlpxtest.NewScript(nil)
		writer := initConn(script, nil, sec)
		writer.SetSnappy(true)
		if _, err := writer.Write(code, data); err != nil {
			t.Fatal(err)
		}
		reader := initConn(rlpxtest.NewScript(script.Written()), nil, peerSec)
		reader.SetSnappy(true)
		wantRead(t, reader, code, want)
	})
}
