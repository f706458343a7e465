package rlpxtest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/handshake"
)

// recordPair records a session between two raw peers, at the initiator or at the recipient, and
// returns the recorder. talk runs with the recorded end and the other.
func recordPair(t *testing.T, role Role, talk func(ours, theirs *RawPeer)) *Recorder {
	t.Helper()
	dialed, accepted, err := TCPPair()
	if err != nil {
		t.Fatal(err)
	}
	defer dialed.Close()
	defer accepted.Close()
	ourKey, theirKey := generateKey(t), generateKey(t)

	var rec *Recorder
	theirs := make(chan *RawPeer, 1)
	var conn net.Conn
	if role == Initiator {
		rec = NewRecorder(ourKey, &theirKey.PublicKey)
		conn = dialed
		go func() {
			p, err := Accept(t.Context(), accepted, theirKey)
			if err != nil {
				t.Error(err)
			}
			theirs <- p
		}()
	} else {
		rec = NewRecorder(ourKey, nil)
		conn = accepted
		go func() {
			p, err := Dial(t.Context(), dialed, theirKey, &ourKey.PublicKey)
			if err != nil {
				t.Error(err)
			}
			theirs <- p
		}()
	}
	recorded, err := rec.Conn(conn)
	if err != nil {
		t.Fatal(err)
	}
	var sec handshake.Secrets
	if role == Initiator {
		sec, err = handshake.Initiate(t.Context(), recorded, rec.Key(), &theirKey.PublicKey, rec.Rand())
	} else {
		sec, err = handshake.Respond(t.Context(), recorded, rec.Key(), rec.Rand(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	peer := <-theirs
	if peer == nil {
		t.FailNow()
	}
	talk(fromHandshake(recorded, sec), peer)
	return rec
}

func generateKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func helloPayload(t testing.TB, version uint64) []byte {
	t.Helper()
	payload, err := rlp.EncodeToBytes(&hello{Version: version, Name: "raw", Caps: []capability{{"x", 1}}, ID: make([]byte, 64)})
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

func sendTo(t *testing.T, from, to *RawPeer, code uint64, payload []byte) {
	t.Helper()
	if err := from.SendMessage(code, payload); err != nil {
		t.Fatal(err)
	}
	if _, err := to.ReadFrame(); err != nil {
		t.Fatal(err)
	}
}

func TestRecorder(t *testing.T) {
	for _, role := range []Role{Initiator, Recipient} {
		for _, tc := range []struct {
			name    string
			version uint64 // of their Hello
			reason  []byte // payload of their Disconnect
			words   string
		}{
			{"snappy", 5, snappy.Encode(nil, []byte{0xc1, 4}), "Disconnect reason 0x04, a list, compressed"},
			{"snappy, bare Disconnect", 5, []byte{8}, "Disconnect reason 0x08, a bare byte, not compressed"},
			{"no snappy", 4, []byte{0xc1, 4}, "Disconnect reason 0x04, a list, not compressed"},
			{"no snappy, no reason", 4, []byte{0xc0}, "Disconnect without a reason, not compressed"},
		} {
			t.Run(string(role)+"/"+tc.name, func(t *testing.T) {
				data := bytes.Repeat([]byte("data"), 100)
				payload := data
				if tc.version >= 5 {
					payload = snappy.Encode(nil, data)
				}
				rec := recordPair(t, role, func(ours, theirs *RawPeer) {
					sendTo(t, ours, theirs, 0, helloPayload(t, 5))
					sendTo(t, theirs, ours, 0, helloPayload(t, tc.version))
					sendTo(t, ours, theirs, 300, payload)
					sendTo(t, theirs, ours, 300, payload)
					sendTo(t, theirs, ours, 1, tc.reason)
				})
				transcript, err := rec.Transcript()
				if err != nil {
					t.Fatal(err)
				}
				transcript.Peer, transcript.Date, transcript.Command, transcript.Story = "raw 1", "today", "go test", "talk"
				text := transcript.Format()
				again, decoded, err := OpenTranscript(text)
				if err != nil {
					t.Fatalf("%v:\n%s", err, text)
				}
				if again.Cut || again.Role != role || !again.Key.Equal(rec.Key()) || decoded.Snappy != (tc.version >= 5) {
					t.Errorf("cut %v, role %v, snappy %v", again.Cut, again.Role, decoded.Snappy)
				}
				var ways []Way
				for _, m := range decoded.Messages {
					ways = append(ways, m.Way)
				}
				if !slices.Equal(ways, []Way{Out, In, Out, In, In}) {
					t.Errorf("directions %c", ways)
				}
				for _, m := range decoded.Messages[2:4] {
					if m.Code != 300 || !bytes.Equal(m.Data, data) || m.Size != len(data) || m.Wire != len(payload) {
						t.Errorf("message %v", m.Message)
					}
				}
				if words := decoded.Messages[4].Words; words != tc.words {
					t.Errorf("%q, want %q", words, tc.words)
				}
			})
		}
	}
}

// What does not fit, and what is half there, is cut off at a frame.
func TestRecorderCuts(t *testing.T) {
	t.Run("limit", func(t *testing.T) {
		sent := 0
		rec := recordPair(t, Initiator, func(ours, theirs *RawPeer) {
			sendTo(t, ours, theirs, 0, helloPayload(t, 4))
			sendTo(t, theirs, ours, 0, helloPayload(t, 4))
			for ; sent < 2*RecordLimit/5000; sent++ {
				sendTo(t, ours, theirs, 20, make([]byte, 5000))
			}
		})
		transcript, err := rec.Transcript()
		if err != nil {
			t.Fatal(err)
		}
		size := len(transcript.Bytes(Out)) + len(transcript.Bytes(In))
		if n := len(transcript.Messages); !transcript.Cut || n >= 2+sent || size > RecordLimit || size < RecordLimit-5100 {
			t.Errorf("cut %v, %d messages, %d bytes", transcript.Cut, n, size)
		}
	})
	t.Run("half a frame", func(t *testing.T) {
		rec := recordPair(t, Recipient, func(ours, theirs *RawPeer) {
			sendTo(t, theirs, ours, 0, helloPayload(t, 4))
			frame := theirs.Egress.Seal(Data(20, make([]byte, 100)))
			if err := theirs.Send(frame[:50]); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(ours.Conn, make([]byte, 50)); err != nil {
				t.Fatal(err)
			}
		})
		transcript, err := rec.Transcript()
		if err != nil {
			t.Fatal(err)
		}
		if !transcript.Cut || len(transcript.Messages) != 1 {
			t.Errorf("cut %v, %d messages", transcript.Cut, len(transcript.Messages))
		}
	})
	t.Run("half a handshake", func(t *testing.T) {
		rec := NewRecorder(generateKey(t), nil)
		conn, err := rec.Conn(NewScript([]byte{1, 0, 4}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(conn); err != nil {
			t.Fatal(err)
		}
		if _, err := rec.Transcript(); err == nil {
			t.Error("a transcript without a handshake")
		}
	})
	t.Run("short write", func(t *testing.T) {
		rec := NewRecorder(generateKey(t), nil)
		conn, err := rec.Conn(ShortWrite(NewScript(nil), 3, io.ErrClosedPipe))
		if err != nil {
			t.Fatal(err)
		}
		conn.Write([]byte("12345"))
		if got := rec.snapshot().Bytes(Out); string(got) != "123" {
			t.Errorf("%q was recorded", got)
		}
	})
}

// A recorder serves one connection, whichever way it comes.
func TestRecorderTakesOneConnection(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	rec := NewRecorder(generateKey(t), nil)
	l := rec.Listener(inner)
	accepted := make(chan error, 2)
	go func() {
		for range 2 {
			conn, err := l.Accept()
			if err == nil {
				defer conn.Close()
			}
			accepted <- err
		}
	}()
	for i := range 2 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if i == 0 {
			if err := <-accepted; err != nil {
				t.Fatal(err)
			}
		} else if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("the second connection says something")
		}
	}
	if _, err := rec.DialContext(context.Background(), "tcp", inner.Addr().String()); err == nil {
		t.Error("dialed")
	}
	l.Close()
	if err := <-accepted; err == nil {
		t.Error("the second connection was accepted")
	}
}

// FuzzTranscript: what is accepted is in the one form, and decoding it gives an error or whole
// frames.
func FuzzTranscript(f *testing.F) {
	const file = "../../rlpx/testdata/transcripts/devp2p-it-dials-hello5.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(strings.Replace(string(text), "end: of the session", "end: cut at a frame", 1)))
	f.Fuzz(func(t *testing.T, text []byte) {
		transcript, err := ParseTranscript(text)
		if err != nil {
			return
		}
		if !bytes.Equal(transcript.Format(), text) {
			t.Fatal("another form")
		}
		decoded, err := transcript.Decode()
		if err != nil {
			return
		}
		for _, way := range []Way{Out, In} {
			end := len(decoded.Handshake(transcript, way))
			for _, m := range decoded.Of(way) {
				end = m.End
			}
			if end != len(transcript.Bytes(way)) {
				t.Fatalf("%d of %d bytes decoded", end, len(transcript.Bytes(way)))
			}
		}
	})
}
