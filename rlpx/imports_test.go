package rlpx

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestImportsRunOneWay keeps the layers apart: what a package of the library may import of the others.
func TestImportsRunOneWay(t *testing.T) {
	const module = "github.com/go-rlpx/transport"
	allowed := map[string][]string{
		"handshake":                 {},
		"internal/bufpool":          {},
		"internal/keccak":           {},
		"internal/sharing":          {},
		"mac":                       {"internal/keccak", "internal/sharing"},
		"rlpx":                      {"handshake", "mac", "internal/bufpool", "internal/keccak"},
		"rlpx/p2p":                  {"rlpx"},
		"internal/rlpxtest":         {"handshake", "internal/bufpool"},
		"internal/rlpxtest/secrecy": {},
		"rlpx/cmd/rlpx":             {"rlpx/cmd/rlpx/internal/command"},
		"rlpx/cmd/rlpx/internal/command": {"rlpx", "rlpx/p2p", "handshake", "rlpx/cmd/rlpx/internal/measure",
			"rlpx/cmd/rlpx/internal/capture", "rlpx/cmd/rlpx/internal/decode", "rlpx/cmd/rlpx/internal/keylog"},
		"rlpx/cmd/rlpx/internal/capture":     {},
		"rlpx/cmd/rlpx/internal/capturetest": {"rlpx", "rlpx/p2p"},
		"rlpx/cmd/rlpx/internal/decode":      {"mac", "rlpx/p2p", "internal/bufpool", "rlpx/cmd/rlpx/internal/capture", "rlpx/cmd/rlpx/internal/keylog"},
		"rlpx/cmd/rlpx/internal/keylog":      {},
		"rlpx/cmd/rlpx/internal/measure":     {"rlpx"},
	}
	seen := map[string]bool{}
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "bench" || name == "interop" || name == "examples" || name == "testdata" ||
			len(name) > 2 && (name[0] == '.' || name[0] == '_')) {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		pkg := path.Dir(filepath.ToSlash(file)[len("../"):])
		may, ok := allowed[pkg]
		if !ok {
			t.Errorf("package %s is not in the map of layers", pkg)
		}
		seen[pkg] = true
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if rel, ours := strings.CutPrefix(imported, module+"/"); ours && !slices.Contains(may, rel) {
				t.Errorf("%s imports %s", file, rel)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range allowed {
		if !seen[pkg] {
			t.Errorf("package %s was not found", pkg)
		}
	}
}
