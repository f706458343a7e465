package command

import (
	"bytes"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"
)

// checkMessage checks what the user is shown of an error: one printable line of bounded length.
func checkMessage(t *testing.T, err error) {
	t.Helper()
	text := message(err)
	if text == "" || len(text) > maxMessage+len("...") {
		t.Errorf("message of %d bytes", len(text))
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("message %q is not printable at %d", text, i)
	}
}

// FuzzNodeArgument gives the command an arbitrary node to dial. What is accepted can be dialled and
// printed as a URL that means the same node; without its last bytes, the port, a URL is refused.
func FuzzNodeArgument(f *testing.F) {
	key, err := crypto.ToECDSA(bytes.Repeat([]byte{0x1f}, 32))
	if err != nil {
		f.Fatal(err)
	}
	pub := hex.EncodeToString(crypto.FromECDSAPub(&key.PublicKey)[1:])
	var r enr.Record
	r.Set(enr.IPv4{10, 0, 0, 7})
	r.Set(enr.TCP(30303))
	if err := enode.SignV4(&r, key); err != nil {
		f.Fatal(err)
	}
	node, err := enode.New(enode.ValidSchemes, &r)
	if err != nil {
		f.Fatal(err)
	}
	for _, at := range []string{
		"@127.0.0.1:30303", "@[2001:db8::1]:30303?discport=0", "@[fe80::1%25eth0]:1", "@[::ffff:10.0.0.1]:1", "@localhost:1", "@node.example.org:65535?discport=1",
		"@:30303", "@a%20b:1", "@%00:1", "@127.0.0.1:0", "", "@127.0.0.1:99999", "@127.0.0.1:30303#f", "@127.0.0.1:30303/x",
	} {
		f.Add("enode://" + pub + at)
	}
	f.Add("enode://" + strings.ToUpper(pub) + "@10.0.0.1:1")
	f.Add(node.String())
	f.Add("enr:")
	f.Add("http://localhost")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseTarget(text)
		if err != nil {
			checkMessage(t, err)
			return
		}
		if len(got) == 0 {
			t.Fatalf("%q gives no address", text)
		}
		if key := got[0].Key; !key.Curve.IsOnCurve(key.X, key.Y) {
			t.Fatal("the key is no point of the curve")
		}
		for _, addr := range addrs(got) {
			at, err := parseAddr(addr)
			if err != nil || at.host == "" || at.port == 0 {
				t.Fatalf("%q gives the address %q: %+v, %v", text, addr, at, err)
			}
			if addr != printable(addr, len(addr)) {
				t.Errorf("the address %q is accepted", addr)
			}
			url := at.node(got[0].Key).String()
			again, err := parseTarget(url)
			if err != nil {
				t.Fatalf("%q is accepted, %q refused: %v", text, url, err)
			}
			if !again[0].Key.Equal(got[0].Key) || !slices.Equal(addrs(again), []string{addr}) {
				t.Fatalf("%q means %q, %q means %q", text, addr, url, addrs(again))
			}
			for n := range strings.LastIndex(url, ":") + 1 {
				if _, err := parseTarget(url[:n]); err == nil {
					t.Fatalf("%q is accepted", url[:n])
				}
			}
		}
	})
}

// FuzzKeyFile reads a key from a file of arbitrary content. What is accepted is the file that
// go-ethereum and we would write for that key, but for the case of digits and the end of the line;
// no prefix of that is a key.
func FuzzKeyFile(f *testing.F) {
	good := strings.Repeat("1f", 32)
	for _, content := range []string{
		"", good, good + "\n", good + "\r\n", good + "\n\n", good + " ", good + "00", good[1:], strings.ToUpper(good), "0x" + good, "\ufeff" + good,
		strings.Repeat("0", 64), strings.Repeat("f", 64), strings.Repeat("f", 63) + "\n", "x" + good[1:], "\x00\x1b[2J\n" + good,
		"fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364140", "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141",
	} {
		f.Add([]byte(content))
	}
	file := filepath.Join(f.TempDir(), "nodekey")
	e := &env{out: &output{w: io.Discard}, err: io.Discard}
	load := func(t *testing.T, content []byte) (string, error) {
		if err := os.WriteFile(file, content, keyFileMode); err != nil {
			t.Fatal(err)
		}
		key, err := e.loadKey(file)
		if err != nil {
			return "", err
		}
		return hex.EncodeToString(crypto.FromECDSA(key)), nil
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		digits, err := load(t, content)
		if err != nil {
			checkMessage(t, err)
			if len(content) >= len(good)/2 && strings.Contains(message(err), string(content[:len(good)/2])) {
				t.Errorf("%q quotes the file", message(err))
			}
			return
		}
		if want := strings.ToLower(strings.TrimRight(string(content), "\r\n")); digits != want || len(digits) != len(good) {
			t.Fatalf("%q is read as %s", content, digits)
		}
		again, err := load(t, []byte(digits))
		if err != nil || again != digits {
			t.Fatalf("%s is written and read as %s, %v", digits, again, err)
		}
		for n := range digits {
			if key, err := load(t, []byte(digits[:n])); err == nil {
				t.Fatalf("%q is read as %s", digits[:n], key)
			}
		}
	})
}
