package p2p_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

// nodeKeyHex is the public key that belongs to the private key 1: the generator of secp256k1, as
// SEC 2 gives it.
const nodeKeyHex = "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798" +
	"483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8"

// TestCase_N4_EnodeURLs parses URLs as they are found, and prints them again.
func TestCase_N4_EnodeURLs(t *testing.T) {
	for _, tc := range []struct {
		at        string // what follows the @
		host      string
		tcp, udp  uint16
		addr      string
		printed   string // what follows the @, if it is not at
		upperCase bool   // of the key's digits
	}{
		{at: "10.0.0.1:30303", host: "10.0.0.1", tcp: 30303, udp: 30303, addr: "10.0.0.1:30303"},
		{at: "10.0.0.1:30303", host: "10.0.0.1", tcp: 30303, udp: 30303, addr: "10.0.0.1:30303", upperCase: true},
		{at: "10.0.0.1:30303?discport=30301", host: "10.0.0.1", tcp: 30303, udp: 30301, addr: "10.0.0.1:30303"},
		{at: "10.0.0.1:30303?discport=0", host: "10.0.0.1", tcp: 30303, udp: 0, addr: "10.0.0.1:30303"},
		{at: "10.0.0.1:1?discport=1", host: "10.0.0.1", tcp: 1, udp: 1, addr: "10.0.0.1:1", printed: "10.0.0.1:1"},
		{at: "10.0.0.1:65535?discv5=7", host: "10.0.0.1", tcp: 65535, udp: 65535, addr: "10.0.0.1:65535", printed: "10.0.0.1:65535"},
		{at: "10.0.0.1:30303/", host: "10.0.0.1", tcp: 30303, udp: 30303, addr: "10.0.0.1:30303", printed: "10.0.0.1:30303"},
		{at: "[2001:db8::1]:30303", host: "2001:db8::1", tcp: 30303, udp: 30303, addr: "[2001:db8::1]:30303"},
		{at: "[2001:DB8:0:0::1]:30303", host: "2001:db8::1", tcp: 30303, udp: 30303, addr: "[2001:db8::1]:30303", printed: "[2001:db8::1]:30303"},
		{at: "[::ffff:10.0.0.1]:30303", host: "10.0.0.1", tcp: 30303, udp: 30303, addr: "10.0.0.1:30303", printed: "10.0.0.1:30303"},
		{at: "[fe80::1%25eth0]:30303", host: "fe80::1%eth0", tcp: 30303, udp: 30303, addr: "[fe80::1%eth0]:30303"},
		{at: "[fe80::1%25en0.7:1]:30303", host: "fe80::1%en0.7:1", tcp: 30303, udp: 30303, addr: "[fe80::1%en0.7:1]:30303"},
		{at: "[fe80::1%2512]:30303?discport=9", host: "fe80::1%12", tcp: 30303, udp: 9, addr: "[fe80::1%12]:30303"},
		{at: "boot-1.example.org:30303", host: "boot-1.example.org", tcp: 30303, udp: 30303, addr: "boot-1.example.org:30303"},
		{at: "localhost:30303?discport=30301", host: "localhost", tcp: 30303, udp: 30301, addr: "localhost:30303"},
		{at: "node_1.example.:1", host: "node_1.example.", tcp: 1, udp: 1, addr: "node_1.example.:1"},
		{at: "7.xn--p1ai:1", host: "7.xn--p1ai", tcp: 1, udp: 1, addr: "7.xn--p1ai:1"},
	} {
		digits := nodeKeyHex
		if tc.upperCase {
			digits = strings.ToUpper(digits)
		}
		n, err := p2p.ParseNode("enode://" + digits + "@" + tc.at)
		if err != nil {
			t.Errorf("%s: %v", tc.at, err)
			continue
		}
		if key := hex.EncodeToString(crypto.FromECDSAPub(n.Key)[1:]); key != nodeKeyHex {
			t.Errorf("%s: key %s", tc.at, key)
		}
		if n.Host != tc.host || n.TCP != tc.tcp || n.UDP != tc.udp || n.Addr() != tc.addr {
			t.Errorf("%s: host %q, TCP %d, UDP %d, address %q, want %q, %d, %d, %q",
				tc.at, n.Host, n.TCP, n.UDP, n.Addr(), tc.host, tc.tcp, tc.udp, tc.addr)
		}
		want := tc.printed
		if want == "" {
			want = tc.at
		}
		if want = "enode://" + nodeKeyHex + "@" + want; n.String() != want {
			t.Errorf("%s: printed as %s, want %s", tc.at, n, want)
		}
	}
}

func TestCase_N4_RefusedEnodeURLs(t *testing.T) {
	const at = "@10.0.0.1:30303"
	for _, tc := range []struct{ url, want string }{
		{"", `must start with "enode://"`},
		{"enr:-IS4Q", `must start with "enode://"`},
		{nodeKeyHex + at, `must start with "enode://"`},
		{"enode:" + nodeKeyHex + at, `must start with "enode://"`},
		{"enode://" + nodeKeyHex, "there is no @"},
		{"enode://" + at, "0 hexadecimal digits, want 128"},
		{"enode://" + nodeKeyHex[:126] + at, "126 hexadecimal digits, want 128"},
		{"enode://04" + nodeKeyHex + at, "130 hexadecimal digits, want 128"},
		{"enode://" + nodeKeyHex[:126] + "xy" + at, "not in hexadecimal digits"},
		{"enode://" + nodeKeyHex + ":password" + at, "not in hexadecimal digits"},
		{"enode://" + nodeKeyHex[:126] + "b9" + at, "no point on the curve"},
		{"enode://" + strings.Repeat("0", 128) + at, "no point on the curve"},
		{"enode://" + nodeKeyHex + "@", "no host"},
		{"enode://" + nodeKeyHex + "@:30303", "no host"},
		{"enode://" + nodeKeyHex + "@10.0.0.1", "no port"},
		{"enode://" + nodeKeyHex + "@10.0.0.1:", "no port"},
		{"enode://" + nodeKeyHex + "@[::1]", "no port"},
		{"enode://" + nodeKeyHex + "@10.0.0.1:0", "port 0 cannot be dialed"},
		{"enode://" + nodeKeyHex + "@10.0.0.1:0?discport=30303", "port 0 cannot be dialed"},
		{"enode://" + nodeKeyHex + "@10.0.0.1:65536", "65536 is no number from 0 to 65535"},
		{"enode://" + nodeKeyHex + "@10.0.0.1:eth", "invalid port"},
		{"enode://" + nodeKeyHex + at + "?discport=x", "discport x is no number"},
		{"enode://" + nodeKeyHex + at + "/path", "nothing may follow the port"},
		{"enode://" + nodeKeyHex + at + "#here", "nothing may follow the port"},
		{"enode://" + nodeKeyHex + "@0.0.0.0:30303", "0.0.0.0 is a placeholder"},
		{"enode://" + nodeKeyHex + "@[::]:30303", ":: is a placeholder"},
		{"enode://" + nodeKeyHex + "@[::%25eth0]:30303", ":: is a placeholder"},
		{"enode://" + nodeKeyHex + "@[::ffff:0.0.0.0]:30303", "0.0.0.0 is a placeholder"},
		{"enode://" + nodeKeyHex + "@224.0.0.1:30303", "not the address of one node"},
		{"enode://" + nodeKeyHex + "@[ff02::1%25eth0]:30303", "not the address of one node"},
		{"enode://" + nodeKeyHex + "@255.255.255.255:30303", "not the address of one node"},
		{"enode://" + nodeKeyHex + "@::1:30303", ""},
		{"enode://" + nodeKeyHex + "@[fe80::1%eth0]:30303", "%25eth0"},
		{"enode://" + nodeKeyHex + "@[fe80::1%25]:30303", ""},
		{"enode://" + nodeKeyHex + "@[fe80::1%25a%20b]:30303", "impossible zone a b"},
		{"enode://" + nodeKeyHex + "@[fe80::1%25a%25b]:30303", "impossible zone a%b"},
		{"enode://" + nodeKeyHex + "@[localhost]:30303", ""},
		{"enode://" + nodeKeyHex + "@[10.0.0.1]:30303", ""},
		// What a system's resolver takes for 0.0.0.0, 127.0.0.1 and 8.0.0.1.
		{"enode://" + nodeKeyHex + "@0:30303", "neither an IP address nor a DNS name"},
		{"enode://" + nodeKeyHex + "@127.1:30303", "neither an IP address nor a DNS name"},
		{"enode://" + nodeKeyHex + "@0x7f000001:30303", "neither an IP address nor a DNS name"},
		{"enode://" + nodeKeyHex + "@010.0.0.1:30303", "neither an IP address nor a DNS name"},
		{"enode://" + nodeKeyHex + "@a..b:30303", "neither an IP address nor a DNS name"},
		{"enode://" + nodeKeyHex + "@-a.b:30303", "neither an IP address nor a DNS name"},
		{"enode://" + nodeKeyHex + "@" + strings.Repeat("a", 64) + ":30303", "neither an IP address nor a DNS name"},
		{"enode://" + nodeKeyHex + "@" + strings.Repeat("a.", 127) + ":30303", "neither an IP address nor a DNS name"},
		{"enode://" + nodeKeyHex + "@a\xedb:30303", ""},
		{"enode://" + nodeKeyHex + "@a b:30303", ""},
		{"enode://" + nodeKeyHex + "@a%0ab:30303", ""},
		{"enode://" + nodeKeyHex + "@\x1b[2J:30303", ""},
		{"enode://" + nodeKeyHex + at + "?" + strings.Repeat("a", 2048), "limit 2048"},
	} {
		n, err := p2p.ParseNode(tc.url)
		if err == nil {
			t.Errorf("%q: accepted as %+v", tc.url, n)
			continue
		}
		if !errors.Is(err, p2p.ErrInvalidNode) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: error %q, want %q in it", tc.url, err, tc.want)
		}
		if text := err.Error(); len(text) > 250 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q: %d bytes of error, not fit for a log: %q", tc.url, len(text), text)
		}
	}
}

// FuzzParseNode says that what is accepted is a node to dial, and is parsed the same when printed.
func FuzzParseNode(f *testing.F) {
	for _, at := range []string{
		"10.0.0.1:30303", "10.0.0.1:30303?discport=0", "[::1]:1?discport=2", "[fe80::1%25eth0]:30303", "example.org:30303",
		"[::ffff:1.2.3.4]:1", "0:1", "a%41:1", "[fe80::1%25%41]:1/?#",
	} {
		f.Add("enode://" + nodeKeyHex + "@" + at)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := p2p.ParseNode(text)
		if err != nil {
			if !errors.Is(err, p2p.ErrInvalidNode) || n != nil {
				t.Fatalf("node %v, error %v", n, err)
			}
			return
		}
		if n.TCP == 0 || n.Host == "" || !n.Key.Curve.IsOnCurve(n.Key.X, n.Key.Y) {
			t.Fatalf("accepted %q as %+v", text, n)
		}
		again, err := p2p.ParseNode(n.String())
		if err != nil {
			t.Fatalf("%q printed as %s: %v", text, n, err)
		}
		if again.Host != n.Host || again.TCP != n.TCP || again.UDP != n.UDP || !again.Key.Equal(n.Key) || again.String() != n.String() {
			t.Fatalf("%q printed as %s, then as %s", text, n, again)
		}
	})
}
