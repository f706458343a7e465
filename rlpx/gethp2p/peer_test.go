package gethp2p

import (
	"errors"
	"net"
	"slices"
	"testing"

	geth "github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

// The version of go-ethereum that go.mod names is known.
func TestComplete(t *testing.T) {
	if !Complete() {
		t.Fatal(internalsErr)
	}
}

// Both ends of a connection say the same of it, the server's Peer and ours.
func TestPeer(t *testing.T) {
	for _, direction := range []struct {
		name    string
		connect func(*testing.T, *server, ...geth.Protocol) (*p2p.Session, <-chan error)
		inbound bool
	}{{"we dial", dial, false}, {"the server dials", accept, true}} {
		t.Run(direction.name, func(t *testing.T) {
			ours, theirs := make(chan *geth.Peer, 2), make(chan *geth.Peer, 1)
			keep := func(peers chan<- *geth.Peer) run {
				return func(peer *geth.Peer, rw geth.MsgReadWriter) error {
					peers <- peer
					return echo(peer, rw)
				}
			}
			s := startServer(t, protocol("talk", 1, keep(theirs)), protocol("more", 7, echo), protocol("alone", 1, echo))
			talk, more := protocol("talk", 1, keep(ours)), protocol("more", 7, keep(ours))
			talk.PeerInfo = func(id enode.ID) any { return id }
			session, result := direction.connect(t, s, talk, more)
			peer, their := within(t, ours), within(t, theirs)
			if within(t, ours) != peer {
				t.Error("the protocols have different Peers")
			}

			if peer.ID() != s.Self().ID() || peer.Node().ID() != s.Self().ID() {
				t.Errorf("id %v, node %v, want %v", peer.ID(), peer.Node().ID(), s.Self().ID())
			}
			if peer.Fullname() != s.Name {
				t.Errorf("name %q", peer.Fullname())
			}
			if want := []geth.Cap{{Name: "alone", Version: 1}, {Name: "more", Version: 7}, {Name: "talk", Version: 1}}; !slices.Equal(peer.Caps(), want) {
				t.Error("capabilities", peer.Caps())
			}
			if !peer.RunningCap("talk", []uint{1}) || !peer.RunningCap("more", []uint{7}) || peer.RunningCap("alone", []uint{1}) {
				t.Error("what runs is wrong")
			}
			if peer.RemoteAddr().String() != their.LocalAddr().String() || peer.LocalAddr().String() != their.RemoteAddr().String() {
				t.Errorf("%v to %v, the server has %v to %v", peer.LocalAddr(), peer.RemoteAddr(), their.LocalAddr(), their.RemoteAddr())
			}
			if at, _ := peer.Node().TCPEndpoint(); at.String() != session.RemoteAddr().String() {
				t.Error("the node is at", at)
			}
			if peer.Inbound() != direction.inbound || peer.DynDialed() == direction.inbound || peer.StaticDialed() || peer.Trusted() {
				t.Error("the direction is wrong")
			}
			info := peer.Info()
			if info.Protocols["talk"] != any(peer.ID()) || info.Protocols["more"] != "unknown" || len(info.Protocols) != 2 ||
				info.Network.RemoteAddress != session.RemoteAddr().String() {
				t.Errorf("info %+v", info)
			}
			session.Close()
			within(t, result)
			peer.Disconnect(geth.DiscRequested) // does not wait after the end either
		})
	}
}

// With a version of go-ethereum that has other fields, the Peer has what can be had.
func TestPeerFallback(t *testing.T) {
	talk := protocol("talk", 1, echo)
	ours, theirs := pipe(t, talk)
	peer := newPeer(ours, []geth.Protocol{talk}, false)
	if peer.ID() != peerID(ours) || peer.Fullname() != ours.Remote().Name || !peer.RunningCap("talk", []uint{1}) {
		t.Error(peer)
	}
	if peer.RemoteAddr().String() != "pipe" {
		t.Error("address", peer.RemoteAddr())
	}
	peer.Disconnect(geth.DiscTooManyPeers)
	<-theirs.Done()
	if err := theirs.Err(); !errors.Is(err, &p2p.DisconnectError{Reason: p2p.DiscRequested, Remote: true}) {
		t.Error(err)
	}
	<-ours.Done()
	peer.Disconnect(geth.DiscTooManyPeers)
}

// An address that is not one of TCP leaves the node without one.
func TestNodeWithoutAddress(t *testing.T) {
	ours, _ := pipe(t, protocol("talk", 1, echo))
	if _, isTCP := ours.RemoteAddr().(*net.TCPAddr); isTCP {
		t.Fatal("the pipe has an address of TCP")
	}
	if n := node(ours); n.ID() != peerID(ours) || n.IPAddr().IsValid() || n.TCP() != 0 {
		t.Error(n)
	}
}
