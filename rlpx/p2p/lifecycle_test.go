package p2p

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/rlpx"
)

func TestSession(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		checkLeaks(t)
		a, b := n.sessions(t, testConfig(), testConfig())
		if a.Remote().Name != "test" || string(nodeID(a.RemoteKey())) != string(a.Remote().ID[:]) || a.RemoteAddr() == nil || a.LocalAddr() == nil {
			t.Error("accessors")
		}
		for _, name := range []string{"aaa", "bbb"} {
			go a.Capability(name).Write(3, []byte("hello, "+name))
			id, data, err := b.Capability(name).Read(t.Context())
			if err != nil || id != 3 || string(data) != "hello, "+name {
				t.Fatal(id, data, err)
			}
		}
		if took, err := a.Ping(t.Context()); err != nil || took <= 0 {
			t.Fatal(took, err)
		}
		if a.Err() != nil {
			t.Error(a.Err())
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		wantDone(t, a, DiscQuitting)
		wantDone(t, b, &DisconnectError{DiscQuitting, true})
	})
}

// Many disagree about why the session ends: the first decides, once.
func TestCase_L1_ManyDisconnects(t *testing.T) {
	onClocks(t, func(t *testing.T, n network, within func(string, time.Duration, time.Duration)) {
		s, p := n.session(t, &SessionConfig{Capabilities: testCaps, QueueMessages: 2})
		go func() {
			for p.send(0x10, []byte("nobody reads this")) == nil {
			}
		}()
		handler := make(chan error, 1)
		go func() {
			_, _, err := s.Capability("bbb").Read(t.Context())
			handler <- err
		}()
		type frames struct {
			codes    []uint64
			payloads [][]byte
		}
		wire := make(chan frames, 1)
		go func() {
			codes, payloads := p.rest()
			wire <- frames{codes, payloads}
		}()
		time.Sleep(10 * time.Millisecond)

		start := time.Now()
		var wg sync.WaitGroup
		var mu sync.Mutex
		var winners []DiscReason
		for i := range 50 {
			wg.Go(func() {
				reason := DiscReason(i % 13)
				if i%10 == 9 {
					s.Close()
					return
				}
				if err := s.Disconnect(reason); err == nil {
					mu.Lock()
					winners = append(winners, reason)
					mu.Unlock()
				} else if err != s.Err() {
					t.Errorf("got %v, want %v", err, s.Err())
				}
			})
		}
		wg.Wait()
		within("all of them", time.Since(start), disconnectTimeout)
		var disconnect *DisconnectError
		if !errors.As(s.Err(), &disconnect) || disconnect.Remote {
			t.Fatal(s.Err())
		}
		if len(winners) > 1 || len(winners) == 1 && winners[0] != disconnect.Reason || len(winners) == 0 && disconnect.Reason != DiscQuitting {
			t.Errorf("won: %v, ended by %v", winners, s.Err())
		}
		wantErr(t, <-handler, disconnect.Reason)
		got := <-wire
		if len(got.codes) != 1 || got.codes[0] != DisconnectCode || !bytes.Equal(got.payloads[0], AppendDisconnect(nil, disconnect.Reason)) {
			t.Errorf("wire: codes %#x, payloads %x, ended by %v", got.codes, got.payloads, s.Err())
		}
	})
}

var errAbandoned = errors.New("abandoned")

// Nothing follows our Disconnect, and what was under way before it is whole.
func TestCase_L3_NothingAfterDisconnect(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		said := 0
		for range 20 {
			s, p := n.session(t, nil)
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					ch := s.Capability([]string{"aaa", "bbb"}[i%2])
					for {
						if err := ch.Write(1, make([]byte, 1000*i)); err != nil {
							if !errors.Is(err, &DisconnectError{Reason: DiscUselessPeer}) || !errors.Is(err, net.ErrClosed) {
								t.Error(err)
							}
							return
						}
					}
				})
			}
			received := make(chan error, 1)
			go func() {
				for last := false; ; {
					code, _, err := p.next()
					if last {
						if err != io.EOF && !errors.Is(err, io.ErrClosedPipe) {
							err = fmt.Errorf("after Disconnect: code %#x, %v", code, err)
						} else {
							err = nil
						}
						p.Conn.Close()
						received <- err
						return
					}
					if err != nil {
						p.Conn.Close()
						received <- errAbandoned
						return
					}
					last = code == DisconnectCode
				}
			}()
			time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
			if err := s.Disconnect(DiscUselessPeer); err != nil {
				t.Error(err)
			}
			if err := s.Capability("aaa").Write(0, nil); !errors.Is(err, DiscUselessPeer) {
				t.Errorf("Write after the end: %v", err)
			}
			wg.Wait()
			switch err := <-received; err {
			case nil:
				said++
			case errAbandoned:
				// A write was under way and did not finish in time.
			default:
				t.Fatal(err)
			}
		}
		if said == 0 {
			t.Error("no session ended with a Disconnect")
		}
	})
}

// Everything at once, for the race detector.
func TestCase_L4_Stress(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		checkLeaks(t)
		for start := time.Now(); time.Since(start) < stress; {
			var ends []*closes
			counted := network{n.name, func(t testing.TB) (net.Conn, net.Conn) {
				c1, c2 := n.pair(t)
				ends = []*closes{{Conn: c1}, {Conn: c2}}
				return ends[0], ends[1]
			}}
			a, b := counted.sessions(t, testConfig(), testConfig())
			var wg sync.WaitGroup
			for _, s := range []*Session{a, b} {
				for i := range 8 {
					ch := s.Capability([]string{"aaa", "bbb"}[i%2])
					wg.Go(func() {
						for ch.Write(uint64(i%4), make([]byte, i*100)) == nil {
						}
					})
					wg.Go(func() {
						for {
							if _, _, err := ch.Read(t.Context()); err != nil {
								return
							}
						}
					})
				}
				wg.Go(func() {
					for {
						if _, err := s.Ping(t.Context()); err != nil {
							return
						}
					}
				})
				wg.Go(func() {
					for s.Err() == nil {
						_ = s.RemoteAddr()
						_ = s.RemoteKey()
						_ = s.ConnectionState()
						_ = s.Stats()
						s.conn.SetReadDeadline(time.Now().Add(time.Hour))
						time.Sleep(time.Millisecond)
					}
				})
			}
			time.Sleep(100 * time.Millisecond)
			for _, s := range []*Session{a, b, a, b} {
				wg.Go(func() { s.Close() })
			}
			wg.Wait()
			<-a.Done()
			<-b.Done()
			for _, c := range ends {
				if n := c.n.Load(); n != 1 {
					t.Fatalf("net.Conn closed %d times", n)
				}
			}
		}
	})
}

// The end of a session ends whatever waits for it, at once.
func TestCase_L8_CloseUnblocks(t *testing.T) {
	onClocks(t, func(t *testing.T, n network, within func(string, time.Duration, time.Duration)) {
		s, p := n.session(t, nil)
		go discard(p.Conn)
		type end struct {
			what string
			err  error
			at   time.Time
		}
		ends := make(chan end)
		go func() {
			_, _, err := s.Capability("aaa").Read(t.Context())
			ends <- end{"Read", err, time.Now()}
		}()
		go func() {
			_, err := s.Ping(t.Context())
			ends <- end{"Ping", err, time.Now()}
		}()
		time.Sleep(10 * time.Millisecond)
		start := time.Now()
		go s.Close()
		for range 2 {
			e := <-ends
			wantErr(t, e.err, DiscQuitting)
			wantErr(t, e.err, net.ErrClosed)
			within(e.what, e.at.Sub(start), 0)
		}
	})
}

// Whatever can be asked before, without or after a session has a harmless answer.
func TestCase_L11_Accessors(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		a, _ := net.Pipe()
		state := rlpx.Server(a, nil).ConnectionState()
		if state.RemoteKey != nil || state.LocalKey != nil || state.PeerProven {
			t.Errorf("before the handshake: %+v", state)
		}
		for _, text := range []string{
			new(Hello).String(), new(Hello).PrintableName(), Cap{}.String(), new(DisconnectError).Error(), new(UselessPeerError).Error(),
			DiscReason(0xffff).String(),
		} {
			checkText(t, text)
		}
		if _, ok := new(Matched).Find(""); ok || new(Matched).Len() != 0 {
			t.Error("something is shared in nothing")
		}
		if new(SessionConfig).Clone() == nil || (*SessionConfig)(nil).Clone() != nil {
			t.Error("Clone")
		}

		s, p := n.session(t, nil)
		p.Conn.Close()
		<-s.Done()
		if _, err := s.Ping(t.Context()); err != s.Err() {
			t.Errorf("Ping: %v", err)
		}
		if err := s.Capability("aaa").Write(0, nil); err != s.Err() {
			t.Errorf("Write: %v", err)
		}
		if _, _, err := s.Capability("aaa").Read(t.Context()); err != s.Err() {
			t.Errorf("Read: %v", err)
		}
		if err := s.Disconnect(DiscRequested); err != s.Err() || errors.Is(err, DiscRequested) {
			t.Errorf("Disconnect: %v", err)
		}
		if s.Remote().Name != "raw" || s.RemoteKey() == nil || s.RemoteAddr() == nil {
			t.Error("accessors")
		}

	})
}

// Writers do not mix.
func TestCase_L15_ManyWriters(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		a, b := n.sessions(t, testConfig(), testConfig())
		const writers, each = 50, 40
		for i := range writers {
			go func() {
				r := rand.New(rand.NewPCG(uint64(i), 1))
				ch := a.Capability([]string{"aaa", "bbb"}[i%2])
				for range each {
					data := make([]byte, 4+r.IntN(20_000))
					for j := range data[4:] {
						data[4+j] = byte(r.Uint32())
					}
					sum := crc32.ChecksumIEEE(data[4:])
					data[0], data[1], data[2], data[3] = byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum)
					if err := ch.Write(uint64(i%4), data); err != nil {
						t.Error(err)
						return
					}
				}
			}()
		}
		var readers sync.WaitGroup
		for _, name := range []string{"aaa", "bbb"} {
			readers.Go(func() {
				for i := range writers * each / 2 {
					_, data, err := b.Capability(name).Read(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					sum := crc32.ChecksumIEEE(data[4:])
					if !bytes.Equal(data[:4], []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}) {
						t.Errorf("message %d of %s is damaged", i, name)
						return
					}
				}
			})
		}
		readers.Wait()
	})
}

// Two sessions of the same two nodes share nothing.
func TestCase_L23_TwoSessionsOfOneKey(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		keyA, keyB := newKey(t), newKey(t)
		var sessions [2][2]*Session
		for i := range sessions {
			a, b := n.conns(t, keyA, keyB)
			other := make(chan *Session, 1)
			go func() {
				s, err := NewSession(t.Context(), b, testConfig())
				if err != nil {
					t.Error(err)
				}
				other <- s
			}()
			s, err := NewSession(t.Context(), a, testConfig())
			if err != nil {
				t.Fatal(err)
			}
			sessions[i] = [2]*Session{s, <-other}
		}
		sessions[0][0].Disconnect(DiscAlreadyConnected)
		wantDone(t, sessions[0][1], &DisconnectError{DiscAlreadyConnected, true})
		if _, err := sessions[1][0].Ping(t.Context()); err != nil {
			t.Error(err)
		}
		sessions[1][0].Close()
		<-sessions[1][1].Done()

	})
}

// Control messages do not queue behind the data of other writers.
func TestControlGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pipe.session(t, nil)
		const writers = 20
		data := make([]byte, 128<<10)
		rand.NewChaCha8([32]byte{}).Read(data)
		for range writers {
			go s.Capability("aaa").Write(0, data)
		}
		synctest.Wait()
		p.send(PingCode, nil)
		synctest.Wait()
		for i := 0; ; i++ {
			code, _ := p.read()
			if code == PongCode {
				break
			}
			if i > 3 { // under way are two, and the connection may have written another
				t.Fatal("the Pong waits for all others")
			}
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.rest()
		}()
		synctest.Wait()
		go s.Close()
		<-done
	})
}
