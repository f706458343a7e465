package main

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// Capability is what a relay and its peers speak. Each message of it, under any id, is passed on as
// it came.
var Capability = p2p.Capability{Cap: p2p.Cap{Name: "relay", Version: 1}, Length: 16, MaxMessageSize: 1 << 20}

// Config says how a Relay behaves. Key must be set; a zero field stands for its default.
type Config struct {
	Key   *ecdsa.PrivateKey
	Name  string
	Nodes []*p2p.Node // to which a session is kept

	MaxPeers      int // dialled and accepted together; 50
	MaxPerAddress int // accepted connections from one IP address, whatever their state; no limit
	SendQueue     int // bytes kept for a peer that does not keep up; rlpx.DefaultSendQueue
	MaxDropped    int // messages in a row that find a peer's queue full before it is disconnected; 64

	// MinPause and MaxPause bound the pause before a node is dialled again: a second, five minutes.
	// It doubles each time, and begins anew after a session of at least MaxPause.
	MinPause, MaxPause time.Duration

	// Event is told what happens. It is called by many goroutines at once and must not wait.
	Event func(Event)

	// For tests and proxies: what is used in place of the defaults of package p2p.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	Session     p2p.SessionConfig // its times and queues
}

// EventKind says what happened.
type EventKind string

const (
	PeerAdded   EventKind = "peer added"
	PeerRefused EventKind = "peer refused"       // Err is the p2p.DiscReason that it was given
	PeerGone    EventKind = "peer gone"          // Err is the error of its session
	PeerSlow    EventKind = "message dropped"    // Err is rlpx.ErrQueueFull
	NotAccepted EventKind = "no session with"    // Err says why a connection that came in did not become one
	NotDialled  EventKind = "cannot dial"        // Err says why
	DialPause   EventKind = "dialling again in " // Err is nil
)

// Event is something that happened.
type Event struct {
	Kind    EventKind
	Session *p2p.Session // of peers
	Addr    string       // of the other end
	Pause   time.Duration
	Err     error
}

func (e Event) String() string {
	text := string(e.Kind)
	if e.Kind == DialPause {
		text += e.Pause.Round(time.Millisecond).String() + ":"
	}
	text += " " + e.Addr
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Relay passes messages on between its peers. Make one with New and Run it once.
type Relay struct {
	cfg     Config
	conn    *rlpx.Config
	session *p2p.SessionConfig
	self    [p2p.IDLength]byte
	addrs   addresses

	list     atomic.Pointer[[]*peer] // all of peers; never modified, but replaced
	sessions sync.WaitGroup          // those that have started and not ended

	mu     sync.Mutex
	ending bool
	peers  map[[p2p.IDLength]byte]*peer
}

// peer is a session that messages are passed on to.
type peer struct {
	session *p2p.Session
	channel *p2p.Channel
	full    atomic.Int64 // messages in a row for which there was no room

	// Scratch of forward, which is called by the one goroutine that reads from the peer.
	others   []*peer
	channels []*p2p.Channel
}

// New makes a relay.
func New(cfg Config) (*Relay, error) {
	if cfg.Key == nil {
		return nil, errors.New("relay: no key")
	}
	cfg.Name = cmp.Or(cfg.Name, "relay/v1")
	cfg.MaxPeers = cmp.Or(cfg.MaxPeers, 50)
	cfg.MaxDropped = cmp.Or(cfg.MaxDropped, 64)
	cfg.MinPause = cmp.Or(cfg.MinPause, time.Second)
	cfg.MaxPause = max(cmp.Or(cfg.MaxPause, 5*time.Minute), cfg.MinPause)
	if cfg.Event == nil {
		cfg.Event = func(Event) {}
	}
	r := &Relay{
		cfg:   cfg,
		self:  nodeID(&cfg.Key.PublicKey),
		addrs: addresses{limit: cfg.MaxPerAddress, open: map[string]string{}, hosts: map[string]int{}},
		peers: map[[p2p.IDLength]byte]*peer{},
	}
	r.list.Store(new([]*peer))
	r.conn = &rlpx.Config{Key: cfg.Key, SendQueue: cfg.SendQueue, Allow: r.addrs.take, OnError: r.notAccepted}
	r.session = cfg.Session.Clone()
	r.session.Name = cfg.Name
	offered := Capability
	offered.Handle = r.forward
	r.session.Capabilities = p2p.Capabilities{offered}
	r.session.Trace = &p2p.SessionTrace{Started: r.started, Ended: r.ended}
	return r, nil
}

// Run accepts peers from inner, which may be nil, and keeps sessions to the configured nodes, until
// ctx is done. Then it tells all peers that it quits, and returns nil when no session is left.
// inner is closed in any case.
func (r *Relay) Run(ctx context.Context, inner net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var tasks sync.WaitGroup
	var failed error
	if inner != nil {
		if addr, ok := inner.Addr().(*net.TCPAddr); ok {
			r.session.ListenPort = uint64(addr.Port)
		}
		listener := p2p.NewListener(rlpx.NewListener(inner, r.conn), r.conn, r.session)
		defer listener.Close()
		tasks.Go(func() {
			defer cancel()
			for {
				// started has dealt with the session already, and forward has its messages.
				if _, err := listener.Accept(ctx); err != nil {
					if ctx.Err() == nil {
						failed = fmt.Errorf("relay: accepting: %w", err)
					}
					listener.Close()
					return
				}
			}
		})
	}
	for _, node := range r.cfg.Nodes {
		tasks.Go(func() { r.keep(ctx, node) })
	}
	<-ctx.Done()
	r.mu.Lock()
	r.ending = true // no more are added
	r.mu.Unlock()
	for _, p := range *r.list.Load() {
		p.session.End(p2p.DiscQuitting)
	}
	tasks.Wait() // after that no session starts
	r.sessions.Wait()
	return failed
}

// Peers returns the sessions with all peers.
func (r *Relay) Peers() []*p2p.Session {
	var sessions []*p2p.Session
	for _, p := range *r.list.Load() {
		sessions = append(sessions, p.session)
	}
	return sessions
}

// started decides about a session when Hello is through. It comes before the first message of the
// session.
func (r *Relay) started(s *p2p.Session) {
	r.sessions.Add(1)
	refusal, replaced := r.add(s)
	switch {
	case refusal != nil:
		s.End(*refusal)
		r.event(PeerRefused, s, *refusal)
	case replaced != nil:
		replaced.End(p2p.DiscAlreadyConnected)
		fallthrough
	default:
		r.event(PeerAdded, s, nil)
	}
}

// add makes s a peer. It returns a reason not to, or the session that s takes the place of.
func (r *Relay) add(s *p2p.Session) (refusal *p2p.DiscReason, replaced *p2p.Session) {
	no := func(reason p2p.DiscReason) (*p2p.DiscReason, *p2p.Session) { return &reason, nil }
	r.mu.Lock()
	defer r.mu.Unlock()
	id := s.Remote().ID
	old := r.peers[id]
	switch {
	case r.ending:
		return no(p2p.DiscQuitting)
	case old != nil && !r.better(s, old.session):
		return no(p2p.DiscAlreadyConnected)
	case old != nil:
		replaced = old.session
	case len(r.peers) >= r.cfg.MaxPeers:
		return no(p2p.DiscTooManyPeers)
	}
	r.peers[id] = &peer{session: s, channel: s.Capability(Capability.Name)}
	r.publish()
	return nil, replaced
}

// better decides between two sessions with the same node. When both nodes dial at the same time,
// both must keep the same session: that which the node with the smaller id has dialled.
func (r *Relay) better(s, old *p2p.Session) bool {
	ours, id := s.ConnectionState().Initiator, s.Remote().ID
	if old.ConnectionState().Initiator == ours {
		return false
	}
	return ours == (slices.Compare(r.self[:], id[:]) < 0)
}

// ended is called once for each session that started was called for.
func (r *Relay) ended(s *p2p.Session, err error) {
	defer r.sessions.Done()
	r.addrs.release(s.RemoteAddr())
	if r.remove(s) {
		r.event(PeerGone, s, err)
	}
}

// remove takes s out of the peers. It reports false if it was refused or replaced, and so is none
// of them.
func (r *Relay) remove(s *p2p.Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := s.Remote().ID
	if p := r.peers[id]; p == nil || p.session != s {
		return false
	}
	delete(r.peers, id)
	r.publish()
	return true
}

// publish makes list of peers. It is called with mu held.
func (r *Relay) publish() {
	list := make([]*peer, 0, len(r.peers))
	for _, p := range r.peers {
		list = append(list, p)
	}
	r.list.Store(&list)
}

// peerOf returns the peer with the given session, nil if it was refused or replaced.
func (r *Relay) peerOf(s *p2p.Session) *peer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.peers[s.Remote().ID]; p != nil && p.session == s {
		return p
	}
	return nil
}

// forward passes a message on to all other peers. It is called by the reader of the session that it
// came from, one message after the other, so each peer gets the messages of another in their order.
func (r *Relay) forward(ch *p2p.Channel, id uint64, data []byte) error {
	from := r.peerOf(ch.Session())
	if from == nil {
		return nil
	}
	for _, p := range *r.list.Load() {
		if p != from {
			from.others, from.channels = append(from.others, p), append(from.channels, p.channel)
		}
	}
	errs := p2p.SendAll(from.channels, id, data)
	for i, p := range from.others {
		switch {
		case errs == nil || errs[i] == nil:
			p.full.Store(0)
		case errors.Is(errs[i], rlpx.ErrQueueFull):
			r.event(PeerSlow, p.session, errs[i])
			if p.full.Add(1) >= int64(r.cfg.MaxDropped) {
				p.session.End(p2p.DiscUselessPeer)
			}
		default: // The session has ended, which is reported there.
		}
	}
	// What is kept here would keep peers that are gone.
	clear(from.others)
	clear(from.channels)
	from.others, from.channels = from.others[:0], from.channels[:0]
	return nil
}

// notAccepted is told of connections that came in and did not become sessions.
func (r *Relay) notAccepted(addr net.Addr, err error) {
	r.addrs.release(addr)
	r.cfg.Event(Event{Kind: NotAccepted, Addr: addr.String(), Err: err})
}

func (r *Relay) event(kind EventKind, s *p2p.Session, err error) {
	r.cfg.Event(Event{Kind: kind, Session: s, Addr: s.RemoteAddr().String(), Err: err})
}

func nodeID(key *ecdsa.PublicKey) [p2p.IDLength]byte {
	return [p2p.IDLength]byte(crypto.FromECDSAPub(key)[1:])
}
