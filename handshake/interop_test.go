package handshake

import (
	"bytes"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"

	gethrlpx "github.com/ethereum/go-ethereum/p2p/rlpx"
)

// gethHandshake runs go-ethereum's handshake on a goroutine: as the initiator if remote is not nil.
func gethHandshake(c net.Conn, key testKey, remote *testKey) (*gethrlpx.Conn, <-chan error) {
	conn := gethrlpx.NewConn(c, nil)
	if remote != nil {
		conn = gethrlpx.NewConn(c, &remote.PublicKey)
	}
	errc := make(chan error, 1)
	go func() {
		_, err := conn.Handshake(key.PrivateKey)
		errc <- err
	}()
	return conn, errc
}

// gethOver is go-ethereum's framing over c with secrets that we derived.
func gethOver(c net.Conn, s Secrets) *gethrlpx.Conn {
	conn := gethrlpx.NewConn(c, nil)
	conn.InitWithSecrets(gethrlpx.Secrets{AES: s.AES, MAC: s.MAC, EgressMAC: s.EgressMAC, IngressMAC: s.IngressMAC})
	return conn
}

// exchange sends messages both ways. They only verify if AES key, MAC key and both MAC states
// agree.
func exchange(t *testing.T, a, b *gethrlpx.Conn) {
	t.Helper()
	for n := range 3 {
		for _, pair := range [][2]*gethrlpx.Conn{{a, b}, {b, a}} {
			want := bytes.Repeat([]byte{byte(n)}, 1+100*n)
			errc := make(chan error, 1)
			go func() {
				_, err := pair[0].Write(uint64(n), want)
				errc <- err
			}()
			code, got, _, err := pair[1].Read()
			if err != nil || code != uint64(n) || !bytes.Equal(got, want) {
				t.Fatalf("message %d: code %d, %d bytes, %v", n, code, len(got), err)
			}
			if err := <-errc; err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestInteropGeth(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	t.Run("initiator", func(t *testing.T) {
		for range 20 { // paddings and leading zeros differ
			c1, c2 := net.Pipe()
			geth, errc := gethHandshake(c2, b, nil)
			s, err := Initiate(t.Context(), c1, a.PrivateKey, &b.PublicKey, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := <-errc; err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(s.Remote, &b.PublicKey) {
				t.Error("wrong remote key")
			}
			exchange(t, gethOver(c1, s), geth)
		}
	})
	t.Run("recipient", func(t *testing.T) {
		for range 20 {
			c1, c2 := net.Pipe()
			geth, errc := gethHandshake(c1, a, &b)
			s, err := Respond(t.Context(), c2, b.PrivateKey, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := <-errc; err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(s.Remote, &a.PublicKey) {
				t.Error("wrong remote key")
			}
			exchange(t, geth, gethOver(c2, s))
		}
	})
}

// TestCase_H12_MACSeeds: the MAC states cover the whole packet, whatever its padding, as an
// independent implementation has it; a state seeded without the size does not meet ours.
func TestCase_H12_MACSeeds(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	for _, padding := range []int{0, 1, 100, 200, 300, maxPacketSize - eciesOverhead - authSize} {
		t.Run(fmt.Sprint("auth padding ", padding), func(t *testing.T) {
			c1, c2 := net.Pipe()
			geth, errc := gethHandshake(c2, b, nil)
			i := newInitiatorFor(t, a, b)
			must(i.WriteAuth(nil))(t)
			// The same message with the padding wanted.
			message := append(unseal(t, b, i.auth)[:authSize:authSize], make([]byte, padding)...)
			i.auth = sealOurs(t, b, message)
			d := driver{ctx: t.Context(), rw: c1}
			if err := d.write(i.auth); err != nil {
				t.Fatal(err)
			}
			ack, _, err := d.read()
			if err != nil {
				t.Fatal(err)
			}
			s := must(i.ReadAck(ack))(t)
			if err := <-errc; err != nil {
				t.Fatal(err)
			}
			exchange(t, gethOver(c1, s), geth)
		})
	}
	for _, padding := range []int{0, 1, 100, 200, 300, maxPacketSize - eciesOverhead - ackSize} {
		t.Run(fmt.Sprint("ack padding ", padding), func(t *testing.T) {
			c1, c2 := net.Pipe()
			geth, errc := gethHandshake(c1, a, &b)
			r := newResponderFor(t, b)
			d := driver{ctx: t.Context(), rw: c2}
			auth, _, err := d.read()
			if err != nil {
				t.Fatal(err)
			}
			must(r.ReadAuth(auth))(t)
			if _, err := r.drawNonceAndKey(&r.recipientNonce); err != nil {
				t.Fatal(err)
			}
			var public point
			if err := public.baseMult(&r.ephemeral); err != nil {
				t.Fatal(err)
			}
			m := ackMessage{public[:], r.recipientNonce[:]}
			ack := sealOurs(t, a, append(m.append(nil), make([]byte, padding)...))
			s, authMAC, ackMAC, err := r.secrets(auth, ack)
			if err != nil {
				t.Fatal(err)
			}
			s.EgressMAC, s.IngressMAC = ackMAC, authMAC
			if err := d.write(ack); err != nil {
				t.Fatal(err)
			}
			if err := <-errc; err != nil {
				t.Fatal(err)
			}
			exchange(t, geth, gethOver(c2, s))
		})
	}
	t.Run("seeded without the size", func(t *testing.T) {
		i, r := newInitiatorFor(t, a, b), newResponderFor(t, b)
		must(r.ReadAuth(must(i.WriteAuth(nil))(t)))(t)
		ack, sr, err := r.WriteAck(nil)
		if err != nil {
			t.Fatal(err)
		}
		si := must(i.ReadAck(ack))(t)
		nonce := si.RecipientNonce
		var scratch [secretSize]byte
		si.EgressMAC.Reset()
		seedMAC(si.EgressMAC, &scratch, si.MAC, nonce[:], i.auth[2:])
		c1, c2 := net.Pipe()
		defer c2.Close()
		go gethOver(c1, si).Write(1, []byte("hello"))
		if _, _, _, err := gethOver(c2, sr).Read(); err == nil || !strings.Contains(err.Error(), "bad header MAC") {
			t.Errorf("error %v", err)
		}
	})
}
