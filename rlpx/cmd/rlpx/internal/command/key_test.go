package command

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/enode"
)

var keyOutput = regexp.MustCompile(`^enode  (enode://[0-9a-f]{128}@\S+)\nid     ([0-9a-f]{64})\n$`)

func TestNewKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.key")
	made := run(t, "key", "-new", file)
	made.wantSuccess(t)
	if made.stderr != "" {
		t.Errorf("stderr %q", made.stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).Match(text) {
		t.Errorf("key file holds %q", text)
	}
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode() != keyFileMode {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	key, err := crypto.LoadECDSA(file)
	if err != nil {
		t.Fatalf("go-ethereum: %v", err)
	}
	match := keyOutput.FindStringSubmatch(made.stdout)
	if match == nil {
		t.Fatalf("output %q", made.stdout)
	}
	node, err := enode.ParseV4(match[1])
	if err != nil {
		t.Fatal(err)
	}
	if !node.Pubkey().Equal(&key.PublicKey) || node.ID().String() != match[2] || node.ID() != enode.PubkeyToIDV4(&key.PublicKey) {
		t.Errorf("output %q is not about the key in the file", made.stdout)
	}
	if shown := run(t, "key", file); shown != made {
		t.Errorf("shown as %+v, made as %+v", shown, made)
	}
}

func TestNewKeyOverwritesNothing(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "node.key")
	if err := os.WriteFile(file, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	paths := []string{file, dir}
	if runtime.GOOS != "windows" { // where it takes a privilege to make a link
		dangling := filepath.Join(dir, "link")
		if err := os.Symlink(filepath.Join(dir, "target"), dangling); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, dangling)
	}
	for _, path := range paths {
		run(t, "key", "-new", path).wantError(t, statusFailed, path, "exists already")
	}
	if text, _ := os.ReadFile(file); string(text) != "precious" {
		t.Errorf("the file holds %q now", text)
	}
	missing := filepath.Join(dir, "no", "node.key")
	run(t, "key", "-new", missing).wantError(t, statusFailed, missing)
}

func TestShowKey(t *testing.T) {
	// A file of go-ethereum's.
	file := filepath.Join(t.TempDir(), "nodekey")
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	if err := crypto.SaveECDSA(file, key); err != nil {
		t.Fatal(err)
	}
	pub := hex.EncodeToString(crypto.FromECDSAPub(&key.PublicKey)[1:])
	for _, tc := range []struct{ addr, at string }{
		{"", "127.0.0.1:30303"},
		{"10.1.2.3:4", "10.1.2.3:4"},
		{"[2001:db8::1]:30303", "[2001:db8::1]:30303"},
		{"node.example.org:30303", "node.example.org:30303"},
		{"0.0.0.0:5", "127.0.0.1:5"},
		{"[::]:5", "[::1]:5"},
		{":5", "127.0.0.1:5"},
		{"[fe80::1%eth0]:5", "[fe80::1%25eth0]:5"},
	} {
		args := []string{"key", file}
		if tc.addr != "" {
			args = []string{"key", "--addr=" + tc.addr, file}
		}
		run(t, args...).wantSuccess(t, "enode://"+pub+"@"+tc.at+"\n", enode.PubkeyToIDV4(&key.PublicKey).String())
	}
}

func TestShowKeyThatIsNone(t *testing.T) {
	dir := t.TempDir()
	good := strings.Repeat("1f", 32)
	for _, tc := range []struct{ name, content, text string }{
		{"empty", "", "too short"},
		{"short", good[1:], "too short"},
		{"long", good + "00", "end of key file"},
		{"not hex", "x" + good[1:], "invalid hex"},
		{"zero", strings.Repeat("0", 64), "invalid private key"},
		{"above the order", strings.Repeat("f", 64), "invalid private key"},
		{"0x", "0x" + good, "it begins with 0x; want 64 hexadecimal digits"},
		{"UTF-8 byte order mark", "\ufeff" + good, "byte order mark"},
		{"UTF-16", "\xff\xfe1\x00f\x00", "UTF-16"},
		{"JSON", `{"address":"00"}`, "JSON"},
		{"PEM", "-----BEGIN PRIVATE KEY-----\n", "PEM"},
		{"URL", "enode://" + good, "address of a node"},
		{"space", " " + good, "white space"},
		{"binary", "\x00\x1b[2J\n" + good, "too short"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(dir, tc.name)
			if err := os.WriteFile(file, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			run(t, "key", file).wantError(t, statusFailed, file, tc.text)
		})
	}
	t.Run("missing", func(t *testing.T) {
		run(t, "key", filepath.Join(dir, "missing")).wantError(t, statusFailed, "rlpx key -new")
	})
	t.Run("directory", func(t *testing.T) {
		run(t, "key", dir).wantError(t, statusFailed, dir)
	})
	t.Run("missing, unprintable name", func(t *testing.T) {
		run(t, "key", filepath.Join(dir, "a\nb\x1b")).wantError(t, statusFailed, `a\nb\x1b`)
	})
}

func TestKeyOpenToOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such modes")
	}
	file := filepath.Join(t.TempDir(), "nodekey")
	if err := os.WriteFile(file, []byte(strings.Repeat("1f", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	r := run(t, "key", file)
	r.wantSuccess(t, "enode://")
	wantAll(t, r.stderr, "warning", file, "0640")
}
