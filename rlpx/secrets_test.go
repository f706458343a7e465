package rlpx

import (
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/ecdsa"
	"encoding/hex"
	"errors"
	"hash"
	"math/rand/v2"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/handshake"
	"github.com/go-rlpx/transport/internal/bufpool"
	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/internal/rlpxtest/secrecy"
)

// keyLog collects the secrets of sessions, by the names of the specification.
type keyLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *keyLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(p))
	return len(p), nil
}

func (l *keyLog) secrets(t *testing.T) map[string][]byte {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	fields := strings.Fields(l.lines[0])
	secrets := map[string][]byte{}
	for i, name := range []string{"aes-secret", "mac-secret", "initiator-nonce", "recipient-nonce"} {
		b, err := hex.DecodeString(fields[2+i])
		if err != nil || len(b) != 32 {
			t.Fatalf("key log line %q", l.lines[0])
		}
		secrets[name] = b
	}
	return secrets
}

// loggedPair returns both ends of a connection, the secrets of its session, and the static keys
// among them.
func loggedPair(t *testing.T) (a, b *Conn, secrets map[string][]byte) {
	t.Helper()
	keyA, keyB := newKey(t), newKey(t)
	log := new(keyLog)
	netA, netB := net.Pipe()
	a = Client(netA, &keyB.PublicKey, &Config{Key: keyA, KeyLogWriter: log})
	b = Server(netB, &Config{Key: keyB})
	t.Cleanup(func() { a.Close(); b.Close() })
	done := make(chan error, 1)
	go func() {
		_, err := b.HandshakeContext(context.Background())
		done <- err
	}()
	if _, err := a.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	secrets = log.secrets(t)
	secrets["static-privkey of A"] = crypto.FromECDSA(keyA)
	secrets["static-privkey of B"] = crypto.FromECDSA(keyB)
	return a, b, secrets
}

// What the handshake handed over is wiped once the session has it, and the session holds the
// secrets nowhere but in its ciphers' key schedules and MAC states. The caller's own secrets are
// left alone.
func TestSecretsAreWiped(t *testing.T) {
	var mu sync.Mutex
	var wiped []*handshake.Secrets
	testHookWiped = func(sec *handshake.Secrets) {
		mu.Lock()
		defer mu.Unlock()
		wiped = append(wiped, sec)
	}
	defer func() { testHookWiped = nil }()
	a, b, secrets := loggedPair(t)
	if len(wiped) != 2 {
		t.Fatalf("%d of 2 ends wiped their secrets", len(wiped))
	}
	empty := crypto.Keccak256()
	for _, sec := range wiped {
		if len(sec.AES) != 32 || len(sec.MAC) != 32 {
			t.Fatal("nothing was there to wipe")
		}
		for _, found := range secrecy.Find(sec, secrets, nil) {
			t.Error("handed over:", found)
		}
		for _, h := range []hash.Hash{sec.EgressMAC, sec.IngressMAC} {
			if !bytes.Equal(h.Sum(nil), empty) {
				t.Error("a MAC state is left")
			}
		}
	}
	exchange(t, a, b, 1, []byte("hello"))
	exchange(t, b, a, 2, pattern(100_000, 1))
	for _, c := range []*Conn{a, b} {
		found := secrecy.Find(c, secrets, func(typ reflect.Type) bool {
			return typ == reflect.TypeFor[cipher.Stream]() || typ == reflect.TypeFor[cipher.Block]() ||
				typ == reflect.TypeFor[*Config]() || typ == reflect.TypeFor[net.Conn]()
		})
		for _, f := range found {
			t.Error("held:", f)
		}
	}

	sec, _ := rlpxtest.NewSecrets(1)
	keys := append(bytes.Clone(sec.AES), sec.MAC...)
	initConn(rlpxtest.Discard(), nil, sec)
	if !bytes.Equal(append(bytes.Clone(sec.AES), sec.MAC...), keys) {
		t.Error("InitWithSecrets changes the caller's keys")
	}
}

// dirtyBuffers returns what the pool lends now that is not zero.
func dirtyBuffers(marker []byte) (dirty int) {
	var held []bufpool.Buffer
	for size := 1 << 10; size <= bufpool.MaxSize; size = bufpool.ClassSize(size + 1) {
		for range max(2, min(8, 8<<20/size)) {
			b := bufpool.Get(size)
			if bytes.Contains(b.B, marker) {
				dirty++
			}
			held = append(held, b)
		}
		if size == bufpool.MaxSize {
			break
		}
	}
	for i := range held {
		held[i].Release(0)
	}
	return dirty
}

// No buffer goes back to the pool with plaintext in it: not with a message that was read or
// written, a damaged or a refused one, half a frame, or the rest that the compressor leaves behind
// its block.
func TestPooledBuffersHoldNoPlaintext(t *testing.T) {
	marker := []byte("this must not be seen by others!")
	text := bytes.Repeat(marker, 100_000/len(marker))
	mixed := append(rlpxtest.Random(rand.New(rand.NewPCG(1, 1)), 5000), marker...) // a last literal for the compressor
	large := bytes.Repeat(marker, (3<<20)/len(marker))
	messages := [][]byte{marker, text[:1000], mixed, text, large}
	if n := dirtyBuffers(marker); n != 0 {
		t.Fatalf("%d buffers before", n)
	}
	check := func(what string) {
		t.Helper()
		if n := dirtyBuffers(marker); n != 0 {
			t.Errorf("%s: %d buffers in the pool hold plaintext", what, n)
		}
	}
	for _, snappyOn := range []bool{false, true} {
		var wire []byte
		sa, sb := rlpxtest.NewSecrets(8)
		script := rlpxtest.NewScript(nil)
		w := initConn(script, nil, sa)
		w.SetSnappy(snappyOn)
		for _, m := range messages {
			w.Write(1, m)
			w.WriteBatch([]Message{{Code: 2, Data: m}, {Code: 3, Data: m}})
			Broadcast([]*Conn{w}, 4, m)
			w.WritePayload(5, Compress(m))
		}
		w.Close()
		check("writing")
		wire = append(wire, script.Written()...)

		for _, tc := range []struct {
			name string
			wrap func(net.Conn) net.Conn
			cfg  *Config
		}{
			{"reading", nil, nil},
			{"cut", func(c net.Conn) net.Conn { return rlpxtest.FailRead(c, len(wire)*9/10, os.ErrClosed, false) }, nil},
			{"damaged", func(c net.Conn) net.Conn { return rlpxtest.Damage(c, len(wire)*9/10, 1) }, nil},
			{"refused", nil, &Config{MaxMessageSize: 50_000}},
		} {
			inner := net.Conn(rlpxtest.NewScript(wire))
			if tc.wrap != nil {
				inner = tc.wrap(inner)
			}
			r := initConn(inner, tc.cfg, sb)
			_, sb = rlpxtest.NewSecrets(8) // states are used up
			r.SetSnappy(snappyOn)
			read := 0
			for {
				if _, _, _, err := r.Read(); err != nil {
					break
				}
				read++
			}
			if tc.name == "reading" && read != 5*len(messages) || read == 0 {
				t.Errorf("%s: %d messages", tc.name, read)
			}
			r.Close()
			check(tc.name)
		}
		// Corrupt behind a literal.
		payload := snappy.Encode(nil, mixed)
		r, _, _ := recorded(nil, nil, sealing(rlpxtest.Data(1, payload[:len(payload)-1])))
		r.SetSnappy(true)
		if _, _, _, err := r.Read(); err == nil {
			t.Fatal("no error")
		}
		r.Read() // which takes back what the error lent
		check("corrupt")
	}
}

// No verb of package fmt shows a key or a MAC state of anything public that has one.
func TestNothingPrintsKeys(t *testing.T) {
	a, b, secrets := loggedPair(t)
	exchange(t, a, b, 1, []byte("hello"))
	for name, c := range map[string]*Conn{"A": a, "B": b} {
		for direction, state := range map[string]any{"egress": c.out.mac, "ingress": c.in.mac} {
			last := reflect.ValueOf(state).Elem().FieldByName("last")
			if last.Len() != 32 {
				t.Fatal("no digest in the MAC state")
			}
			digest := make([]byte, 32)
			for i := range digest {
				digest[i] = byte(last.Index(i).Uint())
			}
			secrets[direction+"-mac of "+name] = digest
		}
	}
	hashes := rlpxtest.Keccak([]byte("seed"))
	sec := Secrets{AES: secrets["aes-secret"], MAC: secrets["mac-secret"], EgressMAC: hashes, IngressMAC: hashes}
	key, err := crypto.ToECDSA(secrets["static-privkey of A"])
	if err != nil {
		t.Fatal(err)
	}
	cfg := &Config{Key: key, VerifyPeer: func(*ecdsa.PublicKey) error { return nil }}
	l := mustListen(t, cfg)
	_, dialErr := (&Dialer{Config: cfg}).Dial(t.Context(), "tcp", l.Addr().String(), &newKey(t).PublicKey)
	_, keyErr := Dial(t.Context(), "tcp", "127.0.0.1:1", nil, cfg)
	damaged, _, _ := recorded(nil, func(c net.Conn) net.Conn { return rlpxtest.Damage(c, 20, 1) }, sealing([]byte{1}))
	_, _, _, macErr := damaged.Read()
	var failed *handshake.Error
	if !errors.As(dialErr, &failed) || keyErr == nil || !errors.Is(macErr, ErrAuthentication) {
		t.Fatal(dialErr, keyErr, macErr)
	}
	if len(secrecy.Leaks(secrecy.Formats(secrets)["%x"], secrets)) == 0 || len(secrecy.Leaks(secrecy.Formats(struct{ K []byte }{sec.AES})["%#v"], secrets)) == 0 {
		t.Fatal("the check sees nothing")
	}
	for _, v := range []any{
		sec, &sec, []Secrets{sec}, struct{ S *Secrets }{&sec},
		a, b, []*Conn{a, b}, map[string]*Conn{"": a}, struct{ c *Conn }{a}, damaged, NewConn(a.NetConn(), nil), Client(a.NetConn(), nil, cfg),
		cfg, *cfg, []*Config{cfg}, struct{ c *Config }{cfg}, l, Dialer{Config: cfg}, &Dialer{Config: cfg},
		a.ConnectionState(), b.ConnectionState(), a.in.mac, struct{ M any }{a.out.mac},
		dialErr, keyErr, macErr, failed, &SizeError{}, &PayloadError{Payload: []byte("payload")}, Compress([]byte("data")),
	} {
		for verb, text := range secrecy.Formats(v) {
			if leaks := secrecy.Leaks(text, secrets); len(leaks) > 0 {
				t.Errorf("%s of %T shows %s", verb, v, strings.Join(leaks, ", "))
			}
		}
	}
	for _, c := range []*Conn{a, damaged} {
		if text := secrecy.Formats(c)["%v"]; !strings.Contains(text, c.RemoteAddr().String()) || len(text) > 200 {
			t.Errorf("a connection prints as %q", text)
		}
	}
}
