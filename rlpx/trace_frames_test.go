package rlpx

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// tracedPair is a session between two connections with a Trace each.
func tracedPair(t testing.TB, a, b net.Conn, ta, tb *Trace) (*Conn, *Conn) {
	t.Helper()
	sa, sb := rlpxtest.NewSecrets(42)
	ca, cb := initConn(a, &Config{Trace: ta}, sa), initConn(b, &Config{Trace: tb}, sb)
	t.Cleanup(func() { ca.Close(); cb.Close() })
	return ca, cb
}

// Every way to write reports every frame, in the order of the wire, and the same frames that Read
// reports; and what is reported adds up to what is counted.
func TestTraceFrames(t *testing.T) {
	sizes := []int{0, 1, 15, 1000, 64 << 10, 1 << 20, 3 << 20, 7}
	for _, way := range []struct {
		name string
		send func(c *Conn, msgs []Message) error
	}{
		{"Write", func(c *Conn, msgs []Message) error {
			for _, m := range msgs {
				if _, err := c.Write(m.Code, m.Data); err != nil {
					return err
				}
			}
			return nil
		}},
		{"WriteBatch", func(c *Conn, msgs []Message) error { _, err := c.WriteBatch(msgs); return err }},
		{"WritePayload", func(c *Conn, msgs []Message) error {
			for _, m := range msgs {
				if _, err := c.WritePayload(m.Code, Compress(m.Data)); err != nil {
					return err
				}
			}
			return nil
		}},
		{"Broadcast", func(c *Conn, msgs []Message) error {
			for _, m := range msgs {
				if errs := Broadcast([]*Conn{c}, m.Code, m.Data); errs != nil {
					return errs[0]
				}
			}
			return nil
		}},
	} {
		for _, snappyOn := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/snappy=%v", way.name, snappyOn), func(t *testing.T) {
				var la, lb events
				wire, b := tcpPipe(t)
				counting := rlpxtest.Count(wire)
				ca, cb := tracedPair(t, counting, b, la.trace(), lb.trace())
				ca.SetSnappy(snappyOn)
				cb.SetSnappy(snappyOn)
				var msgs []Message
				var want []TraceFrame
				for i, size := range sizes {
					m := Message{Code: uint64(i * 100), Data: pattern(size, byte(i))}
					data := size
					if snappyOn {
						data = len(snappy.Encode(nil, m.Data))
					}
					msgs = append(msgs, m)
					want = append(want, TraceFrame{Code: m.Code, PlainSize: size, DataSize: data, WireSize: wireLen(dataSize(m.Code, data))})
				}
				sent := make(chan error, 1)
				go func() { sent <- way.send(ca, msgs) }()
				for _, m := range msgs {
					wantRead(t, cb, m.Code, m.Data)
				}
				if err := <-sent; err != nil {
					t.Fatal(err)
				}
				written, read := la.take(), lb.take()
				if got := frames(written, "FrameWritten"); !slices.Equal(got, want) {
					t.Errorf("written: %+v\nwant %+v", got, want)
				}
				if got := frames(read, "FrameRead"); !slices.Equal(got, want) || len(read) != len(want) {
					t.Errorf("read: %+v\nwant %+v", got, want)
				}
				// Frames are reported before the flush that counts them, and flushes are the calls
				// on the net.Conn.
				made, flushed, bytes := 0, 0, 0
				for _, e := range written {
					if e.conn != ca || e.err != nil || e.flush.Err != nil || e.flush.Took < 0 {
						t.Errorf("%+v", e)
					}
					if e.what == "FrameWritten" {
						made++
					} else {
						flushed += e.flush.Frames
						bytes += e.flush.Size
					}
					if flushed > made {
						t.Fatalf("%d frames are flushed, %d written", flushed, made)
					}
				}
				stats := ca.ConnectionState().Stats
				if flushed != len(msgs) || uint64(bytes) != stats.WireBytesWritten || int64(bytes) != counting.BytesWritten.Load() {
					t.Errorf("flushed %d frames of %d bytes; stats %+v, %d bytes written", flushed, bytes, stats, counting.BytesWritten.Load())
				}
				if n := len(flushes(written)); uint64(n) != stats.WriteCalls || int64(n) != counting.Writes.Load() {
					t.Errorf("%d flushes, %d calls on the net.Conn", n, counting.Writes.Load())
				}
			})
		}
	}
}

// A large frame is flushed in pieces, of which the last counts it.
func TestTracePieces(t *testing.T) {
	var l events
	sec, _ := rlpxtest.NewSecrets(1)
	c := initConn(rlpxtest.Discard(), &Config{Trace: l.trace()}, sec)
	if _, err := c.Write(5, make([]byte, wholeFrame)); err != nil {
		t.Fatal(err)
	}
	all := l.take()
	pieces := flushes(all)
	if len(pieces) != wholeFrame/pieceSize+1 {
		t.Fatalf("%d flushes", len(pieces))
	}
	for i, p := range pieces {
		if last := i == len(pieces)-1; p.Frames == 1 != last || p.Frames > 1 || !last && p.Size < pieceSize-2*blockSize {
			t.Errorf("piece %d: %+v", i, p)
		}
	}
	if names := what(all); names[len(names)-2] != "FrameWritten" {
		t.Errorf("callbacks %v", names)
	}
}

// Frames of a WriteBatch share a flush.
func TestTraceBatchIsOneFlush(t *testing.T) {
	var l events
	sec, _ := rlpxtest.NewSecrets(1)
	c := initConn(rlpxtest.Discard(), &Config{Trace: l.trace()}, sec)
	if _, err := c.WriteBatch(make([]Message, 64)); err != nil {
		t.Fatal(err)
	}
	all := l.take()
	if got := flushes(all); len(got) != 1 || got[0].Frames != 64 || got[0].Size != 64*wireLen(1) || len(all) != 65 {
		t.Errorf("%d callbacks, flushes %+v", len(all), got)
	}
}

// Whoever writes, and however: FrameWritten comes in the order of the wire, one at a time for
// each connection, and flushes count every frame.
func TestTraceOrderOfManyWriters(t *testing.T) {
	const peers, rounds = 3, 20
	var l events
	busy := map[*Conn]*[2]sync.Mutex{} // held by a FrameWritten, by a Flushed
	written, flushed := map[*Conn]int{}, map[*Conn]int{}
	conns, ends := make([]*Conn, peers), make([]*Conn, peers)
	for i := range conns {
		a, b := tcpPipe(t)
		conns[i], ends[i] = tracedPair(t, a, b, l.trace(), nil)
		busy[conns[i]] = new([2]sync.Mutex)
	}
	var counts sync.Mutex
	l.also = func(e event) {
		alone := &busy[e.conn][0]
		if e.what == "Flushed" {
			alone = &busy[e.conn][1]
		}
		if !alone.TryLock() {
			t.Errorf("two calls of %s at once", e.what)
			return
		}
		defer alone.Unlock()
		counts.Lock()
		defer counts.Unlock()
		if e.what == "FrameWritten" {
			written[e.conn]++
		} else if flushed[e.conn] += e.flush.Frames; flushed[e.conn] > written[e.conn] {
			t.Errorf("%d frames are flushed, %d written", flushed[e.conn], written[e.conn])
		}
	}
	const perPeer = rounds * (1 + 2 + 1 + 5)
	var readers, writers sync.WaitGroup
	codes := make([][]uint64, peers)
	for i, end := range ends {
		readers.Go(func() {
			for range perPeer {
				code, _, _, err := end.Read()
				if err != nil {
					t.Error(err)
					return
				}
				codes[i] = append(codes[i], code)
			}
		})
	}
	writers.Go(func() {
		for r := range rounds {
			if errs := Broadcast(conns, uint64(1000+r), make([]byte, 10<<(r%12))); errs != nil {
				t.Error(errs)
			}
		}
	})
	writers.Go(func() {
		for r := range rounds {
			if errs := Broadcast(append(conns[:peers:peers], conns...), uint64(2000+r), make([]byte, 100*r)); errs != nil {
				t.Error(errs)
			}
		}
	})
	for _, c := range conns {
		writers.Go(func() {
			for r := range rounds {
				size := 500 * r
				if r%10 == 9 {
					size = wholeFrame + r
				}
				if _, err := c.Write(uint64(3000+r), make([]byte, size)); err != nil {
					t.Error(err)
				}
			}
		})
		writers.Go(func() {
			for r := range rounds {
				batch := make([]Message, 5)
				for i := range batch {
					batch[i] = Message{Code: uint64(4000 + 10*r + i), Data: make([]byte, 100*i)}
				}
				if _, err := c.WriteBatch(batch); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	readers.Wait()
	all := l.take()
	for i, c := range conns {
		var told []uint64
		for _, e := range all {
			if e.conn == c && e.what == "FrameWritten" {
				told = append(told, e.frame.Code)
			}
		}
		if !slices.Equal(told, codes[i]) {
			t.Errorf("peer %d: frames were written as %v\nand read as %v", i, told, codes[i])
		}
		if flushed[c] != perPeer {
			t.Errorf("peer %d: %d frames flushed, want %d", i, flushed[c], perPeer)
		}
	}
}

// However a frame arrives, it is reported once.
func TestTraceReading(t *testing.T) {
	data := [][]byte{{1}, pattern(100, 2), pattern(5000, 3), pattern(300<<10, 4), pattern(wholeFrame+100_000, 5), {6}}
	var want []TraceFrame
	for i, d := range data {
		d[0] = byte(i + 1) // the code
		want = append(want, TraceFrame{Code: uint64(i + 1), PlainSize: len(d) - 1, DataSize: len(d) - 1, WireSize: wireLen(len(d))})
	}
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"at once": nil,
		"in pieces": func(conn net.Conn) net.Conn {
			return &rlpxtest.Filter{Conn: conn, OnRead: func(inner net.Conn, p []byte) (int, error) { return inner.Read(p[:min(len(p), 1000)]) }}
		},
		"timeout between frames": func(conn net.Conn) net.Conn { return rlpxtest.TimeoutAt(conn, 64, 3) },
		"timeout in a header":    func(conn net.Conn) net.Conn { return rlpxtest.TimeoutAt(conn, 70, 3) },
		"timeout in a frame":     func(conn net.Conn) net.Conn { return rlpxtest.TimeoutAt(conn, 200<<10, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			var l events
			c, _, _ := recorded(&Config{Trace: l.trace()}, wrap, sealing(data...))
			for range data {
				_, _, _, err := c.Read()
				for isTimeout(err) {
					_, _, _, err = c.Read()
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if all := l.take(); !slices.Equal(frames(all, "FrameRead"), want) || len(all) != len(want) {
				t.Errorf("%+v\nwant %+v", all, want)
			}
			wantClean(t, c)
			wantClean(t, c)
			if all := l.take(); len(all) != 1 || all[0].what != "ReadFailed" || all[0].err != io.EOF {
				t.Errorf("at the end: %+v", all)
			}
		})
	}
}
