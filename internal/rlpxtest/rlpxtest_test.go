package rlpxtest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
)

// The two ends that NewSecrets makes understand each other, and only each other. That the framing
// is RLPx's is shown where it opens frames of go-ethereum, in the tests of package rlpx.
func TestSessionsMatch(t *testing.T) {
	sa, sb := NewSecrets(1)
	a, b := NewSession(sa), NewSession(sb)
	for i, data := range [][]byte{{1}, make([]byte, 16), make([]byte, 17), nil} {
		for _, dir := range []struct{ from, to *Direction }{{a.Egress, b.Ingress}, {b.Egress, a.Ingress}} {
			frames, err := dir.to.OpenAll(dir.from.Seal(data))
			if err != nil || len(frames) != 1 || !bytes.Equal(frames[0].Data, data) || frames[0].Header.Size() != len(data) {
				t.Fatalf("frame %d: %v, %v", i, frames, err)
			}
		}
	}
	wire := append(a.Egress.Seal([]byte("one")), a.Egress.Seal([]byte("two"))...)
	for at := range wire {
		_, sb := NewSecrets(1)
		damaged := bytes.Clone(wire)
		damaged[at] ^= 1
		if _, err := NewSession(sb).Ingress.OpenAll(damaged); !errors.Is(err, ErrHeaderMAC) && !errors.Is(err, ErrFrameMAC) {
			t.Fatalf("byte %d damaged: %v", at, err)
		}
	}
	if _, err := b.Ingress.OpenAll(wire[:len(wire)-1]); err == nil {
		t.Error("a cut frame is opened")
	}
}

func TestCode(t *testing.T) {
	for code, want := range map[uint64]string{
		0: "\x80", 1: "\x01", 0x7F: "\x7f", 0x80: "\x81\x80", 0xFF: "\x81\xff", 0x100: "\x82\x01\x00",
		1<<64 - 1: "\x88\xff\xff\xff\xff\xff\xff\xff\xff",
	} {
		if got := Code(code); string(got) != want {
			t.Errorf("code %#x: %x, want %x", code, got, want)
		}
	}
}

func TestRawPeersAfterAHandshake(t *testing.T) {
	dialed, accepted, err := TCPPair()
	if err != nil {
		t.Fatal(err)
	}
	defer dialed.Close()
	defer accepted.Close()
	keyA, _ := crypto.GenerateKey()
	keyB, _ := crypto.GenerateKey()
	got := make(chan *RawPeer, 1)
	go func() {
		p, err := Accept(t.Context(), accepted, keyB)
		if err != nil {
			t.Error(err)
		}
		got <- p
	}()
	a, err := Dial(t.Context(), dialed, keyA, &keyB.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	b := <-got
	if !a.Remote.Equal(&keyB.PublicKey) || !b.Remote.Equal(&keyA.PublicKey) {
		t.Error("wrong keys")
	}
	for _, send := range []func() error{
		func() error { return a.SendMessage(5, []byte("x")) },
		func() error { return a.Dribble(a.Egress.Seal([]byte("\x05x")), nil) },
		func() error { return a.Send(a.Egress.Seal([]byte("\x05x")), 1, 20, 40) },
		func() error { return a.SendFrame(MakeHeader(2, []byte{0xC0}), []byte("\x05x")) },
	} {
		if err := send(); err != nil {
			t.Fatal(err)
		}
		if f, err := b.ReadFrame(); err != nil || string(f.Data) != "\x05x" {
			t.Fatalf("%v, %v", f, err)
		}
	}
	a.Reset()
	if _, err := b.ReadFrame(); err == nil {
		t.Error("no error after a reset")
	}
}

func TestConnsDoWhatTheySay(t *testing.T) {
	text := []byte("0123456789")
	read := func(c net.Conn) (pieces []string, err error) {
		for {
			p := make([]byte, 100)
			n, err := c.Read(p)
			if n > 0 {
				pieces = append(pieces, string(p[:n]))
			}
			if err != nil && err != Timeout {
				return pieces, err
			}
		}
	}
	fault := errors.New("fault")
	for _, tc := range []struct {
		name   string
		conn   net.Conn
		pieces []string
		err    error
	}{
		{"script", NewScript(text), []string{"0123456789"}, io.EOF},
		{"one byte", OneByte(NewScript(text[:3])), []string{"0", "1", "2"}, io.EOF},
		{"split", SplitAt(NewScript(text), 4), []string{"0123", "456789"}, io.EOF},
		{"damage", Damage(SplitAt(NewScript(text), 4), 5, 1), []string{"0123", "446789"}, io.EOF},
		{"fail", FailRead(NewScript(text), 4, fault, false), []string{"0123"}, fault},
		{"fail together", FailRead(NewScript(text), 4, fault, true), []string{"0123"}, fault},
		{"timeout", TimeoutAt(NewScript(text), 4, 2), []string{"0123", "456789"}, io.EOF},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pieces, err := read(tc.conn)
			if err != tc.err || len(pieces) != len(tc.pieces) {
				t.Fatalf("%q, %v", pieces, err)
			}
			for i := range pieces {
				if pieces[i] != tc.pieces[i] {
					t.Errorf("%q, want %q", pieces, tc.pieces)
				}
			}
		})
	}
	for _, want := range []error{nil, fault} {
		script := NewScript(nil)
		c := ShortWrite(script, 14, want)
		if n, err := c.Write(text); n != 10 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := c.Write(text); n != 4 || err != want {
			t.Fatal(n, err)
		}
		if n, err := c.Write(text); n != 0 || err != want {
			t.Fatal(n, err)
		}
		if got := script.Written(); string(got) != "01234567890123" {
			t.Errorf("%q went through", got)
		}
	}
}

func TestGate(t *testing.T) {
	script := NewScript(nil)
	gate := NewGate(script)
	done := make(chan error)
	write := func() {
		_, err := gate.Write([]byte("abc"))
		done <- err
	}
	go write()
	if n := gate.Entered(); n != 3 || len(script.Written()) != 0 {
		t.Fatalf("a Write of %d bytes went through", n)
	}
	gate.Pass()
	if err := <-done; err != nil || string(script.Written()) != "abc" {
		t.Fatal(err)
	}
	go write()
	gate.Entered()
	gate.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
}
