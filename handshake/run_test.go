package handshake

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

type outcome struct {
	Secrets
	err error
}

// respond runs Respond on a goroutine.
func respond(ctx context.Context, rw io.ReadWriter, key testKey, verify func(*ecdsa.PublicKey) error) <-chan outcome {
	c := make(chan outcome, 1)
	go func() {
		s, err := Respond(ctx, rw, key.PrivateKey, nil, verify)
		c <- outcome{s, err}
	}()
	return c
}

// countedConn counts what is called on a connection.
type countedConn struct {
	net.Conn
	reads, writes, closes atomic.Int32
}

func (c *countedConn) Read(b []byte) (int, error)  { c.reads.Add(1); return c.Conn.Read(b) }
func (c *countedConn) Write(b []byte) (int, error) { c.writes.Add(1); return c.Conn.Write(b) }
func (c *countedConn) Close() error                { c.closes.Add(1); return c.Conn.Close() }

func TestDriver(t *testing.T) {
	tcp := func(t *testing.T) (net.Conn, net.Conn) {
		l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer l.Close()
		c1 := must(net.Dial("tcp", l.Addr().String()))(t)
		return c1, must(l.Accept())(t)
	}
	for name, connect := range map[string]func(*testing.T) (net.Conn, net.Conn){
		"pipe": func(*testing.T) (net.Conn, net.Conn) { return net.Pipe() },
		"tcp":  tcp,
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newTestKey(t), newTestKey(t)
			n1, n2 := connect(t)
			defer n1.Close()
			defer n2.Close()
			c1, c2 := &countedConn{Conn: n1}, &countedConn{Conn: n2}
			var verified *ecdsa.PublicKey
			result := respond(t.Context(), c2, b, func(remote *ecdsa.PublicKey) error {
				verified = remote
				if n := c2.writes.Load(); n != 0 {
					t.Errorf("%d writes before verify", n)
				}
				return nil
			})
			s, err := Initiate(t.Context(), c1, a.PrivateKey, &b.PublicKey, nil)
			if err != nil {
				t.Fatal(err)
			}
			r := <-result
			if r.err != nil {
				t.Fatal(r.err)
			}
			checkAgree(t, s, r.Secrets)
			if !reflect.DeepEqual(verified, &a.PublicKey) {
				t.Error("verify got another key")
			}
			for _, c := range []*countedConn{c1, c2} {
				if c.writes.Load() != 1 || c.closes.Load() != 0 {
					t.Errorf("%d writes, %d closes", c.writes.Load(), c.closes.Load())
				}
			}
		})
	}
}

// TestReadsExactly: bytes after the packet stay where they are, however the packet arrives.
func TestReadsExactly(t *testing.T) {
	for _, rd := range readers(t) {
		packet := seal(t, rd.key, append(bytes.Clone(rd.valid), make([]byte, 150)...))
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"whole":        func(r io.Reader) io.Reader { return r },
			"one byte":     iotest.OneByteReader,
			"half":         iotest.HalfReader,
			"data and err": iotest.DataErrReader,
		} {
			s := newScript(append(bytes.Clone(packet), "the first frame"...))
			_, err := rd.drive(t, struct {
				io.Reader
				io.Writer
			}{wrap(s), s})
			if err != nil {
				t.Fatalf("%s, %s: %v", rd.name, name, err)
			}
			left := string(must(io.ReadAll(s.in))(t))
			// HalfReader and DataErrReader take from s what they have not been asked for only when
			// wrapped wrongly.
			if name != "data and err" && left != "the first frame" {
				t.Errorf("%s, %s: %q is left", rd.name, name, left)
			}
			if s.calls != 1 {
				t.Errorf("%s, %s: %d writes", rd.name, name, s.calls)
			}
		}
	}
}

func TestVerifyRefuses(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	auth := must(newInitiatorFor(t, a, b).WriteAuth(nil))(t)
	no := errors.New("not on the list")
	s := newScript(auth)
	random := &countingReader{}
	got, err := Respond(t.Context(), s, b.PrivateKey, random, func(*ecdsa.PublicKey) error { return no })
	refused(t, "verify", err, no)
	if s.calls != 0 || random.n != 0 || !reflect.DeepEqual(got, Secrets{}) {
		t.Errorf("%d writes, %d bytes of randomness", s.calls, random.n)
	}
}

type countingReader struct{ n int }

func (r *countingReader) Read(b []byte) (int, error) { r.n += len(b); return len(b), nil }

// TestVerifyPanics: a panic of the caller's passes through, and the context is watched no more.
func TestVerifyPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newTestKey(t), newTestKey(t)
		auth := must(newInitiatorFor(t, a, b).WriteAuth(nil))(t)
		ctx, cancel := context.WithCancel(t.Context())
		c := &closer{script: newScript(auth)}
		func() {
			defer func() {
				if recover() != "mine" {
					t.Error("panic is lost")
				}
			}()
			Respond(ctx, c, b.PrivateKey, nil, func(*ecdsa.PublicKey) error { panic("mine") })
		}()
		cancel()
		synctest.Wait()
		if c.closed.Load() != 0 {
			t.Error("closed after the driver was gone")
		}
	})
}

type closer struct {
	*script
	closed atomic.Int32
}

func (c *closer) Close() error { c.closed.Add(1); return nil }

// TestCase_H14_H18_RemoteCloses: the remote takes auth and closes after some bytes. That is a clear
// error at once.
func TestCase_H14_H18_RemoteCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newTestKey(t), newTestKey(t)
		for _, n := range []int{0, 1, 2, 3, 200} {
			c1, c2 := net.Pipe()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			go func() {
				defer c2.Close()
				io.ReadFull(c2, make([]byte, 300))
				go io.Copy(io.Discard, c2)
				c2.Write(append([]byte{1, 0x1a, 4}, make([]byte, 200)...)[:n])
			}()
			before := time.Now()
			_, err := Initiate(ctx, c1, a.PrivateKey, &b.PublicKey, nil)
			refused(t, fmt.Sprint(n, " bytes"), err, ErrRemoteClosed)
			cause := io.ErrUnexpectedEOF
			if n == 0 {
				cause = io.EOF
			}
			if !errors.Is(err, cause) {
				t.Errorf("%d bytes: cause is not %v", n, cause)
			}
			if time.Since(before) != 0 {
				t.Errorf("%d bytes: it took %v", n, time.Since(before))
			}
			cancel()
			c1.Close()
		}
	})
}

// TestCase_H25_ForeignTraffic: what other protocols say is refused after two bytes, by name where
// it can be told, and without a multiplication.
func TestCase_H25_ForeignTraffic(t *testing.T) {
	mults := countMults(t)
	key := newTestKey(t)
	for _, tt := range []struct{ sent, says string }{
		{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"},
		{"POST /\x1b[31m HTTP/1.0\r\n\r\n", "HTTP"},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP"},
		{"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"},
		{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"},
		{"\x15\x03\x01\x00\x02\x02\x46", "TLS"},
		{"SSH-2.0-OpenSSH_9.6\r\n", "SSH"},
		{"220 mail ESMTP\r\n", "SMTP"},
		{"\x1b[2J and more", "at most 2048"},
		{"\x00\x00\x00", "at least 113"},
	} {
		s := newScript([]byte(tt.sent))
		_, err := Respond(t.Context(), s, key.PrivateKey, nil, nil)
		refused(t, fmt.Sprintf("%q", tt.sent), err, ErrPacketSize)
		if !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q: %v", tt.sent, err)
		}
		if read := len(tt.sent) - s.in.Len(); read != 2 || s.calls != 0 {
			t.Errorf("%q: %d bytes read, %d writes", tt.sent, read, s.calls)
		}
	}
	for _, sent := range []string{"", "G"} {
		_, err := Respond(t.Context(), newScript([]byte(sent)), key.PrivateKey, nil, nil)
		refused(t, fmt.Sprintf("%q", sent), err, ErrRemoteClosed)
	}
	if *mults != 0 {
		t.Errorf("%d multiplications", *mults)
	}
}
