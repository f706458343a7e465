package p2p

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
)

// These tests are about message codes on the wire; those of Match have the rest.

func TestCase_M1_FirstCodeOnWire(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		conn, p := n.peer(t, nil)
		s := p.session(conn, nil, p.hello(5, Cap{"bbb", 2}))
		go s.Capability("bbb").Write(0, []byte("zero"))
		p.want(0x10, []byte("zero"))
		go p.send(0x10, []byte("back"))
		if id, data, err := s.Capability("bbb").Read(t.Context()); err != nil || id != 0 || string(data) != "back" {
			t.Errorf("got id %d, %q, %v", id, data, err)
		}

	})
}

func TestCase_M2_AnyOrderOfAnnouncement(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		ours := Capabilities{{Cap: Cap{"eth", 68}, Length: 17}, {Cap: Cap{"snap", 1}, Length: 8}, {Cap: Cap{"aaa", 1}, Length: 4}}
		for _, order := range [][]Cap{
			{{"aaa", 1}, {"eth", 68}, {"snap", 1}}, {{"aaa", 1}, {"snap", 1}, {"eth", 68}}, {{"eth", 68}, {"aaa", 1}, {"snap", 1}},
			{{"eth", 68}, {"snap", 1}, {"aaa", 1}}, {{"snap", 1}, {"aaa", 1}, {"eth", 68}}, {{"snap", 1}, {"eth", 68}, {"aaa", 1}},
		} {
			conn, p := n.peer(t, nil)
			s := p.session(conn, &SessionConfig{Capabilities: ours}, p.hello(5, append(order, Cap{"ETH", 68})...))
			for name, codes := range map[string][2]uint64{"aaa": {0x10, 0x13}, "eth": {0x14, 0x24}, "snap": {0x25, 0x2c}} {
				ch := s.Capability(name)
				for i, id := range []uint64{0, ch.Shared().Length - 1} {
					go ch.Write(id, []byte(name))
					p.want(codes[i], []byte(name))
					go p.send(codes[i], []byte(name))
					if got, data, err := ch.Read(t.Context()); err != nil || got != id || string(data) != name {
						t.Fatalf("%s: got id %d, %q, %v, want id %d", name, got, data, err, id)
					}
				}
			}
			if s.Capability("ETH") != nil {
				t.Error("names do not depend on case")
			}
		}

	})
}

// Offsets are fixed before anything can be written: all writers of a new session use the right
// codes from their first message on.
func TestCase_M3_OffsetsBeforeWrites(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		s, p := n.session(t, nil)
		for id := range uint64(4) {
			go s.Capability("bbb").Write(id, nil)
			go s.Capability("aaa").Write(id, nil)
		}
		var codes []uint64
		for range 8 {
			code, _ := p.read()
			codes = append(codes, code)
		}
		slices.Sort(codes)
		if want := []uint64{0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17}; !slices.Equal(codes, want) {
			t.Errorf("got %#x, want %#x", codes, want)
		}

	})
}

func TestCase_M4_OnlyHighestVersionOnWire(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		cfg := &SessionConfig{Capabilities: Capabilities{{Cap: Cap{"eth", 66}, Length: 30}, {Cap: Cap{"eth", 67}, Length: 20}, {Cap: Cap{"eth", 68}, Length: 17}, {Cap: Cap{"snap", 1}, Length: 8}}}
		conn, p := n.peer(t, nil)
		s := p.session(conn, cfg, p.hello(5, Cap{"eth", 69}, Cap{"eth", 68}, Cap{"eth", 66}, Cap{"snap", 1}))
		if got := s.Capability("eth").Shared().Version; got != 68 {
			t.Errorf("eth/%d", got)
		}
		go s.Capability("snap").Write(0, nil)
		p.want(0x10+17, nil)

	})
}

// Large lengths and ids pass, with and without compression.
func TestCase_M6_M9_LargeIDs(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		cfg := &SessionConfig{Capabilities: Capabilities{{Cap: Cap{"aaa", 1}, Length: 128}, {Cap: Cap{"bbb", 1}, Length: 128}, {Cap: Cap{"ccc", 1}, Length: 1000}, {Cap: Cap{"ddd", 1}, Length: 230}}}
		caps := cfg.Capabilities.Caps()
		for _, version := range []uint64{4, 5} {
			t.Run(fmt.Sprint(version), func(t *testing.T) {
				conn, p := n.peer(t, nil)
				s := p.session(conn, cfg, p.hello(version, caps...))
				for _, tt := range []struct {
					name     string
					id, code uint64
				}{
					{"aaa", 0x6f, 0x7f}, {"aaa", 0x70, 0x80}, {"bbb", 0, 0x90}, {"bbb", 0x6f, 0xff}, {"bbb", 0x70, 0x100}, {"bbb", 0x7f, 0x10f},
					{"ccc", 0, 0x110}, {"ccc", 0x3e7, 0x4f7}, {"ddd", 0, 0x4f8}, {"ddd", 229, 0x5dd},
				} {
					written := make(chan error, 1)
					go func() { written <- s.Capability(tt.name).Write(tt.id, []byte("data")) }()
					frame, err := p.ReadFrame()
					if err != nil {
						t.Fatal(err)
					}
					if err := <-written; err != nil {
						t.Fatal(err)
					}
					if want := rlpxtest.Data(tt.code, p.wire([]byte("data"))); string(frame.Data) != string(want) || frame.Header.Size() != len(want) {
						t.Errorf("%s %#x: frame data %x, want %x", tt.name, tt.id, frame.Data, want)
					}
					p.send(tt.code, []byte("back"))
					if id, data, err := s.Capability(tt.name).Read(t.Context()); err != nil || id != tt.id || string(data) != "back" {
						t.Errorf("code %#x: got id %#x, %q, %v", tt.code, id, data, err)
					}
				}
			})
		}

	})
}

func TestCase_M7_CodeOutOfRangeOnWire(t *testing.T) {
	for _, code := range []uint64{0x1c, 0x7fff, 1<<64 - 1} {
		t.Run(fmt.Sprintf("%#x", code), func(t *testing.T) {
			onNetworks(t, func(t *testing.T, n network) {
				s, p := n.session(t, nil)
				p.send(code, nil)
				p.wantFarewell(DiscProtocolError)
				wantDone(t, s, ErrInvalidCode)
				wantErr(t, s.Err(), &DisconnectError{Reason: DiscProtocolError})
			})
		})
	}
}

// An id out of range is a mistake of ours that the peer does not see, like a message that is too
// large.
func TestCase_M12_InvalidWrites(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		s, p := n.session(t, nil)
		ch := s.Capability("aaa")
		before := s.ConnectionState().Stats
		for _, id := range []uint64{4, 5, 0x10, 1<<64 - 1} {
			wantErr(t, ch.Write(id, nil), ErrInvalidMessageID)
		}
		wantErr(t, ch.Write(0, make([]byte, 1<<24)), rlpx.ErrMessageTooBig)
		if got := s.ConnectionState().Stats; got != before {
			t.Errorf("something was sent: %+v", got)
		}
		written := make(chan error, 1)
		go func() { written <- ch.Write(3, []byte("fine")) }()
		p.want(0x13, []byte("fine"))
		if err := <-written; err != nil {
			t.Error(err)
		}

	})
}

func TestCase_M13_UselessPeer(t *testing.T) {
	for _, caps := range [][]Cap{nil, {{"eth", 68}}, {{"aaa", 2}, {"BBB", 2}}} {
		t.Run(fmt.Sprint(caps), func(t *testing.T) {
			onNetworks(t, func(t *testing.T, n network) {
				conn, p := n.peer(t, nil)
				result := make(chan error, 1)
				go func() {
					_, err := NewSession(t.Context(), conn, testConfig())
					result <- err
				}()
				p.read()
				p.SendMessage(HelloCode, p.hello(5, caps...))
				p.snappy = true
				p.wantFarewell(DiscUselessPeer)
				err := <-result
				wantErr(t, err, DiscUselessPeer)
				var useless *UselessPeerError
				if !errors.As(err, &useless) || !slices.Equal(useless.Caps, caps) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
	t.Run("nothing offered", func(t *testing.T) {
		conn, p := pipe.peer(t, nil)
		go p.SendMessage(HelloCode, p.hello(4, Cap{"aaa", 1}))
		go p.rest()
		_, err := NewSession(t.Context(), conn, nil)
		wantErr(t, err, DiscUselessPeer)
	})
}

// A limit of the connection holds for the session's messages.
func TestMessageLimit(t *testing.T) {
	conn, p := tcp.peer(t, &rlpx.Config{Key: newKey(t), MessageLimit: func(code uint64) int {
		if code == 0x10 {
			return 100
		}
		return 1 << 20
	}})
	s := p.session(conn, nil, p.hello(5, testCaps.Caps()...))
	p.send(0x10, make([]byte, 100))
	p.send(0x11, make([]byte, 101))
	for range 2 {
		if _, _, err := s.Capability("aaa").Read(t.Context()); err != nil {
			t.Error(err)
		}
	}
	p.send(0x10, make([]byte, 101))
	p.wantFarewell(DiscProtocolError)
	wantDone(t, s, rlpx.ErrMessageTooBig)
}
