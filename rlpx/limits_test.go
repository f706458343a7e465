package rlpx

import (
	"errors"
	"io"
	"net"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

func TestSetReadLimit(t *testing.T) {
	const limit = 2048 // what the base protocol allows before Hello
	frames := func(size int) func(*rlpxtest.Direction) []byte {
		return sealing(append([]byte{0x80}, make([]byte, size-1)...), rlpxtest.Data(0x10, make([]byte, 5000)))
	}
	t.Run("at the limit", func(t *testing.T) {
		conn, _, _ := recorded(nil, nil, frames(limit))
		conn.SetReadLimit(limit)
		wantRead(t, conn, 0, make([]byte, limit-1))
		conn.SetReadLimit(0) // with the next frame buffered already
		wantRead(t, conn, 0x10, make([]byte, 5000))
		wantClean(t, conn)
	})
	t.Run("one over", func(t *testing.T) {
		conn, counting, _ := recorded(nil, nil, frames(limit+1))
		conn.SetReadLimit(limit)
		code, data, _, err := conn.Read()
		var size *SizeError
		if !errors.As(err, &size) || !size.Read || size.Size != limit+1 || size.Limit != limit || size.What != "frame" || code != 0 || data != nil {
			t.Fatalf("Read: %v", err)
		}
		if !errors.Is(err, ErrMessageTooBig) || !errors.Is(err, ErrProtocol) {
			t.Errorf("%v is of the wrong class", err)
		}
		conn.SetReadLimit(0)
		wantDead(t, conn, counting, err)
	})
	t.Run("refused by the header alone", func(t *testing.T) {
		conn, _, peer := rawOverPipe(t, nil)
		conn.SetReadLimit(limit)
		go peer.Send(peer.Egress.SealHeader(rlpxtest.MakeHeader(maxUint24, nil)))
		if _, _, _, err := conn.Read(); !errors.Is(err, ErrMessageTooBig) {
			t.Fatal(err)
		}
	})
	t.Run("set while Read waits", func(t *testing.T) {
		conn, counting, peer := rawOverTCP(t, nil)
		done := make(chan error, 1)
		go func() {
			_, _, _, err := conn.Read()
			done <- err
		}()
		if !rlpxtest.Eventually(func() bool { return counting.Reads.Load() == 1 }) {
			t.Fatal("Read does not read")
		}
		conn.SetReadLimit(10)
		peer.SendData(make([]byte, 11))
		if err := <-done; !errors.Is(err, ErrMessageTooBig) {
			t.Fatal(err)
		}
	})
	t.Run("beyond what a header can say", func(t *testing.T) {
		for _, n := range []int{0, -1, maxUint24, maxUint24 + 1, 1 << 30} {
			conn, _, _ := recorded(nil, nil, frames(100))
			conn.SetReadLimit(n)
			wantRead(t, conn, 0, make([]byte, 99))
		}
	})
}

// Limits out of range mean the protocol's own, and a limit of nothing still lets empty messages
// through.
func TestMessageLimits(t *testing.T) {
	for _, tc := range []struct {
		cfg  Config
		size int
		ok   bool
	}{
		{Config{MaxMessageSize: -1}, 100_000, true},
		{Config{MaxMessageSize: 1 << 30}, 100_000, true},
		{Config{MessageLimit: func(uint64) int { return 0 }}, 0, true},
		{Config{MessageLimit: func(uint64) int { return 0 }}, 1, false},
		{Config{MessageLimit: func(uint64) int { return -5 }}, 0, true},
		{Config{MessageLimit: func(code uint64) int { return int(code) }}, 0x10, true},
		{Config{MessageLimit: func(code uint64) int { return int(code) }}, 0x11, false},
		{Config{MaxMessageSize: 1}, 1, true},
		{Config{MaxMessageSize: 1}, 2, false},
	} {
		conn, _, _ := recorded(&tc.cfg, nil, sealing(rlpxtest.Data(0x10, make([]byte, tc.size))))
		code, data, _, err := conn.Read()
		if code != 0x10 || tc.ok != (err == nil) || len(data) != tc.size && tc.ok || err != nil && !errors.Is(err, ErrMessageTooBig) {
			t.Errorf("%+v, %d bytes: %#x, %d bytes, %v", tc.cfg, tc.size, code, len(data), err)
		}
	}
}

// With a limit on messages, a frame that no such message can need is refused by its header.
func TestMessageLimitBoundsFrames(t *testing.T) {
	for _, snappyOn := range []bool{false, true} {
		conn, _, peer := rawOverPipe(t, &Config{MaxMessageSize: 1000})
		conn.SetSnappy(snappyOn)
		go peer.Send(peer.Egress.SealHeader(rlpxtest.MakeHeader(5000, nil)))
		var size *SizeError
		if _, _, _, err := conn.Read(); !errors.As(err, &size) || size.What != "frame" || size.Limit > 2000 {
			t.Errorf("snappy %v: %v", snappyOn, err)
		}
	}
}

func TestConfigClone(t *testing.T) {
	if (*Config)(nil).Clone() != nil {
		t.Error("clone of nil")
	}
	// Every field is given a value, whatever fields there are.
	cfg := new(Config)
	v := reflect.ValueOf(cfg).Elem()
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		if !f.CanSet() {
			t.Fatalf("field %s is not exported", name)
		}
		switch f.Kind() {
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Interface:
			pr, pw := io.Pipe()
			for _, candidate := range []any{pr, pw} {
				if reflect.TypeOf(candidate).Implements(f.Type()) {
					f.Set(reflect.ValueOf(candidate))
				}
			}
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(i + 1))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Func:
			f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { panic("called") }))
		default:
			t.Fatalf("field %s is of a kind that this test does not know", name)
		}
		if f.IsZero() {
			t.Fatalf("field %s was not set", name)
		}
	}
	clone := cfg.Clone()
	if clone == cfg {
		t.Fatal("the clone is the original")
	}
	c := reflect.ValueOf(clone).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if v.Field(i).Kind() == reflect.Func {
			if v.Field(i).UnsafePointer() != c.Field(i).UnsafePointer() {
				t.Errorf("field %s is not cloned", name)
			}
		} else if !v.Field(i).Equal(c.Field(i)) {
			t.Errorf("field %s is not cloned", name)
		}
	}
}

// Deadlines of the clock: they bound what waits, change while it waits, and are over when cleared.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _, peer := rawOverPipe(t, nil)
		start := time.Now()
		conn.SetReadDeadline(start.Add(time.Second))
		if _, _, _, err := conn.Read(); !isTimeout(err) || time.Since(start) != time.Second {
			t.Fatalf("Read after %v: %v", time.Since(start), err)
		}
		// Moved forward while Read waits.
		conn.SetReadDeadline(time.Time{})
		done := make(chan error, 1)
		go func() {
			_, _, _, err := conn.Read()
			done <- err
		}()
		synctest.Wait()
		conn.SetReadDeadline(time.Now().Add(time.Second))
		if err := <-done; !isTimeout(err) {
			t.Fatal(err)
		}
		// Set in the past, then cleared.
		conn.SetDeadline(time.Unix(1, 0))
		if _, _, _, err := conn.Read(); !isTimeout(err) {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Time{})
		go peer.SendMessage(1, []byte("after"))
		wantRead(t, conn, 1, []byte("after"))

		// A write that fails is the end of writing, and of nothing else.
		start = time.Now()
		conn.SetWriteDeadline(start.Add(3 * time.Second))
		_, err := conn.Write(1, []byte("nobody reads"))
		if !isTimeout(err) || time.Since(start) != 3*time.Second {
			t.Fatalf("Write after %v: %v", time.Since(start), err)
		}
		conn.SetWriteDeadline(time.Time{})
		if _, again := conn.Write(1, nil); again != err {
			t.Fatalf("Write: %v, want %v", again, err)
		}
		go peer.SendMessage(2, nil)
		wantRead(t, conn, 2, nil)
	})
}

// A handshake that is too slow fails at one deadline, says so, and leaves nothing.
func TestHandshakeDeadline(t *testing.T) {
	for _, role := range []string{"recipient", "initiator"} {
		for _, by := range []string{"Config", "deadline"} {
			t.Run(role+"/"+by, func(t *testing.T) {
				key, remote := newKey(t), newKey(t)
				synctest.Test(t, func(t *testing.T) {
					ours, theirs := net.Pipe()
					counting := rlpxtest.Count(ours)
					cfg := &Config{Key: key, HandshakeTimeout: 7 * time.Second}
					if by == "deadline" {
						cfg.HandshakeTimeout = -1
						counting.SetDeadline(time.Now().Add(7 * time.Second))
					}
					var wg sync.WaitGroup
					conn := Server(counting, cfg)
					if role == "initiator" {
						conn = Client(counting, &remote.PublicKey, cfg)
						wg.Go(func() { io.Copy(io.Discard, theirs) }) // takes auth
					}
					wg.Go(func() { dribble(theirs) })
					start := time.Now()
					_, err := conn.HandshakeContext(t.Context())
					if !errors.Is(err, ErrHandshake) || !isTimeout(err) || errors.Is(err, net.ErrClosed) {
						t.Errorf("handshake: %v", err)
					}
					if waited := time.Since(start); waited != 7*time.Second {
						t.Errorf("failed after %v", waited)
					}
					if n := counting.Closes.Load(); n != 1 {
						t.Errorf("net.Conn closed %d times", n)
					}
					theirs.Close()
					wg.Wait()
				})
			})
		}
	}
}

// dribble sends the size of a packet and then a byte a second.
func dribble(c net.Conn) {
	for _, b := range append([]byte{0x01, 0x90}, make([]byte, 400)...) {
		if _, err := c.Write([]byte{b}); err != nil {
			return
		}
		time.Sleep(time.Second)
	}
}

// Close may be called from anywhere, any number of times, and returns the same.
func TestSimultaneousClose(t *testing.T) {
	fault := errors.New("fault of Close")
	a, b := net.Pipe()
	defer b.Close()
	counting := rlpxtest.Count(&failingClose{a, fault})
	sec, _ := rlpxtest.NewSecrets(1)
	conn := initConn(counting, nil, sec)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := conn.Close(); err != fault {
				t.Errorf("Close: %v", err)
			}
		})
	}
	wg.Wait()
	if n := counting.Closes.Load(); n != 1 {
		t.Errorf("net.Conn closed %d times", n)
	}
}

type failingClose struct {
	net.Conn
	err error
}

func (c *failingClose) Close() error {
	c.Conn.Close()
	return c.err
}
