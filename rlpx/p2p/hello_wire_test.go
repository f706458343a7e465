package p2p

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
)

func TestCase_B7_MessageBeforeHello(t *testing.T) {
	for _, m := range []struct {
		code    uint64
		payload []byte
	}{{PingCode, []byte{0xc0}}, {PongCode, []byte{0xc0}}, {0x05, nil}, {0x10, []byte{1, 2}}, {0x1000, nil}, {1<<64 - 1, nil}} {
		t.Run(fmt.Sprintf("%#x", m.code), func(t *testing.T) {
			onNetworks(t, func(t *testing.T, n network) {
				conn, p := n.peer(t, nil)
				result := shake(t.Context(), conn, testHello())
				p.read() // our Hello
				p.SendMessage(m.code, m.payload)
				p.wantFarewell(DiscProtocolError) // and no Pong
				wantErr(t, (<-result).err, ErrUnexpectedMessage)
			})
		})
	}
}

func TestCase_B13_OtherIdentity(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		conn, p := n.peer(t, nil)
		remote := conn.ConnectionState().RemoteKey
		p.id = nodeID(&newKey(t).PublicKey)
		result := shake(t.Context(), conn, testHello())
		p.read()
		p.SendMessage(HelloCode, p.hello(5, testCaps.Caps()...))
		p.wantFarewell(DiscUnexpectedIdentity) // plain: nothing of that Hello was applied
		r := <-result
		wantErr(t, r.err, ErrUnexpectedIdentity)
		if r.hello != nil || conn.ConnectionState().Snappy || !remote.Equal(conn.ConnectionState().RemoteKey) {
			t.Error("the Hello was applied")
		}
	})
}

func TestCase_B14_IdentityOnWire(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		for _, tt := range []struct {
			length int
			want   error
		}{{0, ErrInvalidIdentity}, {32, ErrInvalidIdentity}, {63, ErrInvalidIdentity}, {65, ErrInvalidIdentity}, {64, ErrNullIdentity}} {
			t.Run(fmt.Sprint(tt.length), func(t *testing.T) {
				conn, p := n.peer(t, nil)
				result := shake(t.Context(), conn, testHello())
				p.read()
				p.SendMessage(HelloCode, helloWith(t, partID, str(make([]byte, tt.length))))
				p.wantFarewell(DiscInvalidIdentity)
				wantErr(t, (<-result).err, tt.want)
			})
		}

	})
}

// closes counts how often a net.Conn is closed.
type closes struct {
	net.Conn
	n atomic.Int32
}

func (c *closes) Close() error {
	c.n.Add(1)
	return c.Conn.Close()
}

func TestCase_B15_Self(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		key := newKey(t)
		countA, countB := new(closes), new(closes)
		counted := network{n.name, func(t testing.TB) (net.Conn, net.Conn) {
			countA.Conn, countB.Conn = n.pair(t)
			return countA, countB
		}}
		a, b := counted.conns(t, key, key)
		other := shake(t.Context(), b, testHello())
		ok := rlpxtest.Within(func() {
			_, err := Handshake(t.Context(), a, testHello())
			wantErr(t, err, ErrSelf)
			wantErr(t, (<-other).err, ErrSelf)
		})
		if !ok {
			t.Fatal("hangs")
		}
		for _, c := range []*closes{countA, countB} {
			if n := c.n.Load(); n != 1 {
				t.Errorf("closed %d times", n)
			}
		}
	})
	t.Run("wire", func(t *testing.T) {
		// The peer has our key: whoever has that is us.
		ours, theirs := net.Pipe()
		key := newKey(t)
		conn := rlpx.Server(ours, &rlpx.Config{Key: key})
		go conn.HandshakeContext(context.Background())
		raw, err := rlpxtest.Dial(t.Context(), theirs, key, &key.PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		p := &peer{RawPeer: raw, t: t}
		for !conn.ConnectionState().HandshakeComplete {
			time.Sleep(time.Millisecond)
		}
		result := shake(t.Context(), conn, testHello())
		p.wantFarewell(DiscSelf)
		wantErr(t, (<-result).err, ErrSelf)
	})
}

func TestCase_B23_HelloCodeOnWire(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		conn, p := n.peer(t, nil)
		result := shake(t.Context(), conn, testHello())
		frame, err := p.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if frame.Data[0] != 0x80 {
			t.Errorf("our Hello begins with %#02x", frame.Data[0])
		}
		p.SendData(append([]byte{0x00}, p.hello(5)...)) // not canonical
		p.wantFarewell(DiscProtocolError)
		wantErr(t, (<-result).err, rlpx.ErrProtocol)

	})
}

// Before Hello is through, nothing larger than a Hello is read.
func TestCase_D3_HelloLimitOnWire(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		conn, p := n.peer(t, nil)
		result := shake(t.Context(), conn, testHello())
		p.read()
		// Of the right size, though with somebody else's key.
		p.SendMessage(HelloCode, helloOfSize(t, HelloLimit))
		p.wantFarewell(DiscUnexpectedIdentity)
		wantErr(t, (<-result).err, ErrUnexpectedIdentity)

		conn, p = n.peer(t, nil)
		result = shake(t.Context(), conn, testHello())
		p.read()
		// The header alone has to do.
		p.Send(p.Egress.SealHeader(rlpxtest.MakeHeader(1+HelloLimit+1, rlpxtest.HeaderData)))
		p.wantFarewell(DiscProtocolError)
		r := <-result
		wantErr(t, r.err, ErrHelloTooBig)
		wantErr(t, r.err, rlpx.ErrMessageTooBig)

		// After Hello, messages may be large.
		s, p := n.session(t, nil)
		go p.send(0x10, make([]byte, 3*HelloLimit))
		if _, data, err := s.Capability("aaa").Read(t.Context()); err != nil || len(data) != 3*HelloLimit {
			t.Error(len(data), err)
		}
	})
}

// Compression goes by the versions of both Hellos and by nothing else.
func TestCase_S7_SnappyByHelloVersion(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		for _, ours := range []uint64{0, 4, 5, 55} {
			for _, theirs := range []uint64{0, 3, 4, 5, 6, 22, 55, 1 << 32, 1<<64 - 1} {
				t.Run(fmt.Sprintf("ours=%d/theirs=%d", ours, theirs), func(t *testing.T) {
					conn, p := n.peer(t, nil)
					hello := testHello()
					hello.Version = ours
					result := shake(t.Context(), conn, hello)
					_, payload := p.read()
					sent, err := DecodeHello(payload)
					if err != nil {
						t.Fatal(err)
					}
					if want := max(ours, 4); ours > 0 && sent.Version != want || ours == 0 && sent.Version != Version {
						t.Errorf("sent version %d", sent.Version)
					}
					p.SendMessage(HelloCode, p.hello(theirs))
					r := <-result
					if r.err != nil || r.hello.Version != theirs {
						t.Fatal(r.hello, r.err)
					}
					if got, want := conn.ConnectionState().Snappy, ours != 4 && theirs >= 5; got != want {
						t.Errorf("compression is %v, want %v", got, want)
					}
				})
			}
		}

	})
}

// The first compressed message may come in one segment with Hello.
func TestCase_S8_MessageTogetherWithHello(t *testing.T) {
	for _, version := range []uint64{4, 5} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			for range 100 {
				conn, p := tcp.peer(t, nil)
				p.snappy = version >= 5
				payload := append([]byte("zeros follow"), make([]byte, 1000)...)
				wire := p.Egress.Seal(rlpxtest.Data(HelloCode, p.hello(version, testCaps.Caps()...)))
				wire = append(wire, p.Egress.Seal(rlpxtest.Data(0x15, p.wire(payload)))...)
				if err := p.Send(wire); err != nil {
					t.Fatal(err)
				}
				s, err := NewSession(t.Context(), conn, testConfig())
				if err != nil {
					t.Fatal(err)
				}
				id, data, err := s.Capability("bbb").Read(t.Context())
				if err != nil || id != 1 || string(data) != string(payload) {
					t.Fatalf("got id %d, %d bytes, %v", id, len(data), err)
				}
				frame, err := p.ReadFrame()
				if err != nil || frame.Data[0] != 0x80 || frame.Data[1] < 0xc0 {
					t.Fatalf("our Hello: %x, %v", frame.Data, err)
				}
				p.Conn.Close()
				<-s.Done()
			}
		})
	}
}

func TestCase_S4_DisconnectAfterHello(t *testing.T) {
	// As frame data of a session with compression. The codec's tests have the rest.
	for _, tt := range []struct {
		name string
		data []byte
		want DiscReason
	}{
		{"raw list", []byte{0x01, 0xc1, 0x04}, DiscTooManyPeers},
		{"raw integer", []byte{0x01, 0x04}, DiscTooManyPeers},
		{"raw list of zero", []byte{0x01, 0xc1, 0x80}, DiscRequested},
		{"raw zero", []byte{0x01, 0x80}, DiscRequested},
		{"raw zero byte", []byte{0x01, 0x00}, DiscRequested},
		{"raw nothing", []byte{0x01}, DiscUnspecified},
		{"list", append([]byte{0x01}, snappy.Encode(nil, []byte{0xc1, 0x04})...), DiscTooManyPeers},
		{"integer", []byte{0x01, 0x01, 0x00, 0x10}, DiscSubprotocolError},
		{"announces 16 MiB", []byte{0x01, 0x80, 0x80, 0x80, 0x08, 0x00}, DiscUnspecified},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onNetworks(t, func(t *testing.T, n network) {
				s, p := n.session(t, nil)
				p.SendData(tt.data)
				wantDone(t, s, &DisconnectError{tt.want, true})
				if codes, _ := p.rest(); len(codes) > 0 {
					t.Errorf("answered with codes %#x", codes)
				}
			})
		})
	}
}
