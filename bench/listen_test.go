package bench

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlpx/transport/handshake"
	"github.com/go-rlpx/transport/rlpx"
)

const (
	hostilePeers = 500

	// hostileStay is how long a hostile peer is there on average before a new one takes its place.
	// It sends what it has to send half-way. The listener hangs up on garbage at once, so that one
	// is replaced then.
	hostileStay = time.Second

	// goodPause is between two good peers, so that a round of them sees many hostile ones come and
	// go.
	goodPause = 5 * time.Millisecond

	// listenRound is how many handshakes are measured in a row. Rounds with and without hostile
	// peers alternate, so that a machine that drifts does so for both.
	listenRound = 100
)

// BenchmarkListen is how long a good peer needs to connect, shake hands and be accepted over TCP,
// when it is alone and when 500 others stall, send garbage or stop halfway. An operation is one
// such handshake of each kind. What is reported are medians of the rounds: of each one's
// percentiles, and of each one's ratio of the two p99. The ratio of the p99 of all rounds together
// is reported beside it: it is the harsher one, and follows single stalls of the machine.
func BenchmarkListen(b *testing.B) {
	key := newKey(b)
	l, err := rlpx.Listen("tcp", "127.0.0.1:0", &rlpx.Config{Key: key})
	if err != nil {
		fail(b, err)
	}
	defer l.Close()
	m := &hostility{addr: l.Addr().String(), packets: hostilePackets(b, key)}
	good := &rlpx.Config{Key: newKey(b)}

	var idle50, idle99, hostile50, hostile99, ratio []float64 // of each round
	var allIdle, allHostile []float64                         // of all rounds together
	var replaced int64
	var under time.Duration
	for done := 0; done < b.N; done += listenRound {
		n := min(listenRound, b.N-done)
		idle := goodPeers(b, l, key, good, n)
		stop := m.start(b)
		before, start := m.opened.Load(), time.Now()
		attacked := goodPeers(b, l, key, good, n)
		under += time.Since(start)
		replaced += m.opened.Load() - before
		stop()

		allIdle, allHostile = append(allIdle, idle...), append(allHostile, attacked...)
		idle50, idle99 = append(idle50, percentile(idle, 50)), append(idle99, percentile(idle, 99))
		hostile50, hostile99 = append(hostile50, percentile(attacked, 50)), append(hostile99, percentile(attacked, 99))
		ratio = append(ratio, percentile(attacked, 99)/percentile(idle, 99))
	}
	b.ReportMetric(0, "ns/op") // it would be of the rounds
	b.ReportMetric(percentile(idle50, 50), "idle-p50-ns")
	b.ReportMetric(percentile(idle99, 50), "idle-p99-ns")
	b.ReportMetric(percentile(hostile50, 50), "hostile-p50-ns")
	b.ReportMetric(percentile(hostile99, 50), "hostile-p99-ns")
	b.ReportMetric(percentile(ratio, 50), "p99-ratio")
	b.ReportMetric(percentile(allHostile, 99)/percentile(allIdle, 99), "pooled-p99-ratio")
	b.ReportMetric(float64(replaced)/under.Seconds(), "hostile/s")
}

// goodPeers measures n handshakes, one after the other, each from before the connect until both
// ends have a Conn.
func goodPeers(b *testing.B, l *rlpx.Listener, key *ecdsa.PrivateKey, cfg *rlpx.Config, n int) (ns []float64) {
	b.Helper()
	for range n {
		start := time.Now()
		client, err := rlpx.Dial(b.Context(), "tcp", l.Addr().String(), &key.PublicKey, cfg)
		if err != nil {
			fail(b, err)
		}
		server, err := l.Accept(b.Context())
		if err != nil {
			fail(b, err)
		}
		ns = append(ns, float64(time.Since(start)))
		client.Close()
		server.Close()
		time.Sleep(goodPause)
	}
	return ns
}

// percentile returns the p-th percentile, the nearest value that was measured.
func percentile(values []float64, p int) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)*p+99)/100-1]
}

// hostilePackets returns what hostile peers send. Those that are complete, or not RLPx from the
// start, end the connection; after the others the listener waits for more.
func hostilePackets(b *testing.B, key *ecdsa.PrivateKey) [][]byte {
	b.Helper()
	h, err := handshake.NewInitiator(newKey(b), &key.PublicKey, nil)
	if err != nil {
		fail(b, err)
	}
	auth, err := h.WriteAuth(nil)
	if err != nil {
		fail(b, err)
	}
	forged := slices.Clone(auth) // costs a multiplication before the tag shows it
	forged[len(forged)-1] ^= 1
	return [][]byte{
		nil,                                              // stalls
		{1},                                              // half of the size
		auth[:2], auth[:len(auth)/2], auth[:len(auth)-1], // half-open
		[]byte("GET / HTTP/1.1\r\nHost: node\r\n\r\n"), {0x16, 3, 1, 2, 0, 1, 0}, []byte("SSH-2.0-OpenSSH_9.9\r\n"), {0, 0, 0}, // garbage
		forged,
	}
}

// hostility keeps hostile peers connected to one listener.
type hostility struct {
	addr    string
	packets [][]byte
	opened  atomic.Int64
}

// start returns when all of them have connected once. stop returns when all are gone.
func (m *hostility) start(b *testing.B) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	var peers, connected sync.WaitGroup
	connected.Add(hostilePeers)
	for i := range hostilePeers {
		peers.Go(func() {
			first := sync.OnceFunc(connected.Done)
			defer first()
			scale := rand.Float64() // of the first stay, so that they do not all leave together
			for n := i; ctx.Err() == nil; n++ {
				stay := time.Duration(scale * float64(hostileStay))
				if err := m.attack(ctx, stay, m.packets[n%len(m.packets)], first); err != nil && ctx.Err() == nil {
					b.Error(err)
					return
				}
				scale = 0.5 + rand.Float64()
			}
		})
	}
	connected.Wait()
	return func() {
		cancel()
		peers.Wait()
	}
}

// attack is one hostile peer.
func (m *hostility) attack(ctx context.Context, stay time.Duration, packet []byte, connected func()) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", m.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	m.opened.Add(1)
	connected()
	for _, send := range [][]byte{nil, packet} {
		c.Write(send)
		c.SetReadDeadline(time.Now().Add(stay / 2))
		switch n, err := c.Read(make([]byte, 1)); {
		case n > 0:
			return errors.New("the listener answered a hostile peer")
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return nil // it hung up, or the benchmark ends
		}
	}
	return nil
}
