package rlpx

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// The tests named TestCase_L... and TestCase_H... are field bugs of other transports in the life of
// a connection and in what a handshake proves.

// Anybody can send somebody else's public key with a signature of his own. He is answered, and is
// found out by his first frame; until then he is nobody.
func TestCase_H16_Impersonation(t *testing.T) {
	ourKey, victim := newKey(t), newKey(t)
	for _, tc := range []struct {
		name string
		key  *ecdsa.PrivateKey // what the peer has
		text string            // of the error that its first frame leads to, "" if it is genuine
	}{
		{"attacker", &ecdsa.PrivateKey{PublicKey: victim.PublicKey, D: newKey(t).D}, badHeader},
		{"victim", victim, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ours, theirs := tcpPipe(t)
			defer theirs.Close()
			counting := rlpxtest.Count(ours)
			conn := Server(counting, &Config{Key: ourKey})
			type result struct {
				key *ecdsa.PublicKey
				err error
			}
			done := make(chan result, 1)
			go func() {
				key, err := conn.HandshakeContext(t.Context())
				done <- result{key, err}
			}()
			peer, err := rlpxtest.Dial(t.Context(), theirs, tc.key, &ourKey.PublicKey)
			if tc.text == "" && err != nil {
				t.Fatal(err)
			}
			r := <-done
			if r.err != nil || !r.key.Equal(&victim.PublicKey) {
				t.Fatalf("the recipient's handshake: %v", r.err)
			}
			if state := conn.ConnectionState(); !state.HandshakeComplete || state.PeerProven || !state.RemoteKey.Equal(&victim.PublicKey) {
				t.Fatalf("state before the first frame: %+v", state)
			}
			// Our own frames prove nothing.
			if _, err := conn.Write(0, []byte("hello")); err != nil {
				t.Fatal(err)
			}
			if conn.ConnectionState().PeerProven {
				t.Fatal("proven by a frame of our own")
			}
			if tc.text != "" {
				// The attacker cannot read ack, so it has no secrets. Any will do.
				if err == nil {
					t.Fatal("the attacker can read ack")
				}
				_, sec := rlpxtest.NewSecrets(1)
				peer = rlpxtest.NewRawPeer(theirs, sec)
			}
			if err := peer.SendMessage(0, []byte("hello")); err != nil {
				t.Fatal(err)
			}
			if tc.text != "" {
				wantUnauthentic(t, conn, counting, tc.text)
				if conn.ConnectionState().PeerProven {
					t.Fatal("proven by a bad MAC")
				}
				return
			}
			wantRead(t, conn, 0, []byte("hello"))
			if !conn.ConnectionState().PeerProven {
				t.Fatal("not proven by a good frame")
			}
		})
	}
}

// Everything at once, many times, for the race detector.
func TestCase_L4_Stress(t *testing.T) {
	for _, kind := range kindsOfConn {
		t.Run(kind.name, func(t *testing.T) {
			rlpxtest.CheckGoroutines(t)
			stress := time.Second / 2
			if raceEnabled {
				stress = 5 * time.Second
			}
			started := time.Now()
			for round := 0; time.Since(started) < stress; round++ {
				a, b := kind.make(t)
				counting := rlpxtest.Count(a)
				sa, sb := rlpxtest.NewSecrets(uint64(round))
				conn, other := initConn(counting, nil, sa), initConn(b, nil, sb)
				var wg sync.WaitGroup
				start := make(chan struct{})
				for _, c := range []*Conn{conn, other} {
					wg.Go(func() {
						<-start
						for {
							if _, _, _, err := c.Read(); err != nil {
								return
							}
						}
					})
					for w := range 8 {
						wg.Go(func() {
							<-start
							for i := range 200 {
								if _, err := c.Write(uint64(w), make([]byte, i*w*10)); err != nil {
									return
								}
							}
						})
					}
					wg.Go(func() {
						<-start
						for i := range 100 {
							c.SetSnappy(false)
							c.SetReadLimit(maxUint24 - i)
							c.SetDeadline(time.Now().Add(time.Hour))
							c.SetReadDeadline(time.Now().Add(time.Hour))
							c.SetWriteDeadline(time.Now().Add(time.Hour))
							_, _ = c.LocalAddr(), c.RemoteAddr()
							_ = c.ConnectionState()
						}
					})
				}
				for i := range 4 {
					wg.Go(func() {
						<-start
						for range i * 50 {
							_ = conn.ConnectionState()
						}
						conn.Close()
					})
				}
				close(start)
				wg.Wait()
				other.Close()
				if n := counting.Closes.Load(); n != 1 {
					t.Fatalf("net.Conn closed %d times", n)
				}
			}
		})
	}
}

// Close while the peer goes on and on, and does not listen.
func TestCase_L6_CloseUnderFlood(t *testing.T) {
	for _, kind := range kindsOfConn {
		t.Run(kind.name, func(t *testing.T) {
			rlpxtest.CheckGoroutines(t)
			conn, _, peer := rawOver(t, kind.make, nil)
			var wg sync.WaitGroup
			wg.Go(func() {
				for peer.SendData([]byte{2, 0xC0}) == nil {
				}
			})
			read := make(chan struct{})
			wg.Go(func() {
				for i := 0; ; i++ {
					if _, _, _, err := conn.Read(); err != nil {
						return
					}
					if i == 10 {
						close(read)
					}
				}
			})
			<-read
			if !rlpxtest.Within(func() { conn.Close() }) {
				t.Fatal("Close does not return")
			}
			wg.Wait()
		})
	}
}

// Close ends whatever waits.
func TestCase_L8_CloseUnblocks(t *testing.T) {
	for _, pipe := range []struct {
		name string
		make func(testing.TB) (net.Conn, net.Conn)
	}{{"pipe", netPipe}, {"tcp", tcpPipe}} {
		t.Run(pipe.name, func(t *testing.T) {
			rlpxtest.CheckGoroutines(t)
			t.Run("frame header", func(t *testing.T) { testCloseUnblocksRead(t, pipe.make, 0) })
			t.Run("inside a header", func(t *testing.T) { testCloseUnblocksRead(t, pipe.make, 20) })
			t.Run("inside a frame", func(t *testing.T) { testCloseUnblocksRead(t, pipe.make, 50) })
			for _, dialer := range []bool{false, true} {
				t.Run(fmt.Sprintf("handshake/initiator=%v", dialer), func(t *testing.T) {
					ours, theirs := pipe.make(t)
					defer theirs.Close()
					counting := rlpxtest.Count(ours)
					conn := Server(counting, &Config{Key: newKey(t)})
					if dialer {
						conn = Client(counting, &newKey(t).PublicKey, &Config{Key: newKey(t)})
						go io.CopyN(io.Discard, theirs, 100) // part of auth
					}
					done := make(chan error, 1)
					go func() {
						_, err := conn.HandshakeContext(t.Context())
						done <- err
					}()
					if !rlpxtest.Eventually(func() bool { return counting.Reads.Load()+counting.Writes.Load() > 0 }) {
						t.Fatal("the handshake does not start")
					}
					conn.Close()
					if err := <-done; !errors.Is(err, net.ErrClosed) || !errors.Is(err, ErrHandshake) {
						t.Errorf("handshake: %v", err)
					}
					if n := counting.Closes.Load(); n != 1 {
						t.Errorf("closed %d times", n)
					}
				})
			}
		})
	}
}

func testCloseUnblocksRead(t *testing.T, pipe func(testing.TB) (net.Conn, net.Conn), sent int) {
	ours, theirs := pipe(t)
	conn, counting, peer := rawSession(t, nil, ours, theirs)
	done := make(chan error, 1)
	go func() {
		_, _, _, err := conn.Read()
		done <- err
	}()
	if err := peer.Send(peer.Egress.Seal(make([]byte, 100))[:sent]); err != nil {
		t.Fatal(err)
	}
	if !rlpxtest.Eventually(func() bool { return counting.Reads.Load() > 0 && counting.BytesRead.Load() == int64(sent) }) {
		t.Fatal("Read does not read")
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { conn.Close() })
	}
	wg.Wait()
	err := <-done
	if err != net.ErrClosed {
		t.Errorf("Read: %v, want net.ErrClosed", err)
	}
	wantDead(t, conn, counting, net.ErrClosed)
	if n := counting.Closes.Load(); n != 1 {
		t.Errorf("closed %d times", n)
	}
}

// A peer that stopped reading holds up nobody once the connection is closed.
func TestCase_L9_CloseWithBlockedWriters(t *testing.T) {
	for _, size := range []int{100, 100 << 10, 3 << 20} {
		for _, pipe := range []struct {
			name string
			make func(testing.TB) (net.Conn, net.Conn)
		}{{"pipe", netPipe}, {"tcp", tcpPipe}} {
			t.Run(fmt.Sprintf("%s/%d", pipe.name, size), func(t *testing.T) {
				rlpxtest.CheckGoroutines(t)
				ours, theirs := pipe.make(t)
				conn, counting, _ := rawSession(t, nil, ours, theirs)
				var wg sync.WaitGroup
				data := make([]byte, size)
				for range 10 {
					wg.Go(func() {
						for {
							if _, err := conn.Write(1, data); err != nil {
								if err != net.ErrClosed {
									t.Errorf("blocked Write: %v, want net.ErrClosed", err)
								}
								return
							}
						}
					})
				}
				// Blocked is when the count of calls on the net.Conn stands still.
				last := int64(-1)
				rlpxtest.Eventually(func() bool {
					now := counting.Writes.Load()
					still := now > 0 && now == last
					last = now
					return still
				})
				if !rlpxtest.Within(func() { conn.Close(); wg.Wait() }) {
					t.Fatal("Close or a writer hangs")
				}
				wantWriteDead(t, conn, counting, net.ErrClosed)
			})
		}
	}
}

// The peer vanishes at the worst moments.
func TestCase_L10_ResetAtEveryPhase(t *testing.T) {
	rlpxtest.CheckGoroutines(t)
	rlpxtest.CheckFDs(t)
	ourKey, peerKey := newKey(t), newKey(t)
	const rounds = 20
	hello := pattern(200, 8)
	large := pattern(2<<20, 1)

	handshaken := func(t *testing.T) (*Conn, *rlpxtest.Counting, *rlpxtest.RawPeer) {
		ours, theirs := tcpPipe(t)
		counting := rlpxtest.Count(ours)
		conn := Server(counting, &Config{Key: ourKey})
		done := make(chan error, 1)
		go func() {
			_, err := conn.HandshakeContext(t.Context())
			done <- err
		}()
		peer, err := rlpxtest.Dial(t.Context(), theirs, peerKey, &ourKey.PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		return conn, counting, peer
	}
	for _, tc := range []struct {
		name string
		sent int // bytes of auth
	}{{"before auth", 0}, {"in the size of auth", 1}, {"mid auth", 150}} {
		t.Run(tc.name, func(t *testing.T) {
			for range rounds {
				ours, theirs := tcpPipe(t)
				counting := rlpxtest.Count(ours)
				conn := Server(counting, &Config{Key: ourKey})
				done := make(chan error, 1)
				go func() {
					_, err := conn.HandshakeContext(t.Context())
					done <- err
				}()
				theirs.Write(authFor(t, ourKey)[:tc.sent])
				rlpxtest.Reset(theirs)
				if err := <-done; !errors.Is(err, ErrHandshake) {
					t.Fatal(err)
				}
				if n := counting.Closes.Load(); n != 1 {
					t.Fatalf("closed %d times", n)
				}
			}
		})
	}
	for _, tc := range []struct {
		name string
		data []byte
		sent int
	}{
		{"after ack", hello, 0}, {"mid header", hello, 10}, {"after the header", hello, headerWire},
		{"mid body", hello, 100}, {"mid MAC", hello, headerWire + 208 + 8}, {"mid large body", large, 1 << 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for range rounds {
				conn, counting, peer := handshaken(t)
				go func() {
					peer.Send(peer.Egress.Seal(tc.data)[:tc.sent])
					peer.Reset()
				}()
				_, _, _, err := conn.Read()
				if err == nil || err == io.EOF && tc.sent > 0 || errors.Is(err, ErrAuthentication) {
					t.Fatalf("Read: %v", err)
				}
				wantDead(t, conn, counting, err)
				conn.Close()
			}
		})
	}
	t.Run("during our write", func(t *testing.T) {
		for i := range rounds {
			conn, counting, peer := handshaken(t)
			go func() {
				io.CopyN(io.Discard, peer.Conn, int64(i)*1000)
				peer.Reset()
			}()
			var err error
			for err == nil {
				_, err = conn.Write(1, large[:1+i*100_000])
			}
			wantWriteDead(t, conn, counting, err)
			conn.Close()
		}
	})
	t.Run("during our Close", func(t *testing.T) {
		for range rounds {
			conn, counting, peer := handshaken(t)
			var wg sync.WaitGroup
			wg.Go(func() { conn.Close() })
			wg.Go(func() { peer.Reset() })
			wg.Go(func() { conn.Read() })
			wg.Go(func() { conn.Write(1, large) })
			wg.Wait()
			if n := counting.Closes.Load(); n != 1 {
				t.Fatalf("closed %d times", n)
			}
		}
	})
}

// What can be asked of a connection can be asked of one that never was.
func TestCase_L11_BeforeTheHandshake(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	for _, conn := range []*Conn{NewConn(ours, nil), Client(ours, nil, nil), Server(ours, nil)} {
		if state := conn.ConnectionState(); state.HandshakeComplete || state.RemoteKey != nil || state.PeerProven || state.Stats != (Stats{}) {
			t.Errorf("state before the handshake: %+v", state)
		}
		_, _, _ = conn.LocalAddr(), conn.RemoteAddr(), conn.NetConn()
		for _, err := range []error{conn.SetDeadline(time.Time{}), conn.SetReadDeadline(time.Time{}), conn.SetWriteDeadline(time.Time{})} {
			if err != nil {
				t.Error(err)
			}
		}
		conn.SetSnappy(true)
		conn.SetReadLimit(1)
	}
}
