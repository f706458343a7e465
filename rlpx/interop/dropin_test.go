package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// swapInstructions are the commands of the library's README.md that put it into a client: those
// that change the source, and those that show that it holds. What is tested here is what is written
// there.
func swapInstructions() (swap string, checks []string, err error) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		return "", nil, err
	}
	_, text, found := strings.Cut(string(readme), "\n### In place of go-ethereum's p2p/rlpx\n")
	_, text, fenced := strings.Cut(text, "\n```sh\n")
	block, _, closed := strings.Cut(text, "\n```\n")
	const last = "\ngo mod tidy\n" // of the commands that change the source
	swap, rest, split := strings.Cut(block, last)
	if !found || !fenced || !closed || !split {
		return "", nil, errors.New("README.md does not say how to put the library into a client")
	}
	return swap + last, strings.Split(rest, "\n"), nil
}

// changedGeth is go-ethereum with our transport in it: its source in a directory of its own.
type changedGeth struct {
	dir    string
	env    []string // of the commands that run in it
	before requirements
	checks []string // commands
}

// dropIn makes a copy of go-ethereum as it is in the module cache, and follows the README in it.
var dropIn = sync.OnceValues(func() (*changedGeth, error) {
	ctx := context.Background()
	if _, err := exec.LookPath("sh"); err != nil {
		return nil, err
	}
	swap, checks, err := swapInstructions()
	if err != nil {
		return nil, err
	}
	source, err := goCommand(ctx, "list", "-m", "-f", "{{.Dir}}", gethModule)
	if err != nil {
		return nil, err
	}
	if source == "" {
		return nil, errors.New("the source of go-ethereum is not in the module cache")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return nil, err
	}
	goroot, err := goCommand(ctx, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	c := &changedGeth{
		dir: filepath.Join(workDir, "go-ethereum"),
		// With these flags, all commands share what they compile: the tags are those that its build
		// tool sets for geth, and geth's profile for the compiler would have all of it compiled
		// once more. The build tool looks for the go command in GOROOT, which a program that was
		// compiled with -trimpath does not know.
		env:    []string{"GOFLAGS=-trimpath -pgo=off -tags=urfave_cli_no_docs,ckzg", "GOROOT=" + goroot, "GOWORK=off"},
		checks: checks,
	}
	if err := os.CopyFS(c.dir, os.DirFS(source)); err != nil {
		return nil, err
	}
	if c.before, err = c.requirements(ctx); err != nil {
		return nil, err
	}
	// This library, and not one that was released.
	if _, err := c.run(ctx, "go mod edit -replace '"+transportModule+"="+root+"'"); err != nil {
		return nil, err
	}
	_, err = c.run(ctx, swap)
	return c, err
})

const transportModule = "github.com/go-rlpx/transport"

// run runs commands of a shell in the copy and returns their standard output.
func (c *changedGeth) run(ctx context.Context, commands string) (string, error) {
	return execute(ctx, c.dir, c.env, "sh", "-e", "-u", "-c", commands)
}

// requirements are the versions in a go.mod by module, with its go line under "go".
type requirements map[string]string

func (c *changedGeth) requirements(ctx context.Context) (requirements, error) {
	out, err := execute(ctx, c.dir, c.env, "go", "mod", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var parsed struct {
		Go      string
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal([]byte(out), &parsed); err != nil {
		return nil, err
	}
	r := requirements{"go": parsed.Go}
	for _, module := range parsed.Require {
		r[module.Path] = module.Version
	}
	return r, nil
}

// changed returns go-ethereum with our transport in it. That it can be made is part of what is
// tested.
func changed(t *testing.T) *changedGeth {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		unavailable(t, "a changed go-ethereum", err)
	}
	c, err := dropIn()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// installGeth is the command that builds geth with go-ethereum's own build tool.
const installGeth = "go run build/ci.go install ./cmd/geth"

// go-ethereum's programs on our transport. That they compile is part of what is tested.
var (
	dropInGethProgram = program{name: "geth-on-rlpx", ours: true, make: func(ctx context.Context, _ string) (string, error) {
		c, err := dropIn()
		if err != nil {
			return "", err
		}
		_, err = c.run(ctx, installGeth)
		return filepath.Join(c.dir, "build", "bin", "geth"+exeSuffix()), err
	}}
	dropInDevp2pProgram = program{name: "devp2p-on-rlpx", ours: true, make: func(ctx context.Context, to string) (string, error) {
		c, err := dropIn()
		if err != nil {
			return "", err
		}
		_, err = execute(ctx, c.dir, c.env, "go", "build", "-o", to, "./cmd/devp2p")
		return to, err
	}}
)

// TestDropInReadme follows the README: what it has put into go-ethereum, what rises in its go.mod,
// and each of the commands that show that it holds.
func TestDropInReadme(t *testing.T) {
	c := changed(t)
	files, err := c.run(commandContext(t), "go list -f '{{.GoFiles}} {{.TestGoFiles}} {{.Imports}}' ./p2p/rlpx")
	if want := "[rlpx.go] [] [" + transportModule + "/rlpx]"; err != nil || files != want {
		t.Fatalf("go-ethereum's p2p/rlpx is %s, want %s; error %v", files, want, err)
	}

	after, err := c.requirements(commandContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if after["go"] != "1.26.0" || after[transportModule] == "" {
		t.Errorf("go %s, this library %q", after["go"], after[transportModule])
	}
	delete(after, "go")
	delete(after, transportModule)
	for module, version := range after {
		if before := c.before[module]; before != version {
			t.Errorf("%s changes from version %q to %s", module, before, version)
		}
	}
	if len(after) != len(c.before)-1 || len(after) < 100 {
		t.Errorf("%d modules are required, %d were", len(after), len(c.before)-1)
	}

	var installed, tested bool
	for _, command := range c.checks {
		t.Run(command, func(t *testing.T) {
			switch command {
			case installGeth:
				installed = true
				dropInGethProgram.build(t)
			case "go test ./p2p":
				tested = true // by TestDropInSuite
			default:
				if _, err := c.run(commandContext(t), command); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if !installed || !tested || len(c.checks) < 4 {
		t.Errorf("README.md has only %q", c.checks)
	}
}

// TestDropInSuite runs the tests of go-ethereum's p2p package on our transport. A test that fails
// on go-ethereum's own transport as well, in the same surroundings, says nothing about ours. Nor
// does one that passes each time when it is alone: some of them measure time.
func TestDropInSuite(t *testing.T) {
	c := changed(t)
	out, err := execute(commandContext(t), c.dir, c.env, "go", "test", "-list", ".", "./p2p")
	if err != nil {
		t.Fatal(err)
	}
	defined := testNames(out)
	if len(defined) < 20 {
		t.Fatalf("only %d tests: %q", len(defined), defined)
	}
	announce("running the tests of go-ethereum's p2p on our transport")
	results, err := runSuite(t, c.dir, c.env, "-count=1", "./p2p")
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
	if len(failed) == 0 {
		t.Fatal("the tests pass, and yet the test run failed")
	}
	original, err := runSuite(t, "", nil, "-trimpath", "-pgo=off", "-count=1", gethModule+"/p2p")
	if len(original) == 0 {
		t.Fatal(err)
	}
	for _, name := range failed {
		if original[name] == "fail" {
			announce("%s fails on go-ethereum's transport too", name)
			continue
		}
		alone, err := runSuite(t, c.dir, c.env, "-count=5", "-run=^"+name+"$", "./p2p")
		if alone[name] != "pass" || err != nil {
			t.Errorf("%s: %q on our transport, %q on go-ethereum's: %v", name, results[name], original[name], err)
		} else {
			announce("%s passes when it is alone, five times", name)
		}
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
func runSuite(t *testing.T, dir string, env []string, args ...string) (map[string]string, error) {
	t.Helper()
	args = slices.Concat([]string{"test", "-json", "-timeout=15m"}, args)
	out, err := execute(commandContext(t), dir, env, "go", args...)
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
			if event.Test != "" && results[event.Test] != "fail" { // it may run several times
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
	changed(t)
	devp2p := dropInDevp2pProgram.build(t)
	expectDevp2pPing(t, devp2p, startServe(t))

	n := startGeth(t, gethConfig{})
	out, err := run(t, devp2p, "rlpx", "ping", n.url)
	if err != nil || !strings.Contains(out, "Name:Geth/") {
		t.Errorf("ping of geth: %v\n%s", err, out)
	}
}
