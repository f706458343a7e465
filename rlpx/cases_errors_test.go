package rlpx

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net"
	"reflect"
	"testing"
	"unsafe"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/internal/rlpxtest/secrecy"
)

// buffers remembers where a net.Conn was asked to read to: memory of the pool.
type buffers struct {
	net.Conn
	lent [][]byte
}

func (b *buffers) Read(p []byte) (int, error) {
	b.lent = append(b.lent, p)
	return b.Conn.Read(p)
}

// holds reports whether a piece of memory is part of what was lent.
func (b *buffers) holds(memory []byte) bool {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	for _, p := range b.lent {
		start := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
		if at < start+uintptr(len(p)) && start < at+uintptr(len(memory)) {
			return true
		}
	}
	return false
}

// maxHeld is the largest piece of memory that an error may keep.
const maxHeld = 128

// wantOwned checks that an error holds none of the buffers and nothing large.
func wantOwned(t *testing.T, name string, err error, b *buffers) {
	t.Helper()
	if err == nil {
		t.Fatalf("%s: no error", name)
	}
	notShared := func(typ reflect.Type) bool {
		return typ == reflect.TypeFor[*Conn]() || typ == reflect.TypeFor[reflect.Type]()
	}
	total := 0
	secrecy.Walk(err, notShared, func(memory []byte, path string) {
		total += len(memory)
		switch {
		case b.holds(memory):
			t.Errorf("%s: %s is memory of the pool", name, path)
		case len(memory) > maxHeld:
			t.Errorf("%s: %s keeps %d bytes", name, path, len(memory))
		}
	})
	if total > 8*maxHeld {
		t.Errorf("%s: keeps %d bytes in all", name, total)
	}
}

// badPayloads are payloads that no frame should have, as they are on the wire.
func badPayloads() (payloads map[string][]byte, marker []byte) {
	marker = []byte("seen only by the one whom it is for")
	text := bytes.Repeat(marker, 4000)
	good := snappy.Encode(nil, text)
	return map[string][]byte{
		"no length":      append(bytes.Repeat([]byte{0xFF}, 200), text...),
		"implausible":    append([]byte{0xFF, 0xFF, 0xFF, 0x07}, text[:10_000]...),
		"corrupt":        append(snappy.Encode(nil, make([]byte, 200_000)), text...),
		"cut":            good[:len(good)-1],
		"over the limit": snappy.Encode(nil, make([]byte, 1<<20+1)),
		"tiny":           {0xC1, 0x04},
	}, marker
}

// An error outlives the Read that returned it, whose buffer then serves other connections. So it
// owns what it shows, and that is little, whatever the peer sent.
func TestCase_N10_ErrorsOwnWhatTheyShow(t *testing.T) {
	payloads, marker := badPayloads()
	frames := map[string]func(peer *rlpxtest.Direction) []byte{
		"frame of size zero": sealing(nil),
		"invalid code":       sealing(append([]byte{0xC1, 0x04}, bytes.Repeat(marker, 100)...)),
		"frame too large": func(peer *rlpxtest.Direction) []byte {
			return peer.SealHeader(rlpxtest.MakeHeader(1<<24-1, rlpxtest.HeaderData))
		},
		"cut off": func(peer *rlpxtest.Direction) []byte { return sealing(make([]byte, 5000))(peer)[:4000] },
		"damaged header": func(peer *rlpxtest.Direction) []byte {
			wire := peer.Seal(bytes.Repeat(marker, 100))
			wire[3] ^= 1
			return wire
		},
		"damaged frame": func(peer *rlpxtest.Direction) []byte {
			wire := peer.Seal(bytes.Repeat(marker, 100))
			wire[len(wire)-20] ^= 1
			return wire
		},
		"end": sealing(),
	}
	for name, payload := range payloads {
		frames[name] = sealing(rlpxtest.Data(0x10, payload))
	}
	for name, frame := range frames {
		var traced error
		var lent *buffers
		cfg := &Config{MaxMessageSize: 1 << 20, Trace: &Trace{ReadFailed: func(_ *Conn, err error) { traced = err }}}
		c, _, _ := recorded(cfg, func(inner net.Conn) net.Conn {
			lent = &buffers{Conn: inner}
			return lent
		}, frame)
		c.SetSnappy(true)
		_, _, _, err := c.Read()
		shown := ""
		if pe, ok := errors.AsType[*PayloadError](err); ok {
			shown = string(pe.Payload)
			if want := payloads[name]; shown != string(want[:min(len(want), shownPayload)]) || pe.Size != len(want) {
				t.Errorf("%s: shows %x of %d bytes", name, shown, pe.Size)
			}
		}
		if len(lent.lent) == 0 {
			t.Fatalf("%s: nothing was read", name)
		}
		wantOwned(t, name, err, lent)
		if traced != err {
			t.Errorf("%s: ReadFailed has %v, Read %v", name, traced, err)
		}
		// At the next Read, and when others use the buffers, it is as before.
		text := err.Error()
		if _, _, _, again := c.Read(); again != err {
			t.Errorf("%s: then %v", name, again)
		}
		for _, p := range lent.lent {
			for i := range p {
				p[i] = 0xAA
			}
		}
		if err.Error() != text {
			t.Errorf("%s: the text has changed to %q", name, err)
		}
		if pe, ok := errors.AsType[*PayloadError](err); ok && string(pe.Payload) != shown {
			t.Errorf("%s: the payload has changed", name)
		}
		if c.in.buf.Held() || c.in.plain.Held() {
			t.Errorf("%s: the direction holds a buffer", name)
		}
	}
}

// Nobody reads another connection's message in an error: what follows is how that was possible.
func TestCase_N10_OtherConnectionsPlaintext(t *testing.T) {
	secret := bytes.Repeat([]byte("the message of another connection "), 100)
	bad, _, _ := recorded(nil, nil, sealing(rlpxtest.Data(1, bytes.Repeat([]byte{0xFF}, 1000))))
	bad.SetSnappy(true)
	_, _, _, err := bad.Read()
	pe, ok := errors.AsType[*PayloadError](err)
	if !ok {
		t.Fatal(err)
	}
	for range 20 {
		bad.Read()
		good, _, _ := recorded(nil, nil, sealing(rlpxtest.Data(1, secret)))
		wantRead(t, good, 1, secret)
		if bytes.Contains(pe.Payload, secret[:20]) || !bytes.Equal(pe.Payload, bytes.Repeat([]byte{0xFF}, len(pe.Payload))) {
			t.Fatalf("the error shows %q", pe.Payload)
		}
		giveBack(t, good)
	}
}

// Neither a ConnectionState nor the error of a Write, nor what a Trace is told, refers to a buffer.
func TestCase_N10_WhatOutlivesAWrite(t *testing.T) {
	a, b := rlpxtest.NewSecrets(rand.Uint64())
	ours, theirs := net.Pipe()
	var told []any
	inner := &seenWrites{Conn: ours}
	c := initConn(inner, &Config{Trace: &Trace{
		FrameWritten: func(_ *Conn, f TraceFrame) { told = append(told, f) },
		Flushed:      func(_ *Conn, f TraceFlush) { told = append(told, f) },
		WriteFailed:  func(_ *Conn, err error) { told = append(told, err) },
	}}, a)
	peer := rlpxtest.NewRawPeer(theirs, b)
	go func() {
		peer.ReadFrame()
		theirs.Close()
	}()
	data := bytes.Repeat([]byte("payload"), 5000)
	if _, err := c.Write(1, data); err != nil {
		t.Fatal(err)
	}
	_, err := c.Write(1, data)
	if err == nil {
		t.Fatal("written to a peer that has hung up")
	}
	_, tooBig := c.Write(1, make([]byte, 1<<24))
	state := c.ConnectionState()
	told = append(told, err, tooBig, &state)
	lent := &buffers{lent: inner.seen}
	for _, v := range told {
		secrecy.Walk(&v, nil, func(memory []byte, path string) {
			if lent.holds(memory) {
				t.Errorf("%T: %s is memory of the pool", v, path)
			}
		})
	}
	if len(inner.seen) == 0 || len(told) < 6 {
		t.Fatalf("%d writes seen, told %d times", len(inner.seen), len(told))
	}
}

// seenWrites remembers what a net.Conn was given to write.
type seenWrites struct {
	net.Conn
	seen [][]byte
}

func (s *seenWrites) Write(p []byte) (int, error) {
	s.seen = append(s.seen, p)
	return s.Conn.Write(p)
}
