package p2p

import (
	"bytes"
	"errors"
	"testing"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
)

// However the Hello phase fails, the net.Conn is closed, once, and no goroutine stays: for each
// failing case of B5 to B15, and for what fails before a message can be understood.
func TestCase_D7_FailedHello(t *testing.T) {
	frame := func(p *peer, data []byte) error { return p.SendData(data) }
	hello := func(payload func(p *peer) []byte) func(*peer) error {
		return func(p *peer) error { return p.SendMessage(HelloCode, payload(p)) }
	}
	for _, tc := range []struct {
		name string
		send func(p *peer) error
		want error
	}{
		{"B5 Disconnect, list", func(p *peer) error { return frame(p, []byte{0x01, 0xc1, 0x04}) }, DiscTooManyPeers},
		{"B5 Disconnect, integer", func(p *peer) error { return frame(p, []byte{0x01, 0x04}) }, DiscTooManyPeers},
		{"B5 Disconnect, nothing", func(p *peer) error { return frame(p, []byte{0x01}) }, DiscUnspecified},
		{"B7 Ping", func(p *peer) error { return frame(p, []byte{0x02, 0xc0}) }, ErrUnexpectedMessage},
		{"B7 capability message", func(p *peer) error { return frame(p, []byte{0x10}) }, ErrUnexpectedMessage},
		{"B9 malformed", hello(func(*peer) []byte { return []byte{0xc0} }), ErrMalformedHello},
		{"B10 version of nine bytes", hello(func(*peer) []byte { return helloWith(t, partVersion, str(bytes.Repeat([]byte{1}, 9))) }), ErrMalformedHello},
		{"B13 other identity", hello(func(*peer) []byte { return helloWith(t, partVersion, num(5)) }), ErrUnexpectedIdentity},
		{"B14 short identity", hello(func(*peer) []byte { return helloWith(t, partID, str(make([]byte, 63))) }), ErrInvalidIdentity},
		{"B14 null identity", hello(func(*peer) []byte { return helloWith(t, partID, str(make([]byte, 64))) }), ErrNullIdentity},
		{"D3 too big", func(p *peer) error {
			return p.Send(p.Egress.SealHeader(rlpxtest.MakeHeader(HelloLimit+2, rlpxtest.HeaderData)))
		}, ErrHelloTooBig},
		{"D9 too many capabilities", hello(func(p *peer) []byte { return p.hello(5, make([]Cap, MaxCaps+1)...) }), ErrMalformedHello},
		{"F1 empty frame", func(p *peer) error { return frame(p, nil) }, rlpx.ErrProtocol},
		{"B23 code 00", func(p *peer) error { return frame(p, []byte{0x00, 0xc0}) }, rlpx.ErrProtocol},
		{"bad MAC", func(p *peer) error {
			wire := p.Egress.Seal([]byte{0x80, 0xc0})
			wire[17] ^= 1
			return p.Send(wire)
		}, rlpx.ErrAuthentication},
		{"M13 nothing shared", hello(func(p *peer) []byte { return p.hello(5, Cap{"zzz", 1}) }), DiscUselessPeer},
		{"closed", func(p *peer) error { return p.Conn.Close() }, nil},
		{"reset", func(p *peer) error { return p.Reset() }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onNetworks(t, func(t *testing.T, n network) {
				for _, reads := range []bool{true, false} {
					if !reads && n.name == pipe.name {
						continue // it takes nothing then, and the end of that is another test's
					}
					checkLeaks(t)
					ours, theirs := n.pair(t)
					counted := &closes{Conn: ours}
					conn, p := peerOver(t, counted, theirs, nil)
					result := make(chan error, 1)
					go func() {
						s, err := NewSession(t.Context(), conn, testConfig())
						if s != nil {
							s.Close()
						}
						result <- err
					}()
					if reads {
						p.read()
					}
					go func() { // the end, as the peer sees it
						if tc.send(p) == nil && reads {
							p.rest()
						}
					}()
					err := <-result
					if err == nil || tc.want != nil && !errors.Is(err, tc.want) {
						t.Errorf("reads %v: got %v, want %v", reads, err, tc.want)
					}
					if _, _, _, err := conn.Read(); err == nil {
						t.Errorf("reads %v: Read succeeds afterwards", reads)
					}
					if n := counted.n.Load(); n != 1 {
						t.Errorf("reads %v: closed %d times", reads, n)
					}
					p.Conn.Close()
				}
			})
		})
	}
}
