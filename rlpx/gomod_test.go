package rlpx

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const gethModule = "github.com/ethereum/go-ethereum"

// newerThanGeth are the modules that we require in a newer version than go-ethereum does, each with
// the symbol that older versions lack. It is empty, and should stay so: whoever puts this library
// into a client gets our versions.
var newerThanGeth = map[string]string{}

// goMod is what these tests need of a go.mod.
type goMod struct {
	file    string
	require map[string]string // versions by path
}

// readGoMod reads a go.mod file.
func readGoMod(t *testing.T, file string) goMod {
	t.Helper()
	var parsed struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal([]byte(goCommand(t, "mod", "edit", "-json", file)), &parsed); err != nil {
		t.Fatal(err)
	}
	m := goMod{file, make(map[string]string)}
	for _, r := range parsed.Require {
		m.require[r.Path] = r.Version
	}
	return m
}

func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command: ", err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// expectSame checks that what both files require is required in the same version.
func expectSame(t *testing.T, got, want goMod) {
	t.Helper()
	shared := 0
	for path, version := range got.require {
		reference, ok := want.require[path]
		if !ok {
			continue
		}
		shared++
		if symbol := newerThanGeth[path]; version != reference && symbol == "" {
			t.Errorf("%s requires %s %s, but %s has %s", got.file, path, version, want.file, reference)
		}
	}
	if shared < 3 {
		t.Errorf("%s and %s have only %d modules in common", got.file, want.file, shared)
	}
}

// TestRequiresNothingNewer keeps the versions in our go.mod at those of go-ethereum's own. They
// cannot be older, since go-ethereum is among our dependencies, so they are the same. One that is
// newer rises in every client that this library is put into, and x/crypto has no openpgp any more
// since v0.59, without which go-ethereum's build tool does not compile.
func TestRequiresNothingNewer(t *testing.T) {
	ours := readGoMod(t, filepath.Join("..", "go.mod"))
	file := goCommand(t, "list", "-m", "-f", "{{.GoMod}}", gethModule)
	if file == "" {
		t.Fatal("the go.mod of go-ethereum is not in the module cache")
	}
	geths := readGoMod(t, file)
	expectSame(t, ours, geths)
	for path, symbol := range newerThanGeth {
		if ours.require[path] == "" || ours.require[path] == geths.require[path] {
			t.Errorf("%s is not newer than go-ethereum's any more, and need not be excused with %s", path, symbol)
		}
	}
}

// TestModulesAgree keeps the versions of the nested modules at those of the library. What is tested
// or measured in one of them is then what the library runs with.
func TestModulesAgree(t *testing.T) {
	root := readGoMod(t, filepath.Join("..", "go.mod"))
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "go.mod" {
			return err
		}
		if m := readGoMod(t, file); m.require["github.com/go-rlpx/transport"] != "" {
			expectSame(t, m, root)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
