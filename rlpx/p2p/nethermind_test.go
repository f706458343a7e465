package p2p

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/ethereum/go-ethereum/rlp"
	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// nethermind is a peer with what was reported of Nethermind: it looks at header data and at every
// integer, sends frames with the header of the chunked ones that it once knew, and says Disconnect
// without compression.
type nethermind struct{ *peer }

// take receives a message and is as strict with it as that client: header data must be rlp([0, 0])
// and then zeros, the code canonical and the payload what the specification says of it.
func (p nethermind) take() (code uint64, payload []byte, err error) {
	frame, err := p.ReadFrame()
	if err != nil {
		return 0, nil, err
	}
	if want := append([]byte{0xc2, 0x80, 0x80}, make([]byte, 10)...); !bytes.Equal(frame.Header[3:], want) {
		return 0, nil, fmt.Errorf("header data %x", frame.Header[3:])
	}
	code, payload, err = rlp.SplitUint64(frame.Data) // which refuses what is not canonical
	if err != nil {
		return 0, nil, err
	}
	if code == HelloCode {
		var hello struct {
			Version uint64
			Name    string
			Caps    []struct {
				Name    string
				Version uint64
			}
			ListenPort uint64
			ID         [IDLength]byte
		}
		return code, payload, rlp.DecodeBytes(payload, &hello)
	}
	if p.snappy {
		if payload, err = snappy.Decode(nil, payload); err != nil {
			return 0, nil, err
		}
	}
	switch code {
	case DisconnectCode:
		var reasons []uint64
		err = rlp.DecodeBytes(payload, &reasons)
		if err == nil && len(reasons) != 1 {
			err = fmt.Errorf("Disconnect %x", payload)
		}
	case PingCode, PongCode:
		if !bytes.Equal(payload, []byte{0xc0}) {
			err = fmt.Errorf("code %d, payload %x", code, payload)
		}
	}
	return code, payload, err
}

func (p nethermind) mustTake(code uint64) []byte {
	p.t.Helper()
	got, payload, err := p.take()
	if err != nil || got != code {
		p.t.Fatalf("got code %#x, %v, want %#x", got, err, code)
	}
	return payload
}

// say sends a message in a frame with the header of a chunked one.
func (p nethermind) say(code uint64, payload []byte, headerData ...byte) error {
	data := rlpxtest.Data(code, p.wire(payload))
	return p.SendFrame(rlpxtest.MakeHeader(len(data), headerData), data)
}

// Everything that we send passes the strict reader, and everything that it sends is understood, its
// raw Disconnect too, whenever that comes.
func TestCase_I3_Nethermind(t *testing.T) {
	caps := Capabilities{{Cap: Cap{"aaa", 1}, Length: 4}, {Cap: Cap{"eth", 68}, Length: 17}, {Cap: Cap{"wide", 1}, Length: 300}}
	for _, end := range []struct {
		name string
		data []byte // the peer's Disconnect as frame data; nil for one of ours
		want DiscReason
	}{
		{"raw list", []byte{0x01, 0xc1, 0x04}, DiscTooManyPeers},
		{"raw integer", []byte{0x01, 0x04}, DiscTooManyPeers},
		{"raw list of zero", []byte{0x01, 0xc1, 0x80}, DiscRequested},
		{"ours", nil, DiscUselessPeer},
	} {
		for _, atOnce := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/atOnce=%v", end.name, atOnce), func(t *testing.T) {
				onNetworks(t, func(t *testing.T, n network) {
					conn, raw := n.peer(t, nil)
					p := nethermind{raw}
					type result struct {
						s   *Session
						err error
					}
					results := make(chan result, 1)
					go func() {
						s, err := NewSession(t.Context(), conn, &SessionConfig{Name: "us", Capabilities: caps})
						results <- result{s, err}
					}()
					p.mustTake(HelloCode)
					p.say(HelloCode, p.hello(5, caps.Caps()...), 0xc2, 0x80, 0x80)
					p.snappy = true
					if atOnce && end.data != nil {
						p.SendData(end.data)
						r := <-results
						if r.err == nil {
							wantDone(t, r.s, &DisconnectError{end.want, true})
							return
						}
						wantErr(t, r.err, &DisconnectError{end.want, true})
						return
					}
					r := <-results
					if r.err != nil {
						t.Fatal(r.err)
					}
					s := r.s
					defer s.Close()
					if !atOnce {
						go p.say(PingCode, []byte{0xc0}, 0xc5, 0x80, 0x01, 0x82, 0x10, 0x00)
						p.mustTake(PongCode)
						pinged := make(chan error, 1)
						go func() {
							_, err := s.Ping(t.Context())
							pinged <- err
						}()
						p.mustTake(PingCode)
						p.say(PongCode, []byte{0x80}, 0xc2, 0x80, 0x01)
						if err := <-pinged; err != nil {
							t.Fatal(err)
						}
						// Codes of one and of two and three bytes, both ways.
						for _, m := range []struct {
							name     string
							id, code uint64
						}{{"aaa", 3, 0x13}, {"eth", 0, 0x14}, {"wide", 0x5a, 0x7f}, {"wide", 0x5b, 0x80}, {"wide", 0xda, 0xff}, {"wide", 0xdb, 0x100}} {
							written := make(chan error, 1)
							go func() { written <- s.Capability(m.name).Write(m.id, []byte("out")) }()
							if got := p.mustTake(m.code); string(got) != "out" {
								t.Errorf("code %#x: %q", m.code, got)
							}
							if err := <-written; err != nil {
								t.Fatal(err)
							}
							go p.say(m.code, []byte("in"), 0xc5, 0x80, 0x05, 0x82, 0x10, 0x00)
							if id, data, err := s.Capability(m.name).Read(t.Context()); err != nil || id != m.id || string(data) != "in" {
								t.Fatalf("code %#x: got id %#x, %q, %v", m.code, id, data, err)
							}
						}
					}
					if end.data != nil {
						p.SendData(end.data)
						wantDone(t, s, &DisconnectError{end.want, true})
						return
					}
					go s.Disconnect(end.want)
					if got := p.mustTake(DisconnectCode); !bytes.Equal(got, []byte{0xc1, byte(end.want)}) {
						t.Errorf("our Disconnect: %x", got)
					}
					var disconnect *DisconnectError
					<-s.Done()
					if !errors.As(s.Err(), &disconnect) || disconnect.Remote || disconnect.Reason != end.want {
						t.Errorf("ended by %v", s.Err())
					}
				})
			})
		}
	}
}
