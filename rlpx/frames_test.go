package rlpx

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"os"
	"testing"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// hexBytes is a byte string that JSON has in hex.
type hexBytes []byte

func (h *hexBytes) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// transcript is an entry of testdata/frames.json, whose provenance is in the README beside it.
type transcript struct {
	Name          string
	AESSecret     hexBytes `json:"aes_secret"`
	MACSecret     hexBytes `json:"mac_secret"`
	EgressMACSeed hexBytes `json:"egress_mac_seed"`
	Messages      []struct {
		Code   uint64
		Snappy bool
		Data   hexBytes
		Repeat *struct {
			Byte  hexBytes
			Count int
		} `json:"data_repeat"`
	}
	Wire       hexBytes
	WireSHA256 hexBytes `json:"wire_sha256"`
	WireLen    int      `json:"wire_len"`
}

func (tr *transcript) data(i int) []byte {
	m := &tr.Messages[i]
	if m.Repeat != nil {
		return bytes.Repeat(m.Repeat.Byte, m.Repeat.Count)
	}
	return m.Data
}

// secrets returns those of the writer if egress is set, else of the reader.
// The other direction is not used.
func (tr *transcript) secrets(egress bool) rlpxtest.Secrets {
	sec := rlpxtest.Secrets{AES: tr.AESSecret, MAC: tr.MACSecret, EgressMAC: rlpxtest.Keccak(nil), IngressMAC: rlpxtest.Keccak(tr.EgressMACSeed)}
	if egress {
		sec.EgressMAC, sec.IngressMAC = sec.IngressMAC, sec.EgressMAC
	}
	return sec
}

func transcripts(t testing.TB) []transcript {
	t.Helper()
	text, err := os.ReadFile("testdata/frames.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []transcript
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no transcripts")
	}
	for i := range all {
		tr := &all[i]
		if sum := sha256.Sum256(tr.Wire); !bytes.Equal(sum[:], tr.WireSHA256) || len(tr.Wire) != tr.WireLen || len(tr.Messages) == 0 {
			t.Fatalf("%s is damaged", tr.Name)
		}
	}
	return all
}

// The oracle of these tests agrees with go-ethereum.
func TestGoldenFramesOracle(t *testing.T) {
	for _, tr := range transcripts(t) {
		frames, err := rlpxtest.NewSession(tr.secrets(false)).Ingress.OpenAll(tr.Wire)
		if err != nil || len(frames) != len(tr.Messages) {
			t.Fatalf("%s: %d of %d frames, %v", tr.Name, len(frames), len(tr.Messages), err)
		}
		session := rlpxtest.NewSession(tr.secrets(true))
		var wire []byte
		for i, f := range frames {
			want := tr.data(i)
			code := rlpxtest.Code(tr.Messages[i].Code)
			payload, ok := bytes.CutPrefix(f.Data, code)
			if !ok {
				t.Fatalf("%s: message %d: frame data %x", tr.Name, i, f.Data)
			}
			if tr.Messages[i].Snappy {
				if payload, err = snappy.Decode(nil, payload); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(payload, want) {
				t.Fatalf("%s: message %d: %x, want %x", tr.Name, i, payload, want)
			}
			wire = append(wire, session.Egress.Seal(f.Data)...)
		}
		if !bytes.Equal(wire, tr.Wire) {
			t.Errorf("%s: the oracle seals other bytes", tr.Name)
		}
	}
}

func TestGoldenFramesWritten(t *testing.T) {
	identical := 0
	for _, tr := range transcripts(t) {
		script := rlpxtest.NewScript(nil)
		conn := initConn(script, nil, tr.secrets(true))
		var wire []byte
		for i, m := range tr.Messages {
			if m.Snappy {
				break // from here on encoders may differ
			}
			if n, err := conn.Write(m.Code, tr.data(i)); err != nil || int(n) != len(tr.data(i)) {
				t.Fatalf("%s: message %d: %d, %v", tr.Name, i, n, err)
			}
			frame := script.Written()
			wire = append(wire, frame...)
			if !bytes.HasPrefix(tr.Wire, wire) {
				t.Fatalf("%s: message %d of %d bytes: wrote\n%x", tr.Name, i, len(tr.data(i)), frame)
			}
			identical++
		}
		if !tr.Messages[len(tr.Messages)-1].Snappy && len(wire) != len(tr.Wire) {
			t.Errorf("%s: %d bytes written, want %d", tr.Name, len(wire), len(tr.Wire))
		}
	}
	if identical < 30 {
		t.Errorf("only %d frames were compared", identical)
	}
}

// Compressed frames of ours need not be go-ethereum's, but must mean the same.
func TestGoldenFramesWrittenCompressed(t *testing.T) {
	for _, tr := range transcripts(t) {
		script := rlpxtest.NewScript(nil)
		conn := initConn(script, nil, tr.secrets(true))
		for i, m := range tr.Messages {
			conn.SetSnappy(m.Snappy)
			if _, err := conn.Write(m.Code, tr.data(i)); err != nil {
				t.Fatal(err)
			}
		}
		reader := initConn(rlpxtest.NewScript(script.Written()), nil, tr.secrets(false))
		for i, m := range tr.Messages {
			reader.SetSnappy(m.Snappy)
			wantRead(t, reader, m.Code, tr.data(i))
		}
		wantClean(t, reader)
	}
}

func TestGoldenFramesRead(t *testing.T) {
	for _, tr := range transcripts(t) {
		deliver := map[string]func(net.Conn) net.Conn{
			"large reads":     func(c net.Conn) net.Conn { return c },
			"one byte a read": rlpxtest.OneByte,
			"seven bytes a read": func(c net.Conn) net.Conn {
				return &rlpxtest.Filter{Conn: c, OnRead: func(inner net.Conn, p []byte) (int, error) { return inner.Read(p[:min(7, len(p))]) }}
			},
		}
		for name, wrap := range deliver {
			t.Run(tr.Name+"/"+name, func(t *testing.T) {
				counting := rlpxtest.Count(wrap(rlpxtest.NewScript(tr.Wire)))
				conn := initConn(counting, nil, tr.secrets(false))
				for i, m := range tr.Messages {
					conn.SetSnappy(m.Snappy) // with the next frames buffered already
					wantRead(t, conn, m.Code, tr.data(i))
					if most := int64((len(tr.Wire) + smallBuffer - 1) / smallBuffer); name == "large reads" && counting.Reads.Load() > most {
						t.Fatalf("message %d: %d reads, want at most %d", i, counting.Reads.Load(), most)
					}
				}
				wantClean(t, conn)
			})
		}
	}
}
