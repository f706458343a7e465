package rlpx

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sources are the files of some packages that are not tests, parsed. Directories are relative to
// this one.
func sources(t *testing.T, dirs ...string) (*token.FileSet, map[string]*ast.File) {
	t.Helper()
	fset, files := token.NewFileSet(), map[string]*ast.File{}
	for _, dir := range dirs {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatalf("no sources in %s: %v", dir, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.ToSlash(name)] = f
		}
	}
	return fset, files
}

// call returns the name of the function that a call is of: "f" or "pkg.f".
func call(n ast.Node) string {
	c, ok := n.(*ast.CallExpr)
	if !ok {
		return ""
	}
	return dotted(c.Fun)
}

func dotted(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if x := dotted(e.X); x != "" {
			return x + "." + e.Sel.Name
		}
	}
	return ""
}

// lastName is the name of what an expression is about: tag for p.tag[:], c.tag or tag.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.SliceExpr:
		return lastName(e.X)
	case *ast.IndexExpr:
		return lastName(e.X)
	case *ast.ParenExpr:
		return lastName(e.X)
	case *ast.StarExpr:
		return lastName(e.X)
	case *ast.CallExpr:
		if len(e.Args) == 1 { // a conversion, say
			return lastName(e.Args[0])
		}
		return lastName(e.Fun)
	}
	return ""
}

var secretName = regexp.MustCompile(`(?i)(tag|mac|digest|hmac|want|sum|secret|shared)$`)

// Tags are compared in constant time: by crypto/subtle, in the places that are known, and by
// nothing else.
func TestCase_H23_TagsAreComparedInConstantTime(t *testing.T) {
	fset, files := sources(t, "../handshake", "../mac", ".", "p2p")
	var compared []string
	for name, file := range files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch call(n) {
				case "subtle.ConstantTimeCompare", "hmac.Equal":
					compared = append(compared, fmt.Sprintf("%s %s", name, f.Name.Name))
				case "bytes.Equal", "bytes.Compare", "slices.Equal", "slices.Compare", "reflect.DeepEqual", "bytes.HasPrefix", "bytes.HasSuffix":
					c := n.(*ast.CallExpr)
					for _, arg := range c.Args {
						if secretName.MatchString(lastName(arg)) {
							t.Errorf("%s: %s of %s", fset.Position(n.Pos()), call(n), lastName(arg))
						}
					}
				}
				if b, ok := n.(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
					for _, pair := range [][2]ast.Expr{{b.X, b.Y}, {b.Y, b.X}} {
						other := lastName(pair[1])
						if _, literal := pair[1].(*ast.BasicLit); literal || other == "nil" {
							continue
						}
						if secretName.MatchString(lastName(pair[0])) {
							t.Errorf("%s: %s is compared by %s", fset.Position(n.Pos()), lastName(pair[0]), b.Op)
						}
					}
				}
				return true
			})
		}
	}
	slices.Sort(compared)
	want := []string{"../handshake/ecies.go decrypt", "read.go readFrame", "read.go readHeader"}
	if !slices.Equal(compared, want) {
		t.Errorf("compared in constant time in %q, want %q", compared, want)
	}
}

// One constant says how small an encrypted packet can be, and every way to decrypt one looks at it
// before it slices anything: decrypt and the driver, by checkSize.
func TestCase_H5_OneMinimum(t *testing.T) {
	fset, files := sources(t, "../handshake")
	uses := map[string][]string{} // of eciesOverhead, checkSize, decrypt and ctr.xor, by function
	for _, file := range files {
		for _, decl := range file.Decls {
			name := "package"
			if f, ok := decl.(*ast.FuncDecl); ok {
				name = f.Name.Name
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					if n.Name == "eciesOverhead" {
						uses[n.Name] = append(uses[n.Name], name)
					}
				case *ast.CallExpr:
					if fun := lastName(n.Fun); fun == "checkSize" || fun == "decrypt" || fun == "xor" {
						uses[fun] = append(uses[fun], name)
					}
				case *ast.BasicLit:
					// The sums that others got wrong: without the IV, without R, with a key for a
					// tag.
					if n.Kind == token.INT && slices.Contains([]string{"113", "97", "81", "112", "99"}, n.Value) {
						t.Errorf("%s: the number %s", fset.Position(n.Pos()), n.Value)
					}
				}
				return true
			})
		}
	}
	for _, names := range uses {
		slices.Sort(names)
	}
	for what, want := range map[string][]string{
		"eciesOverhead": {"Error", "appendPacket", "checkSize", "package", "read"},
		"checkSize":     {"decrypt", "read"},
		"decrypt":       {"takeAck", "takeAuth"}, // which every way to read a packet comes down to
		"xor":           {"decrypt", "encrypt"},  // there is no other decryption
	} {
		if got := slices.Compact(uses[what]); !slices.Equal(got, want) {
			t.Errorf("%s is used in %q, want %q", what, got, want)
		}
	}
	// In decrypt nothing is sliced before checkSize has passed.
	for _, decl := range files["../handshake/ecies.go"].Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Name.Name != "decrypt" {
			continue
		}
		checked := token.NoPos
		ast.Inspect(f, func(n ast.Node) bool {
			if call(n) == "checkSize" {
				checked = n.Pos()
			}
			return true
		})
		ast.Inspect(f, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.SliceExpr, *ast.IndexExpr:
				if checked == token.NoPos || n.Pos() < checked {
					t.Errorf("%s: the packet is sliced before its size is checked", fset.Position(n.Pos()))
				}
			}
			return true
		})
	}
}
