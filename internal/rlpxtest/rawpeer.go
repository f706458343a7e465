package rlpxtest

import (
	"context"
	"crypto/ecdsa"
	"io"
	"net"

	"github.com/go-rlpx/transport/handshake"
)

// RawPeer is a Session over a net.Conn. Sending and receiving may run side by side.
type RawPeer struct {
	*Session
	Conn net.Conn

	// Remote is the other end's static key, nil without a handshake.
	Remote *ecdsa.PublicKey
}

// NewRawPeer returns the peer that speaks over conn from the given secrets.
func NewRawPeer(conn net.Conn, sec Secrets) *RawPeer {
	return &RawPeer{Session: NewSession(sec), Conn: conn}
}

// Accept performs a real handshake as the recipient.
func Accept(ctx context.Context, conn net.Conn, key *ecdsa.PrivateKey) (*RawPeer, error) {
	sec, err := handshake.Respond(ctx, conn, key, nil, nil)
	if err != nil {
		return nil, err
	}
	return fromHandshake(conn, sec), nil
}

// Dial performs a real handshake as the initiator.
func Dial(ctx context.Context, conn net.Conn, key *ecdsa.PrivateKey, remote *ecdsa.PublicKey) (*RawPeer, error) {
	sec, err := handshake.Initiate(ctx, conn, key, remote, nil)
	if err != nil {
		return nil, err
	}
	return fromHandshake(conn, sec), nil
}

func fromHandshake(conn net.Conn, sec handshake.Secrets) *RawPeer {
	p := NewRawPeer(conn, Secrets{sec.AES, sec.MAC, sec.EgressMAC, sec.IngressMAC})
	p.Remote = sec.Remote
	return p
}

// Send sends bytes as they are, in pieces that end at the given offsets.
func (p *RawPeer) Send(wire []byte, cuts ...int) error {
	from := 0
	for _, cut := range append(cuts, len(wire)) {
		if cut <= from || cut > len(wire) {
			continue
		}
		if _, err := p.Conn.Write(wire[from:cut]); err != nil {
			return err
		}
		from = cut
	}
	return nil
}

// Dribble sends bytes one at a time, calling between, if not nil, after each.
func (p *RawPeer) Dribble(wire []byte, between func(sent int)) error {
	for i := range wire {
		if _, err := p.Conn.Write(wire[i : i+1]); err != nil {
			return err
		}
		if between != nil {
			between(i + 1)
		}
	}
	return nil
}

// SendData sends a frame with the given frame data.
func (p *RawPeer) SendData(data []byte) error { return p.Send(p.Egress.Seal(data)) }

// SendMessage sends the frame of a message whose payload is as it goes on the wire.
func (p *RawPeer) SendMessage(code uint64, payload []byte) error {
	return p.SendData(Data(code, payload))
}

// SendFrame sends a frame with a header of its own. What the header declares need not fit the data.
func (p *RawPeer) SendFrame(h Header, data []byte) error {
	return p.Send(append(p.Egress.SealHeader(h), p.Egress.SealData(data)...))
}

// ReadFrame receives the next frame.
func (p *RawPeer) ReadFrame() (Frame, error) {
	var head [HeaderSize]byte
	if _, err := io.ReadFull(p.Conn, head[:]); err != nil {
		return Frame{}, err
	}
	h, err := p.Ingress.OpenHeader(head[:])
	if err != nil {
		return Frame{}, err
	}
	wire := make([]byte, Padded(h.Size())+MACSize)
	if _, err := io.ReadFull(p.Conn, wire); err != nil {
		return Frame{}, err
	}
	data, err := p.Ingress.OpenData(wire, h.Size())
	return Frame{h, data, HeaderSize + len(wire)}, err
}

// Reset closes the connection in the rudest way that it has: with a TCP reset if it is one.
func (p *RawPeer) Reset() error { return Reset(p.Conn) }

// Reset closes conn, with a reset if it is a TCP connection.
func Reset(conn net.Conn) error {
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	return conn.Close()
}
