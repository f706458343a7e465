package sessions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	gethp2p "github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/go-rlpx/transport/internal/txdata"
	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// fleet is a number of sessions over TCP, all of them from one node to as many others, with
// compression on as every peer has it since version 5 of p2p.
type fleet interface {
	// write sends a message over session i and waits until it is written.
	write(i int, data []byte) error
	// received returns a channel that gets an element for each message that arrives.
	received() <-chan int
	close()
}

const (
	capName = "bench"
	msgID   = 1
)

// --- go-ethereum: its Server, and a protocol that reads and writes.

type gethFleet struct {
	servers []*gethp2p.Server
	peers   []gethp2p.MsgReadWriter
	arrived chan int
}

func newGethFleet(tb testing.TB, sessions int) fleet {
	f := &gethFleet{arrived: make(chan int, 1024)}
	connected := make(chan gethp2p.MsgReadWriter)
	stop := make(chan struct{})
	tb.Cleanup(func() { close(stop) })
	sender := gethServer(tb, sessions, func(_ *gethp2p.Peer, rw gethp2p.MsgReadWriter) error {
		connected <- rw
		for {
			msg, err := rw.ReadMsg()
			if err != nil {
				return err
			}
			msg.Discard()
		}
	})
	f.servers = append(f.servers, sender)
	for range sessions {
		s := gethServer(tb, 1, func(_ *gethp2p.Peer, rw gethp2p.MsgReadWriter) error {
			buf := make([]byte, 1<<20)
			for {
				msg, err := rw.ReadMsg()
				if err != nil {
					return err
				}
				n, err := io.ReadFull(msg.Payload, buf[:msg.Size])
				if err != nil {
					return err
				}
				select {
				case f.arrived <- n:
				case <-stop:
					return nil
				}
			}
		})
		f.servers = append(f.servers, s)
		sender.AddPeer(s.Self())
		select {
		case rw := <-connected:
			f.peers = append(f.peers, rw)
		case <-time.After(time.Minute):
			tb.Fatal("no session")
		}
	}
	return f
}

func gethServer(tb testing.TB, peers int, run func(*gethp2p.Peer, gethp2p.MsgReadWriter) error) *gethp2p.Server {
	key, err := crypto.GenerateKey()
	if err != nil {
		tb.Fatal(err)
	}
	s := &gethp2p.Server{Config: gethp2p.Config{
		PrivateKey: key, Name: "bench", MaxPeers: peers + 10, DialRatio: dialRatio(peers), NoDiscovery: true, ListenAddr: "127.0.0.1:0",
		Protocols: []gethp2p.Protocol{{Name: capName, Version: 1, Length: 16, Run: run}},
	}}
	if err := s.Start(); err != nil {
		tb.Fatal(err)
	}
	return s
}

// dialRatio lets a server dial all its peers, unless it has one, which dials it.
func dialRatio(peers int) int {
	if peers > 1 {
		return 1
	}
	return 0
}

func (f *gethFleet) write(i int, data []byte) error {
	return f.peers[i].WriteMsg(gethp2p.Msg{Code: msgID, Size: uint32(len(data)), Payload: bytes.NewReader(data)})
}

func (f *gethFleet) received() <-chan int { return f.arrived }

func (f *gethFleet) close() {
	for _, s := range f.servers {
		s.Stop()
	}
}

// --- This library.

type rlpxFleet struct {
	listener *p2p.Listener
	sessions []*p2p.Session
	channels []*p2p.Channel
	arrived  chan int
}

func newRlpxFleet(tb testing.TB, sessions int) fleet {
	f := &rlpxFleet{arrived: make(chan int, 1024)}
	stop := make(chan struct{})
	tb.Cleanup(func() { close(stop) })
	capability := p2p.Capability{Cap: p2p.Cap{Name: capName, Version: 1}, Length: 16}
	receiving := capability
	receiving.Handle = func(_ *p2p.Channel, _ uint64, data []byte) error {
		select {
		case f.arrived <- len(data):
			return nil
		case <-stop:
			return net.ErrClosed
		}
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		tb.Fatal(err)
	}
	f.listener, err = p2p.Listen("tcp", "127.0.0.1:0", &rlpx.Config{Key: key}, &p2p.SessionConfig{Capabilities: p2p.Capabilities{receiving}})
	if err != nil {
		tb.Fatal(err)
	}
	addr := f.listener.Addr().(*net.TCPAddr)
	url := enode.NewV4(&key.PublicKey, addr.IP, addr.Port, 0).URLv4()
	for range sessions {
		key, err := crypto.GenerateKey()
		if err != nil {
			tb.Fatal(err)
		}
		s, err := p2p.Dial(context.Background(), url, &rlpx.Config{Key: key}, &p2p.SessionConfig{Capabilities: p2p.Capabilities{capability}})
		if err != nil {
			tb.Fatal(err)
		}
		other, err := f.listener.Accept(context.Background())
		if err != nil {
			tb.Fatal(err)
		}
		f.sessions = append(f.sessions, s, other)
		f.channels = append(f.channels, s.Capability(capName))
	}
	return f
}

func (f *rlpxFleet) write(i int, data []byte) error { return f.channels[i].Write(msgID, data) }

func (f *rlpxFleet) received() <-chan int { return f.arrived }

func (f *rlpxFleet) close() {
	var wg sync.WaitGroup
	for _, s := range f.sessions {
		wg.Go(func() { s.Close() })
	}
	wg.Wait()
	f.listener.Close()
}

// impls have the reference first: benchstat makes the first column its base.
var impls = []struct {
	name string
	make func(tb testing.TB, sessions int) fleet
}{{"geth", newGethFleet}, {"rlpx", newRlpxFleet}}

// each runs one row for every implementation, one right after the other.
func each(b *testing.B, row string, sessions int, run func(b *testing.B, f fleet)) {
	for _, im := range impls {
		b.Run(row+"/impl="+im.name, func(b *testing.B) {
			f := im.make(b, sessions)
			defer f.close()
			run(b, f)
		})
	}
}

// payload returns size bytes of a list of transactions, of which snappy leaves two thirds.
func payload(size int) []byte { return txdata.Make(size) }

// measure runs b.N messages: send is called with how many there are, and all of them have to
// arrive.
func measure(b *testing.B, f fleet, size int, send func(n int) error) {
	b.SetBytes(int64(size))
	b.ReportAllocs()
	cpu := cpuTime()
	b.ResetTimer()
	done := make(chan error, 1)
	go func() { done <- send(b.N) }()
	for range b.N {
		if n := <-f.received(); n != size {
			b.Fatalf("a message of %d bytes", n)
		}
	}
	b.ReportMetric(float64(cpuTime()-cpu)/float64(b.N), "cpu-ns/op")
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// cpuTime is what the process has used so far, all threads together.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

var sizes = []int{32, 1 << 10, 16 << 10, 128 << 10}

func name(size int) string {
	if size >= 1<<10 {
		return fmt.Sprintf("%dKiB", size>>10)
	}
	return fmt.Sprintf("%dB", size)
}

// BenchmarkSession is messages over one session, written one by one.
func BenchmarkSession(b *testing.B) {
	for _, size := range sizes {
		data := payload(size)
		each(b, "size="+name(size), 1, func(b *testing.B, f fleet) {
			measure(b, f, size, func(n int) error {
				for range n {
					if err := f.write(0, data); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// BenchmarkSessionSend is the same with a send that does not wait, which go-ethereum does not have:
// its side writes. Where the queue is full, one message waits for its turn.
func BenchmarkSessionSend(b *testing.B) {
	for _, size := range sizes {
		data := payload(size)
		each(b, "size="+name(size), 1, func(b *testing.B, f fleet) {
			send := func() error { return f.write(0, data) }
			if ours, ok := f.(*rlpxFleet); ok {
				send = func() error {
					err := ours.channels[0].Send(msgID, data)
					if errors.Is(err, rlpx.ErrQueueFull) {
						err = ours.channels[0].Write(msgID, data)
					}
					return err
				}
			}
			measure(b, f, size, func(n int) error {
				for range n {
					if err := send(); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// BenchmarkSessions is messages over 16 sessions at once, each with a writer of its own.
func BenchmarkSessions(b *testing.B) {
	const sessions = 16
	for _, size := range []int{1 << 10, 16 << 10} {
		data := payload(size)
		each(b, fmt.Sprintf("sessions=%d/size=%s", sessions, name(size)), sessions, func(b *testing.B, f fleet) {
			measure(b, f, size, func(n int) error {
				var wg sync.WaitGroup
				errs := make([]error, sessions)
				for i := range sessions {
					wg.Go(func() {
						for range n/sessions + min(1, max(0, n%sessions-i)) {
							if err := f.write(i, data); err != nil {
								errs[i] = err
								return
							}
						}
					})
				}
				wg.Wait()
				return errors.Join(errs...)
			})
		})
	}
}

// BenchmarkSessionBroadcast is one message to 64 sessions: SendAll against go-ethereum's writes one
// by one. An operation is the message to one peer, which receives it in the same process. cpu-ns/op
// is the CPU time of both ends.
func BenchmarkSessionBroadcast(b *testing.B) {
	const sessions = 64
	for _, size := range []int{1 << 10, 128 << 10} {
		data := payload(size)
		each(b, fmt.Sprintf("sessions=%d/size=%s", sessions, name(size)), sessions, func(b *testing.B, f fleet) {
			ours, _ := f.(*rlpxFleet)
			// The sender of the figure is one goroutine; rounds wait for each other, as blocks do.
			b.SetBytes(int64(size))
			b.ReportAllocs()
			var sending time.Duration
			b.ResetTimer()
			rounds := 0
			for n := 0; n < b.N; n += sessions {
				start := threadTime()
				if ours != nil {
					if errs := p2p.SendAll(ours.channels, msgID, data); errs != nil {
						b.Fatal(errors.Join(errs...))
					}
				} else {
					for i := range sessions {
						if err := f.write(i, data); err != nil {
							b.Fatal(err)
						}
					}
				}
				sending += threadTime() - start
				for range sessions {
					<-f.received()
				}
				rounds++
			}
			b.ReportMetric(float64(sending)/float64(rounds*sessions), "send-ns/op")
		})
	}
}

// threadTime is the CPU time of the whole process: what a goroutine uses is not to be had, and all
// of what is under way serves the message.
func threadTime() time.Duration { runtime.Gosched(); return cpuTime() }
