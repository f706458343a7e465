package handshake

import (
	"bytes"
	"errors"
	"testing"
)

// fuzzRead gives one packet to a new state by each way in and checks what holds for any packet.
func fuzzRead(t *testing.T, rd reader, packet []byte) {
	given := bytes.Clone(packet)
	err := rd.start(t)(given)
	if !bytes.Equal(given, packet) {
		t.Fatal("the packet is modified")
	}
	var e *Error
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("error %T", err)
	}
	// The driver says the same, and reads no more than the packet.
	s := newScript(append(bytes.Clone(packet), 0xee))
	got, derr := rd.drive(t, s)
	if derr == nil {
		if n := len(packet) + 1 - s.in.Len(); n < len(packet) { // the state takes one packet and nothing behind it
			if err == nil {
				t.Fatalf("the state accepts %d bytes behind the packet", len(packet)-n)
			}
			err = rd.start(t)(packet[:n])
		}
		if err != nil || s.in.Len() < 1 || len(got.AES) != 32 || len(got.MAC) != 32 || got.Remote == nil ||
			len(got.EgressMAC.Sum(nil)) != 32 || len(got.IngressMAC.Sum(nil)) != 32 {
			t.Fatalf("driver accepts, the state says %v; secrets %+v", err, got)
		}
	}
	if derr != nil && err == nil {
		t.Fatalf("the state accepts, the driver says %v", derr)
	}
	if rd.name == "auth" && derr != nil && s.out.Len() != 0 {
		t.Fatalf("%d bytes written to a peer that is refused", s.out.Len())
	}
}

func fuzz(f *testing.F, name string) {
	v := loadEIP8(f)
	a, b := keyFromHex(f, v.StaticA), keyFromHex(f, v.StaticB)
	var rd reader
	for _, r := range readersFor(f, a, b) {
		if r.name == name {
			rd = r
		}
	}
	vectors := v.Auth
	if name == "ack" {
		vectors = v.Ack
	}
	for _, p := range vectors {
		packet := unhex(f, p.Packet)
		f.Add(packet, false)
		f.Add(unseal(f, rd.key, packet), true)
	}
	f.Add(rd.valid, true)
	f.Add([]byte{}, true)
	f.Add([]byte{0xc0}, true)
	f.Add([]byte{0, 113}, false)
	f.Add([]byte("GET / HTTP/1.1\r\n"), false)

	good := seal(f, rd.key, rd.valid)
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		packet := data
		if sealed { // data is the plaintext of a packet that decrypts
			if len(data) > maxPacketSize-eciesOverhead {
				return
			}
			packet = seal(t, rd.key, data)
		}
		fuzzRead(t, rd, packet)
		// A state that refused the packet still takes a good one.
		read := rd.start(t)
		if read(packet) != nil {
			if err := read(good); err != nil {
				t.Fatalf("good packet after a bad one: %v", err)
			}
		}
	})
}

// FuzzReadAuth and FuzzReadAck: arbitrary packets, and arbitrary plaintexts in packets that
// decrypt.
func FuzzReadAuth(f *testing.F) { fuzz(f, "auth") }
func FuzzReadAck(f *testing.F)  { fuzz(f, "ack") }
