package rlpx

import (
	"context"
	"encoding/binary"
	"flag"
	"hash/maphash"
	"math/rand/v2"
	"net"
	"os"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

var (
	soakTime  = flag.Duration("soak", 3*time.Second, "how long TestSoak runs")
	soakConns = flag.Int("soak.conns", 30, "connections that TestSoak keeps up; 200 for a real soak")
	soakSeed  = flag.Uint64("soak.seed", 0, "what TestSoak does; 0 for a random one")
)

// TestSoak keeps connections to one Listener up over slow and lossy links. On each, both ends write
// messages of mixed sizes from several goroutines, by every way of writing that there is, and the
// listening end broadcasts. Sessions end by agreement, by a Close from nowhere or by a reset, and
// others take their place. Every message is accounted for: of each stream of messages exactly those
// that were written arrive, in their order, up to the last one where the session ended by
// agreement. Nothing is left behind.
//
//	go test ./rlpx -run TestSoak -v -soak 5m -soak.conns 200
func TestSoak(t *testing.T) {
	rlpxtest.CheckGoroutines(t)
	rlpxtest.CheckFDs(t)
	if testing.Short() {
		*soakTime, *soakConns = min(*soakTime, time.Second), min(*soakConns, 10)
	}
	seed := *soakSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	s := newSoak(t, seed)
	base := rlpxtest.HeapInUse()

	ctx, cancel := context.WithTimeout(t.Context(), *soakTime)
	defer cancel()
	var workers sync.WaitGroup
	for i := range *soakConns {
		workers.Go(func() { s.dialForever(ctx, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	for i := range max(1, *soakConns/10) {
		workers.Go(func() { s.broadcastForever(ctx, rand.New(rand.NewPCG(seed, 1<<32+uint64(i)))) })
	}
	workers.Go(func() { s.watchMemory(ctx) })
	finished := make(chan struct{})
	go func() { workers.Wait(); s.sessions.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-time.After(*soakTime + 5*time.Minute):
		pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
		t.Fatal("sessions do not end")
	}
	s.listener.Close()
	s.accepting.Wait()

	after := rlpxtest.HeapInUse()
	t.Logf("%d sessions: %d ended by agreement, %d by Close, %d by a reset; %d handshakes were cut", s.count.agreed.Load()+s.count.closed.Load()+s.count.cut.Load(),
		s.count.agreed.Load(), s.count.closed.Load(), s.count.cut.Load(), s.count.unborn.Load())
	t.Logf("%d messages written, %d received, %.1f MiB of them; %d in broadcasts; %d reads resumed after a timeout",
		s.count.written.Load(), s.count.received.Load(), float64(s.count.bytes.Load())/(1<<20), s.count.broadcast.Load(), s.count.resumed.Load())
	t.Logf("heap in use: %d KiB before, at most %d KiB meanwhile, %d KiB after", base>>10, s.count.peak.Load()>>10, after>>10)
	if after > base+2<<20 {
		t.Errorf("%d KiB more in use than before", (after-base)>>10)
	}
	if s.count.received.Load() == 0 || s.count.agreed.Load() == 0 {
		t.Error("nothing was tested")
	}
}

// Codes of the messages of a session. The first three are streams, whose order is checked.
const (
	soakFirst      = 0x10 // by the first writer
	soakSecond     = 0x81 // by the second writer
	soakBroadcasts = 1 << 40

	soakHello = 0x80 // names the session, is the first message
	soakBye   = 0x01 // is the last message
)

var soakStreams = []uint64{soakFirst, soakSecond, soakBroadcasts}

// soakSession is what both ends know of a session.
type soakSession struct {
	id     uint64
	snappy bool
	kind   int // how it ends
	link   *rlpxtest.Link
	ends   [2]soakEnd // that dialled and that was accepted

	disturbed atomic.Bool // closed or cut: only then may anything fail

	serving bool          // the accepted end knows of the session; guarded by soak.mu
	served  chan struct{} // closed when that end is done with it
}

// Kinds of session ends. Two in four are agreed.
const (
	soakClose = 2 + iota
	soakCut
	soakKinds
)

// soakEnd is one end: what it wrote and what it received.
type soakEnd struct {
	conn    *Conn // guarded by soak.mu until the session is served
	maxSize int
	leave   context.CancelFunc // stops the writers
	writers sync.WaitGroup

	broadcasting sync.Mutex // held while a broadcast has this end, and for ever once it leaves

	mu   sync.Mutex
	sent map[uint64][]uint64 // by stream, a digest of each message that a write was begun for
	got  map[uint64][]uint64 // of the reader alone
}

type soak struct {
	t        *testing.T
	hash     maphash.Seed
	data     []byte // that messages are cut from: random, then compressible
	listener *Listener
	config   *Config

	accepting sync.WaitGroup
	sessions  sync.WaitGroup // their accepted ends
	nextID    atomic.Uint64
	mu        sync.Mutex
	live      map[uint64]*soakSession

	count struct {
		agreed, closed, cut, unborn                  atomic.Int64
		written, received, bytes, broadcast, resumed atomic.Int64
		peak                                         atomic.Uint64
	}
}

const soakDataSize = 8 << 20

func newSoak(t *testing.T, seed uint64) *soak {
	s := &soak{t: t, hash: maphash.MakeSeed(), live: make(map[uint64]*soakSession)}
	s.data = make([]byte, soakDataSize)
	r := rand.New(rand.NewPCG(seed, 99))
	for i := 0; i < soakDataSize/2; i += 8 {
		binary.LittleEndian.PutUint64(s.data[i:], r.Uint64())
	}
	for i := soakDataSize / 2; i < soakDataSize; i += 8 {
		binary.LittleEndian.PutUint64(s.data[i:], uint64(i>>6)*0x9E3779B97F4A7C15)
	}
	s.config = &Config{Key: newKey(t), HandshakeTimeout: time.Minute, SharedHashing: true}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.listener = NewListener(smallBuffers{inner}, s.config)
	s.accepting.Go(func() {
		for {
			conn, err := s.listener.Accept(context.Background())
			if err != nil {
				return
			}
			s.sessions.Go(func() { s.serve(conn) })
		}
	})
	return s
}

// dialForever runs one session after the other.
func (s *soak) dialForever(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil && !s.t.Failed() {
		ss := s.newSession(r)
		s.dial(ctx, ss, r)
		s.mu.Lock()
		delete(s.live, ss.id)
		serving := ss.serving
		s.mu.Unlock()
		if serving {
			<-ss.served
		}
		s.check(ss)
	}
}

func (s *soak) newSession(r *rand.Rand) *soakSession {
	ss := &soakSession{id: s.nextID.Add(1), snappy: r.IntN(2) == 0, served: make(chan struct{})}
	ss.kind = int(ss.id % soakKinds) // all of them, however few sessions there are
	for i := range ss.ends {
		ss.ends[i].sent, ss.ends[i].got = make(map[uint64][]uint64), make(map[uint64][]uint64)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[ss.id] = ss
	return ss
}

// dial runs the dialling end of a session, and what disturbs it.
func (s *soak) dial(ctx context.Context, ss *soakSession, r *rand.Rand) {
	life := time.Duration(r.Int64N(int64(min(*soakTime/4, 10*time.Second))))
	if r.IntN(5) == 0 {
		life = time.Duration(r.IntN(60)) * time.Millisecond // before or in the handshake
	}
	over, stop := context.WithTimeout(ctx, life)
	defer stop()

	ours, err := s.connect(ss, r)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer ss.link.Wait()
	if ss.kind == soakCut {
		var cutter sync.WaitGroup
		defer cutter.Wait()
		cutter.Go(func() {
			<-over.Done()
			ss.disturbed.Store(true)
			ss.link.Cut()
		})
	}
	d := Dialer{Config: s.config, DialContext: func(context.Context, string, string) (net.Conn, error) { return ours, nil }}
	conn, err := d.Dial(context.Background(), "tcp", s.listener.Addr().String(), &s.config.Key.PublicKey)
	if err != nil {
		s.failed(ss, "Dial", err)
		s.count.unborn.Add(1)
		return
	}
	defer conn.Close()
	end := &ss.ends[0]
	end.conn = conn
	if _, err := conn.Write(soakHello, binary.BigEndian.AppendUint64(nil, ss.id)); err != nil {
		s.failed(ss, "the first Write", err)
	}
	conn.SetSnappy(ss.snappy)
	s.startWriters(ss, end, r.Uint64())
	defer end.writers.Wait()
	defer end.leave()

	var reader sync.WaitGroup
	defer reader.Wait()
	reading := make(chan struct{})
	reader.Go(func() {
		defer close(reading)
		s.read(ss, end, rand.New(rand.NewPCG(ss.id, 1)), nil)
	})
	select {
	case <-over.Done():
	case <-reading:
	}
	switch ss.kind {
	case soakCut:
		s.count.cut.Add(1)
		<-reading
	case soakClose:
		s.count.closed.Add(1)
		ss.disturbed.Store(true)
		s.victim(ss, r).Close()
		<-reading
	default:
		s.count.agreed.Add(1)
		s.bye(ss, end)
		<-reading
	}
	conn.Close()
}

// victim is one end's Conn, that of the accepted end only if it is there already.
func (s *soak) victim(ss *soakSession, r *rand.Rand) *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if conn := ss.ends[1].conn; conn != nil && r.IntN(2) == 0 {
		return conn
	}
	return ss.ends[0].conn
}

// serve runs the accepted end of a session.
func (s *soak) serve(conn *Conn) {
	defer conn.Close()
	code, data, _, err := conn.Read()
	if err != nil {
		return // the other end complains if it should not be
	}
	if code != soakHello || len(data) != 8 {
		s.t.Errorf("first message: code %#x, %d bytes", code, len(data))
		return
	}
	s.mu.Lock()
	ss := s.live[binary.BigEndian.Uint64(data)]
	if ss == nil {
		s.mu.Unlock()
		return // the other end is gone already
	}
	ss.serving = true
	end := &ss.ends[1]
	conn.SetSnappy(ss.snappy)
	end.conn = conn
	s.mu.Unlock()
	defer close(ss.served)

	s.startWriters(ss, end, ss.id)
	var ending sync.WaitGroup
	s.read(ss, end, rand.New(rand.NewPCG(ss.id, 2)), func() { ending.Go(func() { s.bye(ss, end) }) })
	ending.Wait()
	end.leave()
	conn.Close()
	end.writers.Wait()
}
