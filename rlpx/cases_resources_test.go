package rlpx

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/handshake"
	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// The tests named TestCase_D... are field bugs of other transports in what a peer can make them
// spend.

// Memory follows what was received, not what was announced.
func TestCase_D2_AnnouncedSize(t *testing.T) {
	const conns = 100
	type session struct {
		conn *Conn
		peer *rlpxtest.RawPeer
	}
	sessions := make([]session, conns)
	for i := range sessions {
		conn, _, peer := rawOverPipe(t, nil)
		sessions[i] = session{conn, peer}
	}
	done := make(chan error, conns)
	allocated := rlpxtest.TotalAlloc(func() {
		for _, s := range sessions {
			go func() {
				_, _, _, err := s.conn.Read()
				done <- err
			}()
			wire := s.peer.Egress.SealHeader(rlpxtest.MakeHeader(maxUint24, rlpxtest.HeaderData))
			// Each byte after the header arrives by a Read of its own, whose buffer was made
			// before.
			if err := s.peer.Send(append(wire, make([]byte, 4)...), headerWire, headerWire+1, headerWire+2, headerWire+3); err != nil {
				t.Fatal(err)
			}
		}
	})
	if each := allocated / conns; each > 64<<10 {
		t.Errorf("%d bytes allocated for a connection that announced %d and sent nothing", each, maxUint24)
	}
	for _, s := range sessions {
		s.conn.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Fatal(err)
		}
	}
}

// What a stalled frame holds grows with what came of it.
func TestCase_D2_GrowthFollowsBytes(t *testing.T) {
	rlpxtest.Bound(t)
	conn, _, peer := rawOverPipe(t, nil)
	frame := peer.Egress.Seal(make([]byte, maxUint24))
	done := make(chan error, 1)
	go func() {
		_, _, _, err := conn.Read()
		done <- err
	}()
	sent := 0
	for _, upTo := range []int{headerWire, 1000, 10_000, 100_000, 1_000_000, 1_100_000, 2_000_000, 2_200_000, 9_000_000} {
		// The last byte apart: when it is taken, the buffer was chosen after all the others.
		if err := peer.Send(frame[sent:upTo+1], upTo-sent); err != nil {
			t.Fatal(err)
		}
		sent = upTo + 1
		conn.SetReadDeadline(time.Unix(1, 0))
		if err := <-done; !isTimeout(err) {
			t.Fatal(err)
		}
		if held := len(conn.in.buf.B); held > 64<<10 && held > growth*sent {
			t.Errorf("%d bytes held after %d were received", held, sent)
		}
		conn.SetReadDeadline(time.Time{})
		go func() {
			_, _, _, err := conn.Read()
			done <- err
		}()
	}
	conn.Close()
	<-done
}

// The default limit is the protocol's own.
func TestCase_D11_LargeHonestMessages(t *testing.T) {
	for _, tc := range []struct {
		size   int
		snappy bool
	}{{10_485_761, false}, {10_485_761, true}, {maxUint24, true}, {maxUint24 - 1, false}} {
		a, b := tcpPipe(t)
		ca, cb := pairOver(t, a, b)
		ca.SetSnappy(tc.snappy)
		cb.SetSnappy(tc.snappy)
		exchange(t, ca, cb, 0x10, pattern(tc.size, 3))
	}
}

// No frame of up to 1 MiB may cost out of proportion to an honest one of that size. CPU time is
// compared with CPU time of the same run, the best of several, and the bounds are far from what is
// measured; what they catch is work that grows with the square of something.
func TestCase_D12_CostOfOneFrame(t *testing.T) {
	const size = 1 << 20
	honest := rlpxtest.Random(rand.New(rand.NewPCG(12, 12)), size)
	honest[0] = 0x10

	best := func(snappyOn bool, wrap func(net.Conn) net.Conn, data []byte) time.Duration {
		least := time.Duration(1<<63 - 1)
		for range 5 {
			conn, _, _ := recorded(nil, wrap, sealing(data))
			conn.SetSnappy(snappyOn)
			var err error
			least = min(least, rlpxtest.CPUTime(func() { _, _, _, err = conn.Read() }))
			if err != nil && !errors.Is(err, ErrProtocol) {
				t.Fatal(err)
			}
		}
		return least
	}
	base := best(false, nil, honest)

	// As much as snappy can be made to expand, by copies of the previous byte.
	bomb := []byte{0x10, 0xFF, 0xFF, 0xFF, 0x07, 0x00, 0xAA}
	for left := maxUint24 - 1; left > 0; {
		n := min(left, 64)
		bomb = append(bomb, byte(n-1)<<2|2, 1, 0)
		left -= n
	}
	// As many elements as there can be.
	literals := append([]byte{0x10}, 0xFF, 0xFF, 0x1F)
	for len(literals) < size {
		literals = append(literals, 0x00, 0x55)
	}
	for _, tc := range []struct {
		name   string
		snappy bool
		wrap   func(net.Conn) net.Conn
		data   []byte
		bound  time.Duration
	}{
		{"expanding snappy", true, nil, bomb, 40 * base},
		{"many elements", true, nil, literals, 40 * base},
		{"invalid code", false, nil, append([]byte{0xFF}, honest...)[:size], 10 * base},
		{"corrupt at the end", true, nil, rlpxtest.Data(0x10, snappy.Encode(nil, honest))[:size], 20 * base},
		{"reads of 100 bytes", false, func(c net.Conn) net.Conn {
			return &rlpxtest.Filter{Conn: c, OnRead: func(inner net.Conn, p []byte) (int, error) { return inner.Read(p[:min(100, len(p))]) }}
		}, honest, 40 * base},
	} {
		if cost := best(tc.snappy, tc.wrap, tc.data); cost > tc.bound {
			t.Errorf("%s: %v, an honest frame takes %v", tc.name, cost, base)
		} else {
			t.Logf("%s: %.1f times an honest frame", tc.name, float64(cost)/float64(base))
		}
	}
}

// However a handshake fails, the net.Conn is closed, once, nothing keeps running, and the
// connection says for ever what happened.
func TestCase_D7_FailedHandshakes(t *testing.T) {
	ourKey, theirKey := newKey(t), newKey(t)
	refused := errors.New("not this one")
	auth := func(to *ecdsa.PublicKey) []byte {
		h, err := handshake.NewInitiator(theirKey, to, nil)
		if err != nil {
			t.Fatal(err)
		}
		packet, err := h.WriteAuth(nil)
		if err != nil {
			t.Fatal(err)
		}
		return packet
	}
	offCurve := append([]byte{0x01, 0x80, 0x04}, bytes.Repeat([]byte{0x01}, 0x180-1)...)
	damaged := auth(&ourKey.PublicKey)
	damaged[len(damaged)-1] ^= 1
	full := auth(&ourKey.PublicKey)

	send := func(p []byte) func(net.Conn) {
		return func(c net.Conn) {
			c.Write(p)
			c.Close()
		}
	}
	hold := func(p []byte) func(net.Conn) { // keeps the connection open
		return func(c net.Conn) {
			c.Write(p)
			io.Copy(io.Discard, c)
		}
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()

	cases := []struct {
		name string
		cfg  Config
		peer func(net.Conn)
		wrap func(net.Conn) net.Conn
		ctx  context.Context
		want error // besides ErrHandshake
	}{
		{name: "closed at once", peer: send(nil), want: handshake.ErrRemoteClosed},
		{name: "one byte, closed", peer: send([]byte{1}), want: io.ErrUnexpectedEOF},
		{name: "HTTP", peer: hold([]byte("GET / HTTP/1.1\r\n\r\n")), want: handshake.ErrPacketSize},
		{name: "TLS", peer: hold([]byte{0x16, 0x03, 0x01, 0x02, 0x00}), want: handshake.ErrPacketSize},
		{name: "SSH", peer: hold([]byte("SSH-2.0-x\r\n")), want: handshake.ErrPacketSize},
		{name: "size 2049", peer: hold([]byte{0x08, 0x01}), want: handshake.ErrPacketSize},
		{name: "size 112", peer: hold([]byte{0x00, 112}), want: handshake.ErrPacketSize},
		{name: "point off the curve", peer: hold(offCurve), want: handshake.ErrInvalidPublicKey},
		{name: "cut", peer: send(full[:len(full)-1]), want: io.ErrUnexpectedEOF},
		{name: "stalled", cfg: Config{HandshakeTimeout: 20 * time.Millisecond}, peer: hold(full[:100]), want: context.DeadlineExceeded},
		{name: "context over before", ctx: cancelled, peer: hold(nil), want: context.Canceled},
		{name: "fault of the net.Conn", peer: hold(full), wrap: func(c net.Conn) net.Conn { return rlpxtest.FailRead(c, 10, refused, false) }, want: refused},
		{name: "no key", peer: hold(nil)},
	}
	for _, tc := range cases {
		for _, role := range []string{"recipient", "initiator"} {
			t.Run(tc.name+"/"+role, func(t *testing.T) {
				testFailedHandshake(t, tc.name, role, tc.cfg, ourKey, theirKey, tc.peer, tc.wrap, tc.ctx, tc.want)
			})
		}
	}
	for _, tc := range []struct {
		name string
		cfg  Config
		peer func(net.Conn)
		wrap func(net.Conn) net.Conn
		want error
	}{
		{name: "damaged", peer: hold(damaged), want: handshake.ErrDecrypt},
		{name: "to another key", peer: hold(auth(&theirKey.PublicKey)), want: handshake.ErrDecrypt},
		{name: "refused", cfg: Config{VerifyPeer: func(*ecdsa.PublicKey) error { return refused }}, peer: hold(full), want: refused},
		{name: "ack does not get through", peer: hold(full), wrap: func(c net.Conn) net.Conn { return rlpxtest.ShortWrite(c, 5, refused) }, want: refused},
		{name: "ack is cut in silence", peer: hold(full), wrap: func(c net.Conn) net.Conn { return rlpxtest.ShortWrite(c, 5, nil) }, want: io.ErrShortWrite},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testFailedHandshake(t, tc.name, "recipient", tc.cfg, ourKey, theirKey, tc.peer, tc.wrap, nil, tc.want)
		})
	}
}

func testFailedHandshake(t *testing.T, name, role string, cfg Config, ourKey, theirKey *ecdsa.PrivateKey,
	peer func(net.Conn), wrap func(net.Conn) net.Conn, ctx context.Context, want error) {
	rlpxtest.CheckGoroutines(t)
	rlpxtest.CheckFDs(t)
	ours, theirs := tcpPipe(t)
	defer theirs.Close()
	if wrap != nil {
		ours = wrap(ours)
	}
	counting := rlpxtest.Count(ours)
	if name != "no key" {
		cfg.Key = ourKey
	}
	if ctx == nil {
		ctx = t.Context()
	}
	conn := Server(counting, &cfg)
	if role == "initiator" {
		conn = Client(counting, &theirKey.PublicKey, &cfg)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		peer(theirs)
	}()
	key, err := conn.HandshakeContext(ctx)
	if key != nil || !errors.Is(err, ErrHandshake) || want != nil && !errors.Is(err, want) {
		// An initiator whose peer closes with its auth unread may see a reset instead.
		if role != "initiator" || !errors.Is(err, handshake.ErrRemoteClosed) {
			t.Fatalf("handshake: %v, want %v", err, want)
		}
	}
	if want == context.DeadlineExceeded && !isTimeout(err) {
		t.Errorf("%v is no timeout", err)
	}
	if n := counting.Closes.Load(); n != 1 {
		t.Errorf("net.Conn closed %d times", n)
	}
	reads, writes := counting.Reads.Load(), counting.Writes.Load()
	for range 3 {
		if _, again := conn.HandshakeContext(ctx); again != err {
			t.Errorf("second handshake: %v, want the first error", again)
		}
		if _, _, _, again := conn.Read(); again != err {
			t.Errorf("Read: %v", again)
		}
		if _, again := conn.Write(1, nil); again != err {
			t.Errorf("Write: %v", again)
		}
	}
	conn.Close()
	if counting.Reads.Load() != reads || counting.Writes.Load() != writes || counting.Closes.Load() != 1 {
		t.Error("the net.Conn was touched after the failure")
	}
	if state := conn.ConnectionState(); state.HandshakeComplete || state.RemoteKey != nil || state.PeerProven {
		t.Errorf("state after the failure: %+v", state)
	}
	if len(err.Error()) > 512 {
		t.Errorf("error text of %d bytes", len(err.Error()))
	}
	<-done
}
