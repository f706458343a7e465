package rlpx

import (
	"bytes"
	"context"
	"crypto/ecdsa"
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

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// The tests named TestCase_L... and TestCase_H... are field bugs of other transports in the life of a
// connection and in what a handshake proves.

// Anybody can send somebody else's public key with a signature of his own. He is answered, and is found out by
// his first frame; until then he is nobody.
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
	rlpxtest.CheckGoroutines(t)
	for round := range 30 {
		a, b := tcpPipe(t)
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
}

// Close while the peer goes on and on, and does not listen.
func TestCase_L6_CloseUnderFlood(t *testing.T) {
	rlpxtest.CheckGoroutines(t)
	conn, _, peer := rawOverTCP(t, nil)
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

// A deadline that expires after any number of bytes loses none of them.
func TestCase_L14_ResumeAtEveryByte(t *testing.T) {
	for _, tc := range []struct {
		name   string
		size   int
		snappy bool
		step   int // away from the edges of frames
	}{{"small", 50, false, 1}, {"snappy", 300, true, 1}, {"medium", 3000, false, 1}, {"streamed", 2*openPiece + 500, false, 331}} {
		t.Run(tc.name, func(t *testing.T) {
			data := rlpxtest.Random(rand.New(rand.NewPCG(14, 14)), tc.size)
			payload := data
			if tc.snappy {
				payload = snappy.Encode(nil, data)
			}
			last := []byte{9}
			if tc.snappy {
				last = []byte{9, 0}
			}
			_, peer := rlpxtest.NewSecrets(14)
			wire := sealing(rlpxtest.Data(7, payload), rlpxtest.Data(8, payload), last)(rlpxtest.NewSession(peer).Egress)
			step := tc.step
			if raceEnabled {
				step *= 5
			}
			frame := rlpxtest.HeaderSize + rlpxtest.Padded(1+len(payload)) + rlpxtest.MACSize
			for k := 0; k < len(wire); k++ {
				if at := k % frame; at > 2*headerWire && at < frame-2*headerWire && at%step != 0 {
					continue
				}
				const times = 3
				sec, _ := rlpxtest.NewSecrets(14)
				conn := initConn(rlpxtest.TimeoutAt(rlpxtest.NewScript(wire), k, times), nil, sec)
				conn.SetSnappy(tc.snappy)
				timeouts := 0
				for i, want := range [][]byte{data, data, {}} {
					for {
						code, got, _, err := conn.Read()
						if err != nil {
							if err != rlpxtest.Timeout || got != nil || code != 0 {
								t.Fatalf("timeout after %d bytes: %#x, %d bytes, %v", k, code, len(got), err)
							}
							timeouts++
							continue
						}
						if code != uint64(7+i) || !bytes.Equal(got, want) {
							t.Fatalf("timeout after %d bytes: message %d is wrong", k, i)
						}
						break
					}
				}
				if timeouts != times {
					t.Fatalf("timeout after %d bytes: Read failed %d times, want %d", k, timeouts, times)
				}
				wantClean(t, conn)
			}
		})
	}
}

// The same with deadlines of the clock, and writing meanwhile.
func TestCase_L14_Deadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _, peer := rawOverPipe(t, nil)
		data := pattern(20_000, 3)
		wire := peer.Egress.Seal(rlpxtest.Data(5, data))
		go func() {
			from := 0
			for _, cut := range []int{10, headerWire, 100, 15_000, len(wire) - 1, len(wire)} {
				time.Sleep(5 * time.Second)
				peer.Send(wire[from:cut])
				from = cut
			}
		}()
		timeouts := 0
		for {
			conn.SetReadDeadline(time.Now().Add(2 * time.Second))
			start := time.Now()
			code, got, _, err := conn.Read()
			if err == nil {
				if code != 5 || !bytes.Equal(got, data) {
					t.Error("wrong message")
				}
				break
			}
			var ne net.Error
			if !errors.As(err, &ne) || !ne.Timeout() || time.Since(start) != 2*time.Second {
				t.Fatalf("Read after %v: %v", time.Since(start), err)
			}
			timeouts++
			go func() {
				if _, err := conn.Write(6, []byte("still here")); err != nil {
					t.Error(err)
				}
			}()
			if f, err := peer.ReadFrame(); err != nil || string(f.Data) != "\x06still here" {
				t.Fatal(err)
			}
		}
		if timeouts < 10 {
			t.Errorf("only %d timeouts", timeouts)
		}
	})
}

// Messages of concurrent writers arrive whole, small and large ones, and each writer's in its order.
func TestCase_L15_ConcurrentWriters(t *testing.T) {
	writers, messages := 50, 200
	if raceEnabled {
		messages = 40
	}
	for _, snappyOn := range []bool{false, true} {
		t.Run(fmt.Sprintf("snappy=%v", snappyOn), func(t *testing.T) {
			a, b := tcpPipe(t)
			ca, cb := pairOver(t, a, b)
			ca.SetSnappy(snappyOn)
			cb.SetSnappy(snappyOn)
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(15, uint64(w)))
					buf := rlpxtest.Random(r, 2000)
					for i := range messages {
						size := r.IntN(2000)
						switch {
						case r.IntN(2000) == 0:
							size = 1<<20 + r.IntN(1<<20) // in pieces
						case r.IntN(50) == 0:
							size = r.IntN(100_000)
						}
						data := make([]byte, 8+size)
						for at := 8; at < len(data); at += len(buf) {
							copy(data[at:], buf)
						}
						data[4], data[5] = byte(i>>8), byte(i)
						sum := crc32.ChecksumIEEE(data[4:])
						data[0], data[1], data[2], data[3] = byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum)
						if _, err := ca.Write(uint64(w), data); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			next := make([]int, writers)
			for range writers * messages {
				code, data, _, err := cb.Read()
				if err != nil {
					t.Fatal(err)
				}
				sum := crc32.ChecksumIEEE(data[4:])
				if !bytes.Equal(data[:4], []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}) {
					t.Fatalf("message of writer %d is damaged", code)
				}
				if i := int(data[4])<<8 | int(data[5]); i != next[code] {
					t.Fatalf("writer %d: message %d came when %d was due", code, i, next[code])
				}
				next[code]++
			}
			wg.Wait()
		})
	}
}

// Data is lent until the next Read: nothing else may touch it, and touching it, or growing it, may harm nothing.
func TestCase_L17_LentData(t *testing.T) {
	for _, snappyOn := range []bool{false, true} {
		for _, size := range []int{0, 1, 100, 3000, 40_000, 2 << 20} {
			payload := func(i int) []byte { return pattern(size, byte(i)) }
			conn, _, _ := recorded(nil, nil, func(peer *rlpxtest.Direction) []byte {
				var wire []byte
				for i := range 5 {
					p := payload(i)
					if snappyOn {
						p = snappy.Encode(nil, p)
					}
					wire = append(wire, peer.Seal(rlpxtest.Data(uint64(i), p))...)
				}
				return wire
			})
			conn.SetSnappy(snappyOn)
			var kept []byte
			for i := range 5 {
				_, data, _, err := conn.Read()
				if err != nil {
					t.Fatal(err)
				}
				// Whatever else happens meanwhile, here a Write that uses the same pools.
				for _, n := range []int{100, size} {
					if _, err := conn.Write(1, bytes.Repeat([]byte{0xEE}, n)); err != nil {
						t.Fatal(err)
					}
				}
				if !bytes.Equal(data, payload(i)) {
					t.Fatalf("snappy %v, %d bytes: message %d changed before the next Read", snappyOn, size, i)
				}
				kept = append(kept[:0], data...) // the copy that a caller makes
				if cap(data) != len(data) {
					t.Fatalf("snappy %v, %d bytes: append would write over what follows", snappyOn, size)
				}
				for j := range data {
					data[j] = 0xFF
				}
			}
			if !bytes.Equal(kept, payload(4)) {
				t.Fatal("the copy changed")
			}
			wantClean(t, conn)
		}
	}
}

// Two sessions with the same key have nothing in common.
func TestCase_L23_TwoSessionsOneKey(t *testing.T) {
	ourKey, peerKey := newKey(t), newKey(t)
	dial := func() (*Conn, *rlpxtest.RawPeer) {
		ours, theirs := tcpPipe(t)
		conn := Client(ours, &peerKey.PublicKey, &Config{Key: ourKey})
		got := make(chan *rlpxtest.RawPeer, 1)
		go func() {
			peer, err := rlpxtest.Accept(context.Background(), theirs, peerKey)
			if err != nil {
				t.Error(err)
			}
			got <- peer
		}()
		if _, err := conn.HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(); theirs.Close() })
		return conn, <-got
	}
	c1, p1 := dial()
	c2, p2 := dial()
	if !p1.Remote.Equal(&ourKey.PublicKey) || !p2.Remote.Equal(&ourKey.PublicKey) {
		t.Fatal("wrong key at the peer")
	}
	p1.SendMessage(1, []byte("one"))
	p2.SendMessage(2, []byte("two"))
	wantRead(t, c2, 2, []byte("two"))
	wantRead(t, c1, 1, []byte("one"))
	c1.Close()
	go c2.Write(3, []byte("three"))
	if f, err := p2.ReadFrame(); err != nil || string(f.Data) != "\x03three" {
		t.Fatal(err)
	}
}
