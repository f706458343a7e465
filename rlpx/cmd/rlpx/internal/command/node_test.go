package command

import (
	"encoding/hex"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

func TestCase_N4_NodesToDial(t *testing.T) {
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	pub := hex.EncodeToString(crypto.FromECDSAPub(&key.PublicKey)[1:])
	record := func(entries ...enr.Entry) string {
		var r enr.Record
		for _, e := range entries {
			r.Set(e)
		}
		if err := enode.SignV4(&r, key); err != nil {
			t.Fatal(err)
		}
		node, err := enode.New(enode.ValidSchemes, &r)
		if err != nil {
			t.Fatal(err)
		}
		return node.String()
	}
	ip4, ip6 := enr.IPv4Addr(netip.MustParseAddr("10.0.0.7")), enr.IPv6Addr(netip.MustParseAddr("2001:db8::7"))
	const v4, v6 = "10.0.0.7:30303", "[2001:db8::7]:30304"
	for _, tc := range []struct {
		name, text string
		addrs      []string
	}{
		{"IPv4", "enode://" + pub + "@10.3.58.6:30303", []string{"10.3.58.6:30303"}},
		{"IPv6", "enode://" + pub + "@[2001:db8::1]:30303", []string{"[2001:db8::1]:30303"}},
		{"zone", "enode://" + pub + "@[fe80::1%25eth0]:30303", []string{"[fe80::1%eth0]:30303"}},
		{"discovery port", "enode://" + pub + "@10.3.58.6:30303?discport=0", []string{"10.3.58.6:30303"}},
		{"host name", "enode://" + pub + "@localhost:30303", []string{"localhost:30303"}},
		{"upper case", "enode://" + strings.ToUpper(pub) + "@10.3.58.6:30303", []string{"10.3.58.6:30303"}},
		{"record", record(ip4, enr.TCP(30303), enr.UDP(1)), []string{v4}},
		{"record, IPv6", record(ip6, enr.TCP6(30304)), []string{v6}},
		{"record, IPv6 with the port for both", record(ip6, enr.TCP(30304)), []string{v6}},
		{"record, both", record(ip4, ip6, enr.TCP(30303), enr.TCP6(30304)), []string{v4, v6}},
		{"record, both with one port", record(ip4, ip6, enr.TCP(30304)), []string{"10.0.0.7:30304", v6}},
		{"record, both, a port for IPv6 only", record(ip4, ip6, enr.TCP6(30304)), []string{v6}},
		{"record, both, port 0 for IPv6", record(ip4, ip6, enr.TCP(30303), enr.TCP6(0)), []string{v4}},
		{"record, both, IPv4 a placeholder", record(enr.IPv4Addr(netip.IPv4Unspecified()), ip6, enr.TCP(30303), enr.TCP6(30304)), []string{v6}},
		{"record, both, IPv6 a placeholder", record(ip4, enr.IPv6Addr(netip.IPv6Unspecified()), enr.TCP(30303)), []string{v4}},
		{"record, IPv4 as IPv6", record(enr.IPv6Addr(netip.MustParseAddr("::ffff:10.0.0.7")), enr.TCP6(30303)), []string{v4}},
		{"record, global IPv6 and local IPv4", record(enr.IPv4Addr(netip.MustParseAddr("127.0.0.1")), ip6, enr.TCP(30304)), []string{"127.0.0.1:30304", v6}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseTarget(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(addrs(got), tc.addrs) || !got[0].Key.Equal(&key.PublicKey) {
				t.Errorf("addresses %q, want %q; key equal: %v", addrs(got), tc.addrs, got[0].Key.Equal(&key.PublicKey))
			}
		})
	}

	tampered := []byte(record(ip4, enr.TCP(30303)))
	tampered[20] ^= 1
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", `must start with "enode://"`},
		{"no URL", "node", `must start with "enode://"`},
		{"host and port", "127.0.0.1:30303", `must start with "enode://"`},
		{"other scheme", "http://" + pub + "@127.0.0.1:30303", `must start with "enode://"`},
		{"bare key", pub, `must start with "enode://"`},
		{"unprintable", "\x1b[2J\n", `\x1b`},
		{"no key", "enode://127.0.0.1:30303", "there is no @"},
		{"short key", "enode://" + pub[2:] + "@127.0.0.1:30303", "126 hexadecimal digits, want 128"},
		{"zero key", "enode://" + strings.Repeat("00", 64) + "@127.0.0.1:30303", "no point on the curve"},
		{"no address", "enode://" + pub, "there is no @"},
		{"no port", "enode://" + pub + "@127.0.0.1", "no port, want HOST:PORT"},
		{"port 0", "enode://" + pub + "@127.0.0.1:0", "port 0 cannot be dialed"},
		{"host not printable", "enode://" + pub + "@a\xedb:1", "enode URL"},
		{"placeholder", "enode://" + pub + "@0.0.0.0:30303", "placeholder"},
		{"record, no base64", "enr:%%%", "base64"},
		{"record, empty", "enr:", "invalid node record"},
		{"record, tampered with", string(tampered), "invalid node record"},
		{"record without address", record(enr.TCP(30303)), "no address"},
		{"record without TCP", record(ip4, enr.UDP(30303)), "IPv4: port 0 cannot be dialed"},
		{"record, IPv4 with the port for IPv6", record(ip4, enr.TCP6(30303)), "IPv4: port 0 cannot be dialed"},
		{"record, placeholders", record(enr.IPv4Addr(netip.IPv4Unspecified()), enr.IPv6Addr(netip.IPv6Unspecified()), enr.TCP(1)),
			"IPv4: 0.0.0.0 is a placeholder, not the address of a node; IPv6: :: is a placeholder"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run(t, "ping", "--", tc.text).wantError(t, statusUsage, tc.want)
		})
	}
}

func addrs(t target) (addrs []string) {
	for _, node := range t {
		addrs = append(addrs, node.Addr())
	}
	return addrs
}

// A record's addresses are dialed one after the other until one answers as the node.
func TestCase_N4_EveryAddressIsTried(t *testing.T) {
	s := startServe(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := uint16(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	other := listen(t, func(c net.Conn) {}) // closes at once
	to := target{{Key: s.to[0].Key, Host: "127.0.0.1", TCP: nobody}, {Key: s.to[0].Key, Host: "127.0.0.1", TCP: other}, s.to[0]}
	cfg, echo := &rlpx.Config{Key: newKey(t)}, &p2p.SessionConfig{Capabilities: p2p.Capabilities{echoCap}}
	d, err := dial(t.Context(), to, cfg, echo, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	d.session.Close()
	if d.addr != s.to[0].Addr() {
		t.Errorf("connected to %s", d.addr)
	}
	_, err = dial(t.Context(), to[:2], cfg, echo, time.Minute)
	if err == nil {
		t.Fatal("connected to nobody")
	}
	wantAll(t, err.Error(), "cannot connect to "+to[0].Addr(), "; handshake with "+to[1].Addr()+" failed: the peer closed")
}
