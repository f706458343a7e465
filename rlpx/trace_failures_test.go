package rlpx

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// The first error of each direction is reported once, and nothing that is not fatal.
func TestTraceFailures(t *testing.T) {
	fault := errors.New("fault")
	type failing struct {
		c    *Conn
		peer *rlpxtest.RawPeer
	}
	for _, tc := range []struct {
		name        string
		wrap        func(net.Conn) net.Conn
		do          func(t *testing.T, f failing)
		read, write error // what is reported for each direction
	}{
		{name: "nothing", do: func(t *testing.T, f failing) {
			f.c.SetReadDeadline(time.Unix(1, 0))
			if _, _, _, err := f.c.Read(); !isTimeout(err) {
				t.Error(err)
			}
			f.c.SetReadDeadline(time.Time{})
			if _, err := f.c.Write(0, make([]byte, maxUint24)); !errors.Is(err, ErrMessageTooBig) {
				t.Error(err)
			}
			f.peer.SendMessage(1, nil)
			f.c.Read()
		}},
		{name: "EOF", do: func(t *testing.T, f failing) { f.peer.Conn.Close(); f.c.Read() }, read: io.EOF},
		{name: "EOF in a frame", do: func(t *testing.T, f failing) {
			f.peer.Send(f.peer.Egress.Seal([]byte{1})[:40])
			f.peer.Conn.Close()
			f.c.Read()
		}, read: io.ErrUnexpectedEOF},
		{name: "bad header MAC", do: func(t *testing.T, f failing) {
			f.peer.Send(make([]byte, 100))
			f.c.Read()
			f.c.Write(0, nil)
		}, read: ErrAuthentication, write: ErrAuthentication},
		{name: "bad header MAC, nobody writes", do: func(t *testing.T, f failing) {
			f.peer.Send(make([]byte, 100))
			f.c.Read()
		}, read: ErrAuthentication},
		{name: "zero frame", do: func(t *testing.T, f failing) {
			f.peer.SendData(nil)
			f.c.Read()
			f.c.Write(0, nil)
		}, read: ErrProtocol},
		{name: "bad code", do: func(t *testing.T, f failing) { f.peer.SendData([]byte{0xC0}); f.c.Read() }, read: ErrProtocol},
		{name: "bad snappy", do: func(t *testing.T, f failing) {
			f.c.SetSnappy(true)
			f.peer.SendMessage(7, []byte{0xFF})
			f.c.Read()
		}, read: ErrProtocol},
		{name: "over the limit", do: func(t *testing.T, f failing) {
			f.c.SetReadLimit(10)
			f.peer.SendMessage(7, make([]byte, 10))
			f.c.Read()
		}, read: ErrMessageTooBig},
		{name: "closed", do: func(t *testing.T, f failing) { f.c.Close(); f.c.Read(); f.c.Write(0, nil) }, read: net.ErrClosed, write: net.ErrClosed},
		{name: "closed, no call", do: func(t *testing.T, f failing) { f.c.Close() }},
		{name: "closed, batch", do: func(t *testing.T, f failing) { f.c.Close(); f.c.WriteBatch(make([]Message, 3)) }, write: net.ErrClosed},
		{name: "closed, broadcast", do: func(t *testing.T, f failing) { f.c.Close(); Broadcast([]*Conn{f.c, f.c}, 0, nil) }, write: net.ErrClosed},
		{name: "closed, large", do: func(t *testing.T, f failing) { f.c.Close(); f.c.Write(0, make([]byte, 2<<20)) }, write: net.ErrClosed},
		{name: "CloseWrite", do: func(t *testing.T, f failing) { f.c.CloseWrite(); f.c.Write(0, nil) }, write: net.ErrClosed},
		{name: "write fails", wrap: func(conn net.Conn) net.Conn { return rlpxtest.ShortWrite(conn, 10, fault) },
			do: func(t *testing.T, f failing) { f.c.Write(0, nil); f.c.Write(0, nil) }, write: fault},
		{name: "write is short", wrap: func(conn net.Conn) net.Conn { return rlpxtest.ShortWrite(conn, 10, nil) },
			do: func(t *testing.T, f failing) { f.c.Write(0, nil) }, write: io.ErrShortWrite},
		{name: "write fails in a large frame", wrap: func(conn net.Conn) net.Conn { return rlpxtest.ShortWrite(conn, pieceSize+10, fault) },
			do: func(t *testing.T, f failing) { f.c.Write(0, make([]byte, 2<<20)) }, write: fault},
		{name: "write deadline", do: func(t *testing.T, f failing) { f.c.SetWriteDeadline(time.Unix(1, 0)); f.c.Write(0, nil) }, write: errTimeout{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var l events
			ours, theirs := tcpPipe(t)
			if tc.wrap != nil {
				ours = tc.wrap(ours)
			}
			c, _, peer := rawSession(t, &Config{Trace: l.trace()}, ours, theirs)
			go io.Copy(io.Discard, theirs)
			tc.do(t, failing{c, peer})
			for range 3 { // does not change what was reported
				if tc.read != nil {
					c.Read()
				}
				if tc.write != nil {
					c.Write(0, nil)
					c.WriteBatch(make([]Message, 2))
				}
			}
			got := map[string][]error{}
			failedFlush := false
			for _, e := range l.take() {
				if e.what == "ReadFailed" || e.what == "WriteFailed" {
					got[e.what] = append(got[e.what], e.err)
				}
				failedFlush = failedFlush || e.flush.Err != nil
			}
			for what, want := range map[string]error{"ReadFailed": tc.read, "WriteFailed": tc.write} {
				errs := got[what]
				if want == nil && len(errs) == 0 {
					continue
				}
				is := len(errs) == 1 && errors.Is(errs[0], want)
				if want == (errTimeout{}) {
					is = len(errs) == 1 && isTimeout(errs[0])
				}
				if !is {
					t.Errorf("%s: %v, want %v", what, errs, want)
				}
			}
			if wants := tc.wrap != nil || tc.write == (errTimeout{}); failedFlush != wants {
				t.Errorf("a flush failed: %v", failedFlush)
			}
		})
	}
}

// errTimeout stands for any timeout.
type errTimeout struct{}

func (errTimeout) Error() string { return "timeout" }

// A failed call on the net.Conn is a flush with the bytes that went through.
func TestTraceFailedFlush(t *testing.T) {
	fault := errors.New("fault")
	for _, tc := range []struct{ size, cut int }{{100, 30}, {2 << 20, 300_000}} {
		var l events
		sec, _ := rlpxtest.NewSecrets(1)
		c := initConn(rlpxtest.ShortWrite(rlpxtest.Discard(), tc.cut, fault), &Config{Trace: l.trace()}, sec)
		if _, err := c.Write(0, make([]byte, tc.size)); err != fault {
			t.Fatal(err)
		}
		total := 0
		all := l.take()
		fs := flushes(all)
		for i, f := range fs {
			total += f.Size
			if last := i == len(fs)-1; (f.Err == fault) != last {
				t.Errorf("flush %d: %+v", i, f)
			}
		}
		if stats := c.ConnectionState().Stats; total != tc.cut || stats.WireBytesWritten > uint64(tc.cut) {
			t.Errorf("%d bytes, want %d; stats %+v", total, tc.cut, stats)
		}
		if names := what(all); names[len(names)-1] != "WriteFailed" || names[len(names)-2] != "Flushed" {
			t.Errorf("callbacks %v", names)
		}
	}
}

// ReadFailed may keep the error of a failed payload, with what it shows.
func TestTracePayloadError(t *testing.T) {
	payload := []byte{0xFF, 1, 2}
	var got []byte
	trace := &Trace{ReadFailed: func(c *Conn, err error) {
		var pe *PayloadError
		if errors.As(err, &pe) {
			got = pe.Payload
		}
	}}
	c, _, _ := recorded(&Config{Trace: trace}, nil, sealing(rlpxtest.Data(7, payload)))
	c.SetSnappy(true)
	if _, _, _, err := c.Read(); err == nil || !bytes.Equal(got, payload) {
		t.Errorf("payload %x, error %v", got, err)
	}
}
