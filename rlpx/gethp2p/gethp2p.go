// Package gethp2p runs protocols that were written for go-ethereum's package p2p over sessions of
// this library. A [gethp2p.Protocol] needs no change: its Run gets a Peer and a MsgReadWriter as
// it does from a p2p.Server.
//
//	protocols := eth.MakeProtocols(backend, 1, nil)
//	session, err := p2p.Dial(ctx, url, &rlpx.Config{Key: key}, &p2p.SessionConfig{
//		Name: "node/v1", Capabilities: gethp2p.Capabilities(protocols),
//	})
//	...
//	err = gethp2p.Run(session, protocols...) // until the session ends
//
// The library finds the peers, and limits their number, no more than before: that is the part of
// p2p.Server that has no counterpart here.
//
// # What the Peer knows
//
// ID, Node, RemoteAddr, LocalAddr and Inbound are those of the connection. Node has the remote
// address, also where we were dialed and the peer does not listen there. Name and Caps are from the
// peer's Hello. RunningCap and Info know the protocols that run. A peer that we dialed is
// DynDialed.
//
// Only a p2p.Server can make such a Peer. Package gethp2p sets fields of it that are not exported.
// It checks at start whether the version of go-ethereum in the program has them and whether they do
// what is expected. Where not, the Peer is what p2p.NewPeerPipe makes of it: RemoteAddr and
// LocalAddr are "pipe", Inbound and DynDialed are false, Node has no address, Caps has what runs
// and no more, Info has nothing of a protocol's own, and whatever reason is given to Disconnect,
// the peer is told DiscRequested. All else is as it should be. [Complete] says which it is.
//
// # Differences to a p2p.Server
//
//   - A session queues some messages for a protocol that is busy: see p2p.SessionConfig. So a
//     message's ReceivedAt is when ReadMsg returned it.
//   - A protocol that reads nothing for p2p.SessionConfig.StallTimeout while its queue is full ends
//     the session.
//   - After a Disconnect of the peer, ReadMsg returns its reason, as a p2p.DiscReason. A p2p.Server
//     gives io.EOF there, as it is here after any other end.
//   - A DiscReason is found in what Run returns also if it is wrapped.
//   - A message that is too large to be sent does not end the session.
//
// [gethp2p.Protocol]: https://pkg.go.dev/github.com/ethereum/go-ethereum/p2p#Protocol
package gethp2p

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	geth "github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

// ErrNoProtocol reports a session that shares none of the protocols that Run was given.
var ErrNoProtocol = errors.New("gethp2p: the session shares none of the protocols")

// Capability returns the capability that a session announces for a protocol.
func Capability(protocol geth.Protocol) p2p.Capability {
	return p2p.Capability{
		Cap:    p2p.Cap{Name: protocol.Name, Version: uint64(protocol.Version)},
		Length: protocol.Length,
	}
}

// Capabilities returns the capabilities that a session announces for protocols.
func Capabilities(protocols []geth.Protocol) p2p.Capabilities {
	caps := make(p2p.Capabilities, len(protocols))
	for i, protocol := range protocols {
		caps[i] = Capability(protocol)
	}
	return caps
}

// Run runs those of the protocols that the session shares, each in a goroutine, with one Peer. It
// is to be called once for a session. Other capabilities of the session are left to the caller.
//
// The session ends when the first Run of a protocol returns. The peer is told the DiscReason in its
// error. Without one it is told what a p2p.Server says: DiscQuitting after nil, DiscProtocolError
// after a message that cannot be decoded or has an invalid code, DiscSubprotocolError after all
// else. If the session ends otherwise, the protocols are told by ReadMsg and WriteMsg.
//
// Run returns when all protocols have returned and the session is done. It returns the error of the
// protocol that ended the session, or nil if that returned nil; otherwise the session's error. If
// the session shares none of the protocols it goes on, and the error is ErrNoProtocol.
func Run(session *p2p.Session, protocols ...geth.Protocol) error {
	var running []geth.Protocol
	for _, shared := range session.Shared().All() {
		for _, protocol := range protocols {
			if Capability(protocol).Cap == shared.Cap {
				running = append(running, protocol)
				break
			}
		}
	}
	if len(running) == 0 {
		return ErrNoProtocol
	}
	peer := newPeer(session, running, internals != nil)
	var all sync.WaitGroup
	// Written by the one goroutine that ends the session.
	var ended bool
	var cause error
	for _, protocol := range running {
		rw := &messages{session.Capability(protocol.Name)}
		all.Go(func() {
			err := protocol.Run(peer, rw)
			if !session.End(reasonFor(err)) {
				return
			}
			ended = true
			if err != nil {
				cause = fmt.Errorf("gethp2p: %s: %w", rw.ch.Shared().Cap, err)
			}
		})
	}
	all.Wait()
	<-session.Done()
	if ended {
		return cause
	}
	return session.Err()
}

// peerError is the type of go-ethereum's own error for what a peer did wrong, which is not
// exported.
var peerError = reflect.TypeOf(geth.Msg{Payload: eof{}}.Decode(new(string)))

// reasonFor returns what to tell the peer after a protocol returned err.
func reasonFor(err error) p2p.DiscReason {
	if err == nil {
		return p2p.DiscQuitting
	}
	if reason, ok := errors.AsType[geth.DiscReason](err); ok {
		return p2p.DiscReason(reason)
	}
	if reason, ok := errors.AsType[p2p.DiscReason](err); ok {
		return reason
	}
	if errors.Is(err, p2p.ErrInvalidMessageID) || reflect.TypeOf(err) == peerError {
		return p2p.DiscProtocolError
	}
	return p2p.DiscSubprotocolError
}

// peerID is the id by which go-ethereum knows the peer of a session.
func peerID(session *p2p.Session) enode.ID { return enode.PubkeyToIDV4(session.RemoteKey()) }
