package handshake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"testing"
	"testing/iotest"
)

// stepLog records what the driver says.
type stepLog []string

func (l *stepLog) steps() Steps {
	return Steps{
		Received: func(step string, size int) error {
			*l = append(*l, fmt.Sprint("received ", step, " ", size))
			return nil
		},
		Sending: func(step string, size int) { *l = append(*l, fmt.Sprint("sending ", step, " ", size)) },
		Sent:    func(step string, size int) { *l = append(*l, fmt.Sprint("sent ", step, " ", size)) },
	}
}

// TestSteps: both ends are told of both packets, with their sizes, however they arrive.
func TestSteps(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	for name, split := range map[string]func(io.Reader) io.Reader{
		"whole":  func(r io.Reader) io.Reader { return r },
		"bytes":  iotest.OneByteReader,
		"halves": iotest.HalfReader,
	} {
		c1, c2 := net.Pipe()
		var logI, logR stepLog
		var auth, ack bytes.Buffer
		secrets := make(chan Secrets, 1)
		go func() {
			rw := readWriter{io.TeeReader(split(c2), &auth), c2}
			s, err := logR.steps().Respond(t.Context(), rw, b.PrivateKey, nil, nil)
			if err != nil {
				c2.Close()
			}
			secrets <- s
		}()
		rw := readWriter{io.TeeReader(split(c1), &ack), c1}
		si := must(logI.steps().Initiate(t.Context(), rw, a.PrivateKey, &b.PublicKey, nil))(t)
		checkAgree(t, si, <-secrets)
		nAuth, nAck := auth.Len(), ack.Len()
		wantI := []string{fmt.Sprint("sending auth ", nAuth), fmt.Sprint("sent auth ", nAuth), fmt.Sprint("received ack ", nAck)}
		wantR := []string{fmt.Sprint("received auth ", nAuth), fmt.Sprint("sending ack ", nAck), fmt.Sprint("sent ack ", nAck)}
		if !slices.Equal(logI, wantI) {
			t.Errorf("%s: initiator %q, want %q", name, logI, wantI)
		}
		if !slices.Equal(logR, wantR) {
			t.Errorf("%s: recipient %q, want %q", name, logR, wantR)
		}
	}
}

type readWriter struct {
	io.Reader
	io.Writer
}

// TestStepsOfFailures: a packet that does not arrive or does not leave whole is not reported as one
// that did.
func TestStepsOfFailures(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	auth := must(newInitiatorFor(t, a, b).WriteAuth(nil))(t)
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		rw   io.ReadWriter
		want stepLog
	}{
		"nothing arrives":      {newScript(nil), nil},
		"only the size":        {newScript(auth[:2]), nil},
		"all but a byte":       {newScript(auth[:len(auth)-1]), nil},
		"a size out of range":  {newScript([]byte{0xff, 0xff, 1, 2, 3}), nil},
		"a damaged packet":     {newScript(damaged(auth)), stepLog{fmt.Sprint("received auth ", len(auth))}},
		"ack is not taken":     {failingWriter{bytes.NewReader(auth), broken}, stepLog{fmt.Sprint("received auth ", len(auth)), "sending ack"}},
		"ack is taken in part": {shortWriter{newScript(auth)}, stepLog{fmt.Sprint("received auth ", len(auth)), "sending ack"}},
	} {
		var log stepLog
		if _, err := log.steps().Respond(t.Context(), tt.rw, b.PrivateKey, nil, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
		for i := range log { // how long ack is does not matter here
			if i < len(tt.want) && tt.want[i] == "sending ack" && bytes.HasPrefix([]byte(log[i]), []byte("sending ack ")) {
				log[i] = "sending ack"
			}
		}
		if !slices.Equal(log, tt.want) {
			t.Errorf("%s: %q, want %q", name, log, tt.want)
		}
	}
}

func damaged(packet []byte) []byte {
	packet = bytes.Clone(packet)
	packet[len(packet)-1] ^= 1
	return packet
}

// shortWriter takes half of what it is given, and says so.
type shortWriter struct{ *script }

func (w shortWriter) Write(b []byte) (int, error) { return w.script.Write(b[:len(b)/2]) }

// TestReceivedEndsHandshake: an error of Received ends the handshake before anything is computed,
// without an answer.
func TestReceivedEndsHandshake(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	auth := must(newInitiatorFor(t, a, b).WriteAuth(nil))(t)
	busy := errors.New("busy")
	mults := countMults(t)
	rw := newScript(auth)
	steps := Steps{Received: func(string, int) error { return busy }}
	s, err := steps.Respond(t.Context(), rw, b.PrivateKey, nil, nil)
	refused(t, "Received fails", err, busy)
	var e *Error
	if !errors.As(err, &e) || e.Role != RoleRecipient || e.Step != StepAuth {
		t.Errorf("error %v", err)
	}
	if *mults != 0 || rw.calls != 0 || !reflect.DeepEqual(s, Secrets{}) {
		t.Errorf("%d multiplications and %d packets, secrets: %v", *mults, rw.calls, len(s.AES) > 0)
	}

	// A callback that waits is to look at the context. Its error then is the context's.
	ctx, cancel := context.WithCancel(t.Context())
	steps.Received = func(string, int) error {
		cancel()
		<-ctx.Done()
		return busy
	}
	_, err = steps.Respond(ctx, newScript(auth), b.PrivateKey, nil, nil)
	refused(t, "the context ends while Received waits", err, context.Canceled)

	// The initiator's, with ack.
	ack := seal(t, a, encode(t, ackFields(t)))
	before := 0
	steps.Received = func(step string, size int) error {
		if step != StepAck || size != len(ack) {
			t.Errorf("received %s of %d bytes", step, size)
		}
		before = *mults
		return busy
	}
	_, err = steps.Initiate(t.Context(), newScript(ack), a.PrivateKey, &b.PublicKey, nil)
	refused(t, "Received fails at the initiator", err, busy)
	if *mults != before {
		t.Errorf("%d multiplications behind Received", *mults-before)
	}
}
