package p2p

import (
	"context"
	"net"

	"github.com/go-rlpx/transport/rlpx"
)

// Dialer makes sessions with nodes. Both Configs must be set. A Dialer may be used by several
// goroutines at once.
type Dialer struct {
	// RLPx is for the connection: our key above all.
	RLPx *rlpx.Config

	// Session says what our Hello announces, and what the session puts up with.
	Session *SessionConfig

	// DialContext makes the connection under it all, for instance through a proxy. Nil means what
	// rlpx.Dialer does.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Dial connects to the node of an enode URL and starts a session. It is Dial of a Dialer with
// nothing but the two Configs.
func Dial(ctx context.Context, url string, conn *rlpx.Config, cfg *SessionConfig) (*Session, error) {
	d := Dialer{RLPx: conn, Session: cfg}
	return d.Dial(ctx, url)
}

// Dial connects to the node of an enode URL and starts a session with it. ctx bounds all of it;
// once Dial has returned, ctx has no meaning for the session. rlpx.Config.HandshakeTimeout bounds
// both handshakes together, whatever ctx allows.
//
// A URL that is none gives ErrInvalidNode. Other errors are those of rlpx.Dialer.Dial, among them
// rlpx.ErrConnect and rlpx.ErrHandshake, and those of NewSession: a *DisconnectError if the node
// says why it turns us away, a *UselessPeerError if it shares no capability. A node that has no
// room may also say so after Hello: then Dial succeeds, and the session ends soon with
// DiscTooManyPeers.
func (d *Dialer) Dial(ctx context.Context, url string) (*Session, error) {
	node, err := ParseNode(url)
	if err != nil {
		return nil, err
	}
	return d.DialNode(ctx, node)
}

// DialNode is Dial for a node that was parsed before.
func (d *Dialer) DialNode(ctx context.Context, node *Node) (*Session, error) {
	dialer := rlpx.Dialer{Config: d.RLPx, DialContext: d.DialContext}
	conn, err := dialer.Dial(ctx, "tcp", node.Addr(), node.Key)
	if err != nil {
		return nil, err
	}
	if deadline := conn.ConnectionState().HandshakeDeadline; !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	return NewSession(ctx, conn, d.Session)
}
