package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The alias package that takes the place of go-ethereum's p2p/rlpx: all that its callers use.
const aliasPackage = `package rlpx

import "github.com/go-rlpx/transport/rlpx"

type (
	Conn    = rlpx.Conn
	Secrets = rlpx.Secrets
)

var NewConn = rlpx.NewConn
`

// dropIn makes go-ethereum a module with our transport in it: a copy of its source in which
// p2p/rlpx is the alias package, and nothing else is changed. It returns the go.mod to
// build with.
//
// The copy has to be one: what is to import go-ethereum's internal packages must be in its
// module, the go command lets no overlay change the module cache, and overlays do not reach the C
// compiler.
var dropIn = sync.OnceValues(func() (modfile string, err error) {
	source, err := goCommand(context.Background(), "list", "-m", "-f", "{{.Dir}}", gethModule)
	if err != nil {
		return "", err
	}
	if source == "" {
		return "", errors.New("the source of go-ethereum is not in the module cache")
	}
	copied := filepath.Join(workDir, "go-ethereum")
	if err := copySource(copied, source); err != nil {
		return "", err
	}
	alias := filepath.Join(copied, "p2p", "rlpx")
	if err := os.RemoveAll(alias); err != nil {
		return "", err
	}
	if err := os.Mkdir(alias, 0o700); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(alias, "rlpx.go"), []byte(aliasPackage), 0o600); err != nil {
		return "", err
	}
	// The go.mod and go.sum of this module, under another name. Relative paths in them still
	// start from here.
	modfile = filepath.Join(workDir, "dropin.mod")
	for from, to := range map[string]string{"go.mod": modfile, "go.sum": strings.TrimSuffix(modfile, "mod") + "sum"} {
		if err := copyFile(to, from); err != nil {
			return "", err
		}
	}
	_, err = goCommand(context.Background(), "mod", "edit", "-replace", gethModule+"="+copied, modfile)
	return modfile, err
})

// copySource copies the source of a module without the data of its tests.
func copySource(to, from string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch target := filepath.Join(to, name); {
		case !entry.IsDir():
			return copyFile(target, path)
		case entry.Name() == "testdata":
			return filepath.SkipDir
		default:
			return os.MkdirAll(target, 0o700)
		}
	})
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// dropInFlags are the flags of go build and others that put our transport under go-ethereum.
func dropInFlags() ([]string, error) {
	modfile, err := dropIn()
	return slices.Concat(buildFlags, []string{"-modfile=" + modfile}), err
}

// go-ethereum's programs on our transport. That they compile is part of what is tested.
var (
	dropInGethProgram   = program{name: "geth-on-rlpx", pkg: gethProgram.pkg, ours: true, flags: dropInFlags}
	dropInDevp2pProgram = program{name: "devp2p-on-rlpx", pkg: devp2pProgram.pkg, ours: true, flags: dropInFlags}
)

// dropInGo runs a go command on go-ethereum with our transport in it.
func dropInGo(t *testing.T, command string, args ...string) string {
	t.Helper()
	flags, err := dropInFlags()
	if err != nil {
		t.Fatal(err)
	}
	out, err := goCommand(commandContext(t), slices.Concat([]string{command}, flags, args)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDropInCompiles vets all that uses p2p/rlpx in go-ethereum on our transport, its tests included.
func TestDropInCompiles(t *testing.T) {
	t.Parallel()
	files := dropInGo(t, "list", "-f", "{{.GoFiles}} {{.Imports}}", gethModule+"/p2p/rlpx")
	if want := "[rlpx.go] [github.com/go-rlpx/transport/rlpx]"; files != want {
		t.Fatalf("go-ethereum's p2p/rlpx is %s, want %s", files, want)
	}
	dropInGo(t, "vet", gethModule+"/p2p", gethModule+"/cmd/devp2p/...")
}

// TestDropInSuite runs the tests of go-ethereum's p2p package on our transport. A test that fails on
// go-ethereum's own transport as well, in the same surroundings, says nothing about ours.
func TestDropInSuite(t *testing.T) {
	t.Parallel()
	const pkg = gethModule + "/p2p"
	flags, err := dropInFlags()
	if err != nil {
		t.Fatal(err)
	}
	defined := testNames(dropInGo(t, "test", "-list", ".", pkg))
	if len(defined) < 20 {
		t.Fatalf("only %d tests: %q", len(defined), defined)
	}
	announce("running the tests of %s on our transport", pkg)
	results, err := runSuite(t, flags, pkg)
	if len(results) == 0 {
		t.Fatal(err)
	}
	var failed []string
	for _, name := range defined {
		switch results[name] {
		case "pass":
		case "skip":
			t.Logf("%s: skipped", name)
		default:
			failed = append(failed, name)
		}
	}
	t.Logf("%d of %d tests pass, with subtests %d", len(defined)-len(failed), len(defined), len(results))
	if err == nil && len(failed) == 0 {
		return
	}
	t.Log(err)
	original, err := runSuite(t, buildFlags, pkg)
	if len(original) == 0 {
		t.Fatal(err)
	}
	for _, name := range failed {
		if original[name] == "fail" {
			announce("%s of %s fails on go-ethereum's transport too", name, pkg)
		} else {
			t.Errorf("%s: %q on our transport, %q on go-ethereum's", name, results[name], original[name])
		}
	}
	if len(failed) == 0 {
		t.Error("the tests pass, and yet the test run failed")
	}
}

// testNames picks the names from the output of go test -list.
func testNames(out string) []string {
	var names []string
	for line := range strings.Lines(out) {
		if name := strings.TrimSpace(line); strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Example") {
			names = append(names, name)
		}
	}
	return names
}

// runSuite runs the tests of a package and returns what became of each, subtests included. The
// error has the output of those that failed.
func runSuite(t *testing.T, flags []string, pkg string) (map[string]string, error) {
	t.Helper()
	args := slices.Concat([]string{"test"}, flags, []string{"-json", "-count=1", "-timeout=10m", pkg})
	out, err := goCommand(commandContext(t), args...)
	results, output := make(map[string]string), make(map[string]*bytes.Buffer)
	for decoder := json.NewDecoder(strings.NewReader(out)); ; {
		var event struct{ Action, Test, Output string }
		if decodeErr := decoder.Decode(&event); decodeErr == io.EOF {
			break
		} else if decodeErr != nil {
			return nil, errors.Join(err, decodeErr)
		}
		switch event.Action {
		case "pass", "fail", "skip":
			if event.Test != "" {
				results[event.Test] = event.Action
			}
		case "output":
			if output[event.Test] == nil {
				output[event.Test] = new(bytes.Buffer)
			}
			output[event.Test].WriteString(event.Output)
		}
	}
	if err != nil {
		for _, name := range slices.Sorted(maps.Keys(output)) {
			if results[name] != "pass" && results[name] != "skip" {
				err = fmt.Errorf("%w\n%s", err, output[name])
			}
		}
	}
	return results, err
}

// TestDropInDevp2p has the devp2p tool on our transport talk to geth and to our serve command.
func TestDropInDevp2p(t *testing.T) {
	t.Parallel()
	devp2pProgram.build(t)
	devp2p := dropInDevp2pProgram.build(t)
	expectDevp2pPing(t, devp2p, startServe(t))

	n := startGeth(t, gethConfig{})
	out, err := run(t, devp2p, "rlpx", "ping", n.url)
	if err != nil || !strings.Contains(out, "Name:Geth/") {
		t.Errorf("ping of geth: %v\n%s", err, out)
	}
}

// TestDropInGeth has geth on our transport and geth as it is be peers, each dialing the other once, and
// then speaks with the former itself.
func TestDropInGeth(t *testing.T) {
	t.Parallel()
	gethProgram.build(t)
	dropInGethProgram.build(t)
	const connected = "Ethereum peer connected .*conn=%s +name=Geth/"
	for _, tc := range []struct {
		name            string
		dialing, dialed *program
	}{
		{"dialed", &gethProgram, &dropInGethProgram},
		{"dials", &dropInGethProgram, &gethProgram},
		{"both", &dropInGethProgram, &dropInGethProgram},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dialed := startGeth(t, gethConfig{program: tc.dialed})
			dialing := startGeth(t, gethConfig{program: tc.dialing, staticNodes: []string{dialed.url}})
			dialed.await(fmt.Sprintf(connected, "inbound"))
			dialing.await(fmt.Sprintf(connected, "staticdial"))

			for _, n := range []*gethNode{dialed, dialing} {
				session := newSession(t, dial(t, n), sessionConfig(ethCapabilities(72)))
				expectGeth(t, session)
				expectEth(t, session)
			}
		})
	}
}
