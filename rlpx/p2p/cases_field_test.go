package p2p

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/bufpool"
	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
)

// A session that has ended and is still referred to, or an error of it, holds no buffer of the
// connection, whatever came last and whoever ended it.
func TestCase_N10_EndedSessionHoldsNoBuffer(t *testing.T) {
	large := bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7, 8}, 100_000)
	for _, tc := range []struct {
		name string
		end  func(s *Session, p *peer)
	}{
		{"Close", func(s *Session, p *peer) { go s.Close() }},
		{"Close after a large message", func(s *Session, p *peer) {
			p.send(PingCode, large)
			go s.Close()
		}},
		{"Disconnect of the peer, large", func(s *Session, p *peer) { p.send(DisconnectCode, large) }},
		{"Disconnect of the peer, uncompressed", func(s *Session, p *peer) {
			p.SendMessage(DisconnectCode, append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, large...))
		}},
		{"hang-up", func(s *Session, p *peer) { p.Conn.Close() }},
		{"bad snappy", func(s *Session, p *peer) {
			p.SendMessage(0x10, append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, large...))
		}},
		{"snappy that is cut off", func(s *Session, p *peer) {
			block := snappy.Encode(nil, large)
			p.SendMessage(0x10, block[:len(block)-3])
		}},
		{"code of nobody", func(s *Session, p *peer) { p.send(0x1000, large) }},
		{"second Hello", func(s *Session, p *peer) { p.send(HelloCode, large) }},
		{"damaged", func(s *Session, p *peer) {
			wire := p.Egress.Seal(rlpxtest.Data(0x10, large))
			wire[100_000] ^= 1
			p.Send(wire)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tracker := bufpool.Track()
				defer tracker.Stop()
				s, p := pipe.session(t, nil)
				go p.rest()
				tc.end(s, p)
				<-s.Done()
				if n := tracker.Lent(); n != 0 {
					t.Errorf("%d buffers are held after %v", n, s.Err())
				}
				s.Err()
			})
		})
	}
}

// The same without a session: a connection that Handshake or Refuse ended.
func TestCase_N10_RefusedConnectionHoldsNoBuffer(t *testing.T) {
	handshake := func(conn *rlpx.Conn) { Handshake(context.Background(), conn, nil) }
	refuse := func(conn *rlpx.Conn) { Refuse(conn, DiscTooManyPeers) }
	for _, tc := range []struct {
		name string
		ours func(conn *rlpx.Conn)
		send func(p *peer) error
	}{
		{"Disconnect for Hello", handshake, func(p *peer) error { return p.SendMessage(DisconnectCode, make([]byte, 1500)) }},
		{"Ping for Hello", handshake, func(p *peer) error { return p.SendMessage(PingCode, make([]byte, 1500)) }},
		{"large Hello", handshake, func(p *peer) error { return p.SendMessage(HelloCode, make([]byte, 100_000)) }},
		{"Disconnect, refused", refuse, func(p *peer) error { return p.SendMessage(DisconnectCode, make([]byte, 100_000)) }},
		{"Hello, refused", refuse, func(p *peer) error { return p.SendMessage(HelloCode, make([]byte, 100_000)) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tracker := bufpool.Track()
				defer tracker.Stop()
				conn, p := pipe.peer(t, nil)
				go tc.send(p)
				go p.rest()
				tc.ours(conn)
				if n := tracker.Lent(); n != 0 {
					t.Errorf("%d buffers are held", n)
				}
				conn.ConnectionState()
			})
		})
	}
}
