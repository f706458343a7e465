package rlpx

import (
	"go/ast"
	"go/build"
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

// TestImportsRunOneWay keeps the layers apart: what a package of the library may import of the
// others.
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
		"internal/txdata":           {},
		"rlpx/cmd/rlpx":             {"rlpx/cmd/rlpx/internal/command"},
		"rlpx/cmd/rlpx/internal/command": {"rlpx", "rlpx/p2p", "handshake", "rlpx/cmd/rlpx/internal/measure",
			"rlpx/cmd/rlpx/internal/capture", "rlpx/cmd/rlpx/internal/decode", "rlpx/cmd/rlpx/internal/keylog"},
		"rlpx/cmd/rlpx/internal/capture":     {},
		"rlpx/cmd/rlpx/internal/capturetest": {"rlpx", "rlpx/p2p"},
		"rlpx/cmd/rlpx/internal/decode":      {"mac", "rlpx/p2p", "internal/bufpool", "rlpx/cmd/rlpx/internal/capture", "rlpx/cmd/rlpx/internal/keylog"},
		"rlpx/cmd/rlpx/internal/keylog":      {},
		"rlpx/cmd/rlpx/internal/measure":     {"rlpx", "internal/keccak", "internal/txdata"},
	}
	seen := map[string]bool{}
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "bench" || name == "interop" || name == "gethp2p" || name == "examples" || name == "testdata" ||
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

// The errno values of package syscall exist on most systems, and not on Plan 9: files that name
// them have a build tag.
func TestCase_N18_SyscallBehindBuildTags(t *testing.T) {
	seen := 0
	for _, dir := range []string{".", "p2p", "../handshake", "../mac", "../internal/bufpool", "../internal/keccak"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			names := slices.ContainsFunc(f.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == `"syscall"` })
			if !names || strings.HasSuffix(file, "_test.go") {
				continue
			}
			seen++
			plan9 := build.Default
			plan9.GOOS, plan9.GOARCH = "plan9", "amd64"
			match, err := plan9.MatchFile(filepath.Dir(file), filepath.Base(file))
			if err != nil || match && !strings.HasSuffix(file, "_plan9.go") {
				t.Errorf("%s is built for plan9: %v", file, err)
			}
		}
	}
	if seen == 0 {
		t.Error("no file with errno values was seen")
	}
}
