package p2p

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
)

func testHello() *Hello { return &Hello{Name: "test", Caps: testCaps.Caps()} }

type helloResult struct {
	hello *Hello
	err   error
}

// shake runs Handshake in the background.
func shake(ctx context.Context, conn *rlpx.Conn, ours *Hello) <-chan helloResult {
	result := make(chan helloResult, 1)
	go func() {
		hello, err := Handshake(ctx, conn, ours)
		result <- helloResult{hello, err}
	}()
	return result
}

// Both ends write Hello first, and a pipe has no buffer.
func TestCase_L21_BothWriteHelloFirst(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		a, b := n.conns(t, nil, nil)
		other := shake(t.Context(), b, &Hello{Name: "b", ListenPort: 7})
		theirs, err := Handshake(t.Context(), a, testHello())
		if err != nil {
			t.Fatal(err)
		}
		r := <-other
		if r.err != nil {
			t.Fatal(r.err)
		}
		if theirs.Version != Version || theirs.Name != "b" || theirs.ListenPort != 7 || len(theirs.Caps) != 0 {
			t.Errorf("got %+v", theirs)
		}
		if r.hello.Name != "test" || !slices.Equal(r.hello.Caps, testCaps.Caps()) {
			t.Errorf("got %+v", r.hello)
		}
		if string(theirs.ID[:]) != string(nodeID(a.ConnectionState().RemoteKey)) {
			t.Error("wrong ID")
		}
		if !a.ConnectionState().PeerProven || !a.ConnectionState().Snappy || !b.ConnectionState().Snappy {
			t.Error("peer not proven, or compression off")
		}
	})
}

// If reading Hello fails, the write of ours ends too, though the peer never reads.
func TestCase_L21_WriteEndsWithRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, p := pipe.peer(t, nil)
		result := shake(t.Context(), conn, testHello())
		p.SendMessage(PingCode, []byte{0xc0})
		start := time.Now()
		wantErr(t, (<-result).err, ErrUnexpectedMessage)
		if took := time.Since(start); took > disconnectTimeout {
			t.Errorf("took %v", took)
		}
	}) // which waits for all goroutines of the test, and fails if some are blocked
}

// A Disconnect may take the place of Hello, in any form, before or after ours was read.
func TestCase_B5_DisconnectInsteadOfHello(t *testing.T) {
	for _, form := range []struct {
		name string
		data []byte
		want DiscReason
	}{
		{"list", []byte{0x01, 0xc1, 0x04}, DiscTooManyPeers},
		{"integer", []byte{0x01, 0x04}, DiscTooManyPeers},
		{"empty", []byte{0x01}, DiscUnspecified},
		{"compressed", []byte{0x01, 0x02, 0x04, 0xc1, 0x04}, DiscTooManyPeers},
	} {
		for _, readFirst := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/readFirst=%v", form.name, readFirst), func(t *testing.T) {
				onNetworks(t, func(t *testing.T, n network) {
					conn, p := n.peer(t, nil)
					result := shake(t.Context(), conn, testHello())
					if readFirst {
						p.read()
					}
					if err := p.SendData(form.data); err != nil {
						t.Fatal(err)
					}
					r := <-result
					var disconnect *DisconnectError
					if !errors.As(r.err, &disconnect) || *disconnect != (DisconnectError{form.want, true}) {
						t.Fatalf("got %v, want %v from the peer", r.err, form.want)
					}
					// No Disconnect answers a Disconnect.
					if codes, _ := p.rest(); slices.Contains(codes, DisconnectCode) {
						t.Errorf("got codes %#x", codes)
					}
				})
			})
		}
	}
}

// The peer refuses and closes before it reads our Hello, so that our write fails: its reason
// counts.
func TestCase_B5_ReasonBehindFailedWrite(t *testing.T) {
	ours, theirs := net.Pipe()
	failing := &rlpxtest.Filter{Conn: ours}
	conn, p := peerOver(t, failing, theirs, nil)
	broken := errors.New("broken pipe")
	failing.OnWrite = func(net.Conn, []byte) (int, error) { return 0, broken }
	result := shake(t.Context(), conn, testHello())
	p.SendMessage(DisconnectCode, []byte{0xc1, 0x04})
	wantErr(t, (<-result).err, &DisconnectError{DiscTooManyPeers, true})
}

// The same where the Disconnect comes after the peer's Hello; and if it never comes the error is
// that of the write, in time.
func TestCase_B5_ReasonAfterHelloBehindFailedWrite(t *testing.T) {
	for _, says := range []bool{true, false} {
		for _, hello := range []bool{true, false} {
			t.Run(fmt.Sprintf("disconnect=%v/hello=%v", says, hello), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ours, theirs := net.Pipe()
					failing := &rlpxtest.Filter{Conn: ours}
					conn, p := peerOver(t, failing, theirs, nil)
					broken := errors.New("broken pipe")
					want := broken
					failing.OnWrite = func(net.Conn, []byte) (int, error) { return 0, broken }
					start := time.Now()
					result := shake(t.Context(), conn, testHello())
					if hello {
						p.SendMessage(HelloCode, p.hello(5))
						p.snappy = true
						p.send(0x10, []byte("ahead of the Disconnect"))
					}
					if says {
						p.send(DisconnectCode, []byte{0xc1, 0x04})
						want = &DisconnectError{DiscTooManyPeers, true}
					}
					wantErr(t, (<-result).err, want)
					if took := time.Since(start); took > 2*disconnectTimeout {
						t.Errorf("took %v", took)
					}
				})
			})
		}
	}
}

// Whoever is refused gets an encrypted Disconnect: plain before Hello, compressed after.
func TestCase_B6_Refuse(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		conn, p := n.peer(t, nil)
		result := make(chan error, 1)
		go func() { result <- Refuse(conn, DiscTooManyPeers) }()
		frame, err := p.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if string(frame.Data) != "\x01\xc1\x04" {
			t.Errorf("before Hello: frame data %x", frame.Data)
		}
		p.Conn.Close()
		if err := <-result; err != nil {
			t.Error(err)
		}

		s, p := n.session(t, nil)
		go s.Disconnect(DiscTooManyPeers)
		if frame, err = p.ReadFrame(); err != nil {
			t.Fatal(err)
		}
		if string(frame.Data) != "\x01\x02\x04\xc1\x04" {
			t.Errorf("after Hello: frame data %x", frame.Data)
		}
		if _, err := p.ReadFrame(); err != io.EOF {
			t.Errorf("after Disconnect: %v", err)
		}
	})
}

func TestRefuseWithoutHandshake(t *testing.T) {
	a, b := net.Pipe()
	conn := rlpx.Server(a, &rlpx.Config{Key: newKey(t)})
	if err := Refuse(conn, DiscTooManyPeers); err == nil {
		t.Error("no error")
	}
	if n, err := b.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("peer reads %d bytes, %v", n, err)
	}
}

// One deadline holds for all of the Hello phase, whatever trickles in.
func TestCase_D4_TrickledHello(t *testing.T) {
	const timeout = 4 * time.Second
	synctest.Test(t, func(t *testing.T) {
		conn, p := pipe.peer(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		go discard(p.Conn)
		start := time.Now()
		result := shake(ctx, conn, testHello())
		dribbled := make(chan struct{})
		go func() {
			defer close(dribbled)
			p.Dribble(p.Egress.Seal(rlpxtest.Data(HelloCode, p.hello(5))), func(int) { time.Sleep(timeout / 4) })
		}()
		defer func() { <-dribbled }()
		wantErr(t, (<-result).err, context.DeadlineExceeded)
		if took := time.Since(start); took < timeout || took > timeout+timeout/10 {
			t.Errorf("took %v, want %v", took, timeout)
		}
	})
}

// Without a deadline in the context there is one all the same. The peer is told.
func TestCase_D5_NoHello(t *testing.T) {
	for _, reads := range []bool{true, false} {
		t.Run(fmt.Sprintf("reads=%v", reads), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, p := pipe.peer(t, nil)
				start := time.Now()
				result := shake(t.Context(), conn, testHello())
				if reads {
					p.read()
					p.wantFarewell(DiscReadTimeout)
				}
				wantErr(t, (<-result).err, context.DeadlineExceeded)
				if took := time.Since(start); took < HelloTimeout || took > HelloTimeout+impatience {
					t.Errorf("took %v, want %v", took, HelloTimeout)
				}
			})
		})
	}
}

// Many peers that say nothing, or half of something, leave nothing behind.
func TestCase_D5_ManyHalfOpen(t *testing.T) {
	// All of it at one deadline, or by a cancel while they wait.
	for _, how := range []error{context.DeadlineExceeded, context.Canceled} {
		t.Run(how.Error(), func(t *testing.T) {
			checkLeaks(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var wg sync.WaitGroup
			slots := make(chan struct{}, 32) // for the encrypted handshakes, which need the CPU
			const many = 1000
			waiting := make(chan struct{}, many)
			for i := range many {
				wg.Go(func() {
					slots <- struct{}{}
					ours, theirs := tcp.pair(t)
					counted := &closes{Conn: ours}
					conn, p := peerOver(t, counted, theirs, &rlpx.Config{HandshakeTimeout: time.Hour}) // no deadline but ours
					<-slots
					defer p.Conn.Close()
					wire := p.Egress.Seal(rlpxtest.Data(HelloCode, p.hello(5)))
					ctx := ctx
					if how == context.DeadlineExceeded {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
						defer cancel()
					}
					var dribbler sync.WaitGroup
					defer dribbler.Wait()
					if i%2 == 0 {
						p.Send(wire[:i%len(wire)])
					} else {
						dribbler.Go(func() {
							p.Dribble(wire[:len(wire)-1], func(int) { time.Sleep(20 * time.Millisecond) })
						})
					}
					waiting <- struct{}{}
					_, err := Handshake(ctx, conn, testHello())
					p.Conn.Close()
					if !errors.Is(err, how) {
						t.Error(err)
					}
					if _, _, _, err := conn.Read(); !errors.Is(err, net.ErrClosed) {
						t.Errorf("connection not closed: %v", err)
					}
					if n := counted.n.Load(); n != 1 {
						t.Errorf("closed %d times", n)
					}
				})
			}
			for range many {
				<-waiting
			}
			if how == context.Canceled {
				cancel()
			}
			wg.Wait()
		})
	}
}

// Handshake ends at once when its context does, also one that is done from the start.
func TestCase_L22_Cancel(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			conn, p := pipe.peer(t, nil)
			ctx, cancel := context.WithCancel(t.Context())
			if wait == 0 {
				cancel()
			}
			time.AfterFunc(wait, cancel)
			start := time.Now()
			_, err := Handshake(ctx, conn, testHello()) // the peer neither reads nor writes
			wantErr(t, err, context.Canceled)
			if took := time.Since(start); took > wait+impatience {
				t.Errorf("took %v", took)
			}
			p.rest()
		})
	}
}

// Close from elsewhere ends the wait for Hello.
func TestCase_L8_CloseDuringHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _ := pipe.peer(t, nil)
		time.AfterFunc(time.Second, func() { conn.Close() })
		start := time.Now()
		_, err := Handshake(t.Context(), conn, testHello())
		wantErr(t, err, net.ErrClosed)
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// Deadlines of the connection hold beside the context, and a read that they end is taken up by
// Handshake at the byte where it stopped.
func TestCase_L14_HelloAfterExpiredDeadline(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		for _, cut := range []int{1, 16, 31, 33, 60} {
			conn, p := n.peer(t, nil)
			wire := p.Egress.Seal(rlpxtest.Data(HelloCode, p.hello(5)))
			sent := make(chan error, 1)
			go func() { sent <- p.Send(wire[:cut]) }()
			for there := false; !there; { // of a pipe, Read has to take all of it
				conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
				if _, _, _, err := conn.Read(); !isTimeout(err) {
					t.Fatal(err)
				}
				select {
				case err := <-sent:
					if there = true; err != nil {
						t.Fatal(err)
					}
				default:
				}
			}
			conn.SetReadDeadline(time.Time{})
			result := shake(t.Context(), conn, testHello())
			p.read()
			p.Send(wire[cut:])
			if r := <-result; r.err != nil || r.hello.Name != "raw" {
				t.Fatalf("cut at %d: %v", cut, r.err)
			}
		}

	})
}

// The peer vanishes at any point of the Hello phase.
func TestCase_L10_PeerVanishesDuringHello(t *testing.T) {
	onNetworks(t, func(t *testing.T, n network) {
		checkLeaks(t)
		for reset := range 2 {
			for cut := 0; ; cut += 10 {
				conn, p := n.peer(t, nil)
				wire := p.Egress.Seal(rlpxtest.Data(HelloCode, p.hello(5)))
				if cut >= len(wire) {
					p.Conn.Close()
					break
				}
				result := shake(t.Context(), conn, testHello())
				if cut%20 == 0 {
					p.read()
				}
				p.Send(wire[:cut])
				if reset == 1 {
					p.Reset()
				} else {
					p.Conn.Close()
				}
				r := <-result
				if r.err == nil || r.hello != nil {
					t.Fatalf("cut at %d: got %v, %v", cut, r.hello, r.err)
				}
				checkText(t, r.err.Error())
			}
		}
	})
}

func TestHandshakeOwnMistakes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		hello Hello
		want  error
	}{
		{"foreign ID", Hello{ID: testID(t)}, nil},
		{"long name of a capability", Hello{Caps: []Cap{{"ninebytes", 1}}}, ErrInvalidCapability},
		{"too big", Hello{Name: string(make([]byte, HelloLimit))}, ErrHelloTooBig},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn, p := pipe.peer(t, nil)
			result := shake(t.Context(), conn, &tt.hello)
			p.want(DisconnectCode, []byte{0xc1, 0x80}) // without a Hello
			r := <-result
			if r.err == nil || tt.want != nil && !errors.Is(r.err, tt.want) {
				t.Error(r.err)
			}
		})
	}
	t.Run("no handshake", func(t *testing.T) {
		a, _ := net.Pipe()
		conn := rlpx.Server(a, nil)
		if _, err := Handshake(t.Context(), conn, testHello()); err == nil {
			t.Error("no error")
		}
		if _, err := a.Write([]byte{1}); err != io.ErrClosedPipe {
			t.Errorf("not closed: %v", err)
		}
	})
	t.Run("no identity", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, _ := net.Pipe()
			conn := rlpx.NewConn(a, nil)
			sec, _ := rlpxtest.NewSecrets(1)
			conn.InitWithSecrets(rlpx.Secrets(sec))
			if _, err := Handshake(t.Context(), conn, testHello()); err == nil {
				t.Error("no error")
			}
		})
	})
}

// Of a Hello that is damaged on the way nothing is believed, and there is nobody to tell.
func TestHandshakeDamagedHello(t *testing.T) {
	onClocks(t, func(t *testing.T, n network, within func(string, time.Duration, time.Duration)) {
		conn, p := n.peer(t, nil)
		wire := p.Egress.Seal(rlpxtest.Data(HelloCode, p.hello(5)))
		wire[40] ^= 1
		go p.Send(wire)
		start := time.Now()
		_, err := Handshake(t.Context(), conn, testHello())
		wantErr(t, err, rlpx.ErrAuthentication)
		within("the end", time.Since(start), disconnectTimeout)
		if conn.ConnectionState().PeerProven {
			t.Error("peer proven")
		}
	})
}
