package gethp2p

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"time"
	"unsafe"

	geth "github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"
)

// This file alone depends on what go-ethereum does not export. p2p.Peer has these fields:
//
//	rw      *conn               with fd, node, flags, caps
//	running map[string]*protoRW with Protocol embedded
//	disc    chan DiscReason     to which Disconnect sends
//	closed  chan struct{}       or receives from, whichever comes first
//
// A Peer of NewPeer is nobody else's until it is given away, so that its fields can be set without
// a lock.

// internals is how fields of a Peer are set, nil if this version of go-ethereum has others.
var internals, internalsErr = probe()

// peerFields is what was found out about go-ethereum at start.
type peerFields struct {
	inbound, dialed int64 // flags of a conn
}

// details is what NewPeer does not know.
type details struct {
	node      *enode.Node
	caps      []geth.Cap
	addrs     addresses
	inbound   bool
	protocols []geth.Protocol // that run
}

type addresses interface {
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
}

// disconnects is how to learn of calls of Peer.Disconnect. They wait until their reason is received
// or closed is closed.
type disconnects struct {
	reasons <-chan geth.DiscReason
	closed  chan struct{}
}

// complete sets the fields of a peer that nobody uses yet.
func (f *peerFields) complete(peer *geth.Peer, d *details) disconnects {
	p := reflect.ValueOf(peer).Elem()
	conn := p.FieldByName("rw").Elem()
	fd := field[net.Conn](conn, "fd")
	*fd = &addressed{Conn: *fd, addrs: d.addrs}
	*field[*enode.Node](conn, "node") = d.node
	// As in go-ethereum, which has them in this order.
	caps := slices.SortedFunc(slices.Values(d.caps), geth.Cap.Cmp)
	*field[[]geth.Cap](conn, "caps") = caps
	flag := f.dialed
	if d.inbound {
		flag = f.inbound
	}
	access(conn, "flags").SetInt(flag)

	running := access(p, "running")
	for _, protocol := range d.protocols {
		*field[geth.Protocol](running.MapIndex(reflect.ValueOf(protocol.Name)).Elem(), "Protocol") = protocol
	}
	closed := make(chan struct{})
	*field[chan struct{}](p, "closed") = closed
	return disconnects{*field[chan geth.DiscReason](p, "disc"), closed}
}

// access returns a field of a struct, exported or not, that can be read and set.
func access(structure reflect.Value, name string) reflect.Value {
	f := structure.FieldByName(name)
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}

// field returns the address of a field of a struct, whose type must be T.
func field[T any](structure reflect.Value, name string) *T {
	return access(structure, name).Addr().Interface().(*T)
}

// addressed is the connection of a Peer, which asks it for its addresses and nothing else.
type addressed struct {
	net.Conn // that of NewPeer
	addrs    addresses
}

func (a *addressed) LocalAddr() net.Addr  { return a.addrs.LocalAddr() }
func (a *addressed) RemoteAddr() net.Addr { return a.addrs.RemoteAddr() }

// probe checks that the fields exist, have the right types, and do what is expected.
func probe() (*peerFields, error) {
	peer := reflect.TypeFor[geth.Peer]()
	conn, err := target(peer, "rw", reflect.Pointer)
	if err != nil {
		return nil, err
	}
	running, err := target(peer, "running", reflect.Map)
	if err != nil {
		return nil, err
	}
	if running.Kind() != reflect.Pointer || running.Elem().Kind() != reflect.Struct || conn.Kind() != reflect.Struct {
		return nil, fmt.Errorf("gethp2p: p2p.Peer has other kinds of fields: %v, %v", conn, running)
	}
	for _, f := range []struct {
		of   reflect.Type
		name string
		want reflect.Type
	}{
		{peer, "disc", reflect.TypeFor[chan geth.DiscReason]()},
		{peer, "closed", reflect.TypeFor[chan struct{}]()},
		{conn, "fd", reflect.TypeFor[net.Conn]()},
		{conn, "node", reflect.TypeFor[*enode.Node]()},
		{conn, "caps", reflect.TypeFor[[]geth.Cap]()},
		{running.Elem(), "Protocol", reflect.TypeFor[geth.Protocol]()},
	} {
		if got, ok := f.of.FieldByName(f.name); !ok || got.Type != f.want {
			return nil, fmt.Errorf("gethp2p: no field %s %v in %v", f.name, f.want, f.of)
		}
	}
	if flags, ok := conn.FieldByName("flags"); !ok || flags.Type.Kind() != reflect.Int32 {
		return nil, fmt.Errorf("gethp2p: no field flags of kind int32 in %v", conn)
	}
	return try()
}

// target returns the type of what a field of a struct points to or has in it.
func target(structure reflect.Type, name string, kind reflect.Kind) (reflect.Type, error) {
	f, ok := structure.FieldByName(name)
	if !ok || f.Type.Kind() != kind {
		return nil, fmt.Errorf("gethp2p: no field %s of kind %v in %v", name, kind, structure)
	}
	return f.Type.Elem(), nil
}

// try finds the flags of a conn, whose numbers are not exported, and completes a peer.
func try() (f *peerFields, err error) {
	defer func() {
		if r := recover(); r != nil {
			f, err = nil, fmt.Errorf("gethp2p: a p2p.Peer cannot be completed: %v", r)
		}
	}()
	f = new(peerFields)
	for flag := int64(1); flag < 1<<31; flag <<= 1 {
		peer := geth.NewPeer(enode.ID{}, "", nil)
		access(reflect.ValueOf(peer).Elem().FieldByName("rw").Elem(), "flags").SetInt(flag)
		inbound, dialed := peer.Inbound(), peer.DynDialed()
		if inbound && !dialed && f.inbound == 0 {
			f.inbound = flag
		}
		if dialed && !inbound && f.dialed == 0 {
			f.dialed = flag
		}
	}
	if f.inbound == 0 || f.dialed == 0 {
		return nil, fmt.Errorf("gethp2p: no flag of a p2p.Peer makes it inbound, or dialed")
	}
	at := &net.TCPAddr{IP: net.IP{192, 0, 2, 1}, Port: 30303}
	protocol := geth.Protocol{Name: "probe", Version: 1, Length: 1, PeerInfo: func(enode.ID) any { return at }}
	running := geth.Cap{Name: "probe", Version: 1}
	other := geth.Cap{Name: "other", Version: 1}
	peer := geth.NewPeer(enode.ID{}, "", []geth.Cap{running})
	disconnects := f.complete(peer, &details{
		node:      enode.SignNull(new(enr.Record), enode.ID{1}),
		caps:      []geth.Cap{running, other},
		addrs:     fixed{at},
		inbound:   true,
		protocols: []geth.Protocol{protocol},
	})
	defer close(disconnects.closed)
	go peer.Disconnect(geth.DiscTooManyPeers)
	var reason geth.DiscReason
	select {
	case reason = <-disconnects.reasons:
	case <-time.After(10 * time.Second): // which nothing waits for with a version that is known
	}
	if peer.ID() != (enode.ID{1}) || !slices.Equal(peer.Caps(), []geth.Cap{other, running}) ||
		peer.RemoteAddr() != net.Addr(at) || peer.LocalAddr() != net.Addr(at) || !peer.Inbound() || peer.Trusted() ||
		!peer.RunningCap("probe", []uint{1}) || peer.RunningCap("other", []uint{1}) ||
		peer.Info().Protocols["probe"] != any(at) || reason != geth.DiscTooManyPeers {
		return nil, fmt.Errorf("gethp2p: a p2p.Peer is not as it was set")
	}
	return f, nil
}

// fixed is an address that both ends have.
type fixed struct{ addr net.Addr }

func (f fixed) LocalAddr() net.Addr  { return f.addr }
func (f fixed) RemoteAddr() net.Addr { return f.addr }
