package handshake

import (
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/go-rlpx/transport/internal/rlpxtest/secrecy"
)

// aliases is a source of randomness that keeps where it wrote the nonce and the private keys: the
// memory of the state.
type aliases struct {
	r    io.Reader
	read [][]byte
}

func (a *aliases) Read(b []byte) (int, error) {
	n, err := a.r.Read(b)
	if len(b) == 32 {
		a.read = append(a.read, b)
	}
	return n, err
}

// left counts the values that are not zero.
func (a *aliases) left() (n int) {
	for _, b := range a.read {
		if !bytes.Equal(b, make([]byte, len(b))) {
			n++
		}
	}
	return n
}

// watched calls write before it takes a packet.
type watched struct {
	*script
	write func() error
}

func (w watched) Write(b []byte) (int, error) {
	if err := w.write(); err != nil {
		return 0, err
	}
	return w.script.Write(b)
}

// The recipient's multiplications: the ECIES key of auth, the static shared secret, the ECIES key
// of ack, and the ephemeral shared secret.
const (
	multsBeforeAck = 3
	multsOfAll     = 4
)

// TestAckIsSentFirst: the recipient computes the ephemeral shared secret when ack is on its way, so
// that both ends compute at the same time; and not at all if ack does not get through.
func TestAckIsSentFirst(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	auth := must(newInitiatorFor(t, a, b).WriteAuth(nil))(t)
	for _, broken := range []error{nil, errors.New("broken")} {
		mults := countMults(t)
		var before int
		random := &aliases{r: seeded(1)}
		rw := watched{newScript(auth), func() error { before = *mults; return broken }}
		s, err := Respond(t.Context(), rw, b.PrivateKey, random, nil)
		want := multsOfAll
		if broken != nil {
			refused(t, "ack that is not taken", err, broken)
			want = multsBeforeAck
		} else if err != nil {
			t.Fatal(err)
		}
		if before != multsBeforeAck || *mults != want {
			t.Errorf("%v: %d multiplications before ack, %d in all, want %d and %d", broken, before, *mults, multsBeforeAck, want)
		}
		if (broken == nil) != (len(s.AES) > 0) {
			t.Errorf("%v: secrets %v", broken, len(s.AES) > 0)
		}
		if len(random.read) != 3 || random.left() != 0 {
			t.Errorf("%v: %d of %d secrets are left", broken, random.left(), len(random.read))
		}
	}
}

// failLastMult has the last multiplication of a recipient fail while the test runs.
func failLastMult(t *testing.T) (broken error) {
	broken = errors.New("broken curve")
	mults := 0
	testHookMult = func() error {
		if mults++; mults == multsOfAll {
			return broken
		}
		return nil
	}
	t.Cleanup(func() { testHookMult = nil })
	return broken
}

// TestFailureAfterAck: what fails when ack is sent is an error as any other, and leaves no secret.
func TestFailureAfterAck(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	auth := must(newInitiatorFor(t, a, b).WriteAuth(nil))(t)

	t.Run("Respond", func(t *testing.T) {
		broken := failLastMult(t)
		random := &aliases{r: seeded(1)}
		rw := newScript(auth)
		s, err := Respond(t.Context(), rw, b.PrivateKey, random, nil)
		var e *Error
		if !errors.As(err, &e) || e.Role != RoleRecipient || e.Step != StepAck || !errors.Is(err, broken) {
			t.Errorf("error %v", err)
		}
		if !reflect.DeepEqual(s, Secrets{}) {
			t.Error("secrets are returned with an error")
		}
		if rw.calls != 1 {
			t.Errorf("%d packets were sent, want one", rw.calls)
		}
		if random.left() != 0 {
			t.Errorf("%d secrets are left", random.left())
		}
	})
	t.Run("context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		random := &aliases{r: seeded(1)}
		s, err := Respond(ctx, watched{newScript(auth), func() error { cancel(); return nil }}, b.PrivateKey, random, nil)
		refused(t, "a context that ends when ack is sent", err, context.Canceled)
		if !reflect.DeepEqual(s, Secrets{}) || random.left() != 0 {
			t.Error("secrets are left")
		}
	})
	t.Run("WriteAck", func(t *testing.T) {
		broken := failLastMult(t)
		random := &draws{r: seeded(1)}
		r := must(NewResponder(b.PrivateKey, random))(t)
		must(r.ReadAuth(auth))(t)
		packet, s, err := r.WriteAck([]byte("kept"))
		refused(t, "WriteAck", err, broken)
		if packet != nil || !reflect.DeepEqual(s, Secrets{}) {
			t.Error("a packet or secrets are returned with an error")
		}
		secret := map[string][]byte{"ephemeral-privkey": random.read[1], "ECIES ephemeral-privkey": random.read[3]}
		for _, found := range secrecy.Find(r, secret, notOurs) {
			t.Error(found)
		}
		if packet, s, err = r.WriteAck(nil); err != nil || len(packet) == 0 || len(s.AES) == 0 {
			t.Errorf("the second try: %v", err)
		}
	})
}
