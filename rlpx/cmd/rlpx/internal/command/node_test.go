package command

import (
	"encoding/hex"
	"net"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"
)

func TestParseTarget(t *testing.T) {
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
	ip4, ip6 := enr.IP(net.IPv4(10, 0, 0, 7)), enr.IP(net.ParseIP("2001:db8::7"))
	for _, tc := range []struct{ name, text, addr string }{
		{"IPv4", "enode://" + pub + "@10.3.58.6:30303", "10.3.58.6:30303"},
		{"IPv6", "enode://" + pub + "@[2001:db8::1]:30303", "[2001:db8::1]:30303"},
		{"discovery port", "enode://" + pub + "@10.3.58.6:30303?discport=0", "10.3.58.6:30303"},
		{"host name", "enode://" + pub + "@localhost:30303", "localhost:30303"},
		{"host name and discovery port", "enode://" + pub + "@node.example.org:1?discport=2", "node.example.org:1"},
		{"upper case", "enode://" + strings.ToUpper(pub) + "@10.3.58.6:30303", "10.3.58.6:30303"},
		{"record", record(ip4, enr.TCP(30303), enr.UDP(1)), "10.0.0.7:30303"},
		{"record, IPv6", record(ip6, enr.TCP6(30304)), "[2001:db8::7]:30304"},
		{"record, IPv6 with the IPv4 port", record(ip6, enr.TCP(30305)), "[2001:db8::7]:30305"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseTarget(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			if got.addr != tc.addr || !got.key.Equal(&key.PublicKey) {
				t.Errorf("address %q, want %q; key equal: %v", got.addr, tc.addr, got.key.Equal(&key.PublicKey))
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
		{"no key", "enode://127.0.0.1:30303", "node ID"},
		{"short key", "enode://" + pub[2:] + "@127.0.0.1:30303", "128 hex chars"},
		{"not on the curve", "enode://" + strings.Repeat("12", 64) + "@127.0.0.1:30303", "invalid public key"},
		{"zero key", "enode://" + strings.Repeat("00", 64) + "@127.0.0.1:30303", "invalid public key"},
		{"not hex", "enode://" + strings.Repeat("xy", 64) + "@127.0.0.1:30303", "invalid"},
		{"no address", "enode://" + pub, "no address"},
		{"no port", "enode://" + pub + "@127.0.0.1", "port"},
		{"port 0", "enode://" + pub + "@127.0.0.1:0", "no TCP port"},
		{"port too large", "enode://" + pub + "@127.0.0.1:65536", "port"},
		{"port no number", "enode://" + pub + "@127.0.0.1:eth", "port"},
		{"bad discovery port", "enode://" + pub + "@127.0.0.1:1?discport=x", "discport"},
		{"host not printable", "enode://" + pub + "@a\xedb:1", "impossible host name"},
		{"two ports", "enode://" + pub + "@127.1:3030:3", "impossible host name"},
		{"no host", "enode://" + pub + "@:30303", "no address"},
		{"record, no base64", "enr:%%%", "base64"},
		{"record, empty", "enr:", "no node URL"},
		{"record, tampered with", string(tampered), "no node URL"},
		{"record without address", record(enr.TCP(30303)), "no address"},
		{"record without TCP", record(ip4, enr.UDP(30303)), "no TCP port"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run(t, "ping", "--", tc.text).wantError(t, statusFailed, tc.want)
		})
	}
}
