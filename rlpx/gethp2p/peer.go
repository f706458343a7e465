package gethp2p

import (
	"net"

	geth "github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

// Complete reports whether the Peer that protocols get is complete with the version of go-ethereum
// in this program: see the package documentation.
func Complete() bool { return internals != nil }

// newPeer returns the Peer of a session on which protocols run. Its Disconnect ends the session.
func newPeer(session *p2p.Session, running []geth.Protocol, complete bool) *geth.Peer {
	id, name := peerID(session), session.Remote().Name
	caps := make([]geth.Cap, len(running))
	for i, protocol := range running {
		caps[i] = geth.Cap{Name: protocol.Name, Version: protocol.Version}
	}
	if !complete {
		ours, theirs := geth.MsgPipe()
		go func() {
			theirs.ReadMsg() // returns when Disconnect closes the pipe
			session.End(p2p.DiscRequested)
		}()
		go func() {
			<-session.Done()
			theirs.Close()
		}()
		return geth.NewPeerPipe(id, name, caps, ours)
	}
	// NewPeer takes the capabilities for those that run.
	peer := geth.NewPeer(id, name, caps)
	disconnects := internals.complete(peer, &details{
		node:      node(session),
		caps:      capsOf(session.Remote()),
		addrs:     session,
		inbound:   !session.ConnectionState().Initiator,
		protocols: running,
	})
	go func() {
		defer close(disconnects.closed)
		for {
			select {
			case reason := <-disconnects.reasons:
				session.End(p2p.DiscReason(reason))
			case <-session.Done():
				return
			}
		}
	}()
	return peer
}

// node describes the peer as a p2p.Server does: with the address that the connection has.
func node(session *p2p.Session) *enode.Node {
	if addr, ok := session.RemoteAddr().(*net.TCPAddr); ok {
		return enode.NewV4(session.RemoteKey(), addr.IP, addr.Port, addr.Port)
	}
	return enode.NewV4(session.RemoteKey(), nil, 0, 0)
}

// capsOf returns the capabilities of a Hello, in go-ethereum's order. A version that does not fit
// go-ethereum's type is left out.
func capsOf(hello *p2p.Hello) []geth.Cap {
	caps := make([]geth.Cap, 0, len(hello.Caps))
	for _, c := range hello.Caps {
		if version := uint(c.Version); uint64(version) == c.Version {
			caps = append(caps, geth.Cap{Name: c.Name, Version: version})
		}
	}
	return caps
}
