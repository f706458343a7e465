package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// requireEnv names the environment variable that makes a foreign peer which cannot
// be had a failure. Without it the tests that need the peer are skipped.
const requireEnv = "RLPX_INTEROP_REQUIRE"

// buildTimeout bounds each run of the go command. A cold build of geth takes 5 to 10 minutes on two
// cores; a machine that is busy with other things needs room.
const buildTimeout = 25 * time.Minute

// workDir holds what all tests share: the programs and go-ethereum's changed source.
var workDir string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "rlpx-interop-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		workDir = dir
		code := m.Run()
		if err := checkReadme(code); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		return code
	}())
}

// The programs, each built once a run, when the first test asks for it.
var (
	gethProgram   = program{name: "geth", make: goBuild(gethModule+"/cmd/geth", ".")}
	devp2pProgram = program{name: "devp2p", make: goBuild(gethModule+"/cmd/devp2p", ".")}
	rlpxProgram   = program{name: "rlpx", make: goBuild("github.com/go-rlpx/transport/rlpx/cmd/rlpx", "../.."), ours: true}
)

const gethModule = "github.com/ethereum/go-ethereum"

// gethVersion is the version of go-ethereum in go.mod, with the "v".
var gethVersion = sync.OnceValues(func() (string, error) {
	return goCommand(context.Background(), "list", "-m", "-f", "{{.Version}}", gethModule)
})

// program is a command that tests run as a process.
type program struct {
	name string
	ours bool // of this repository: not being able to build it is a failure
	make func(ctx context.Context, to string) (path string, err error)

	once sync.Once
	path string
	err  error
}

// build returns the path of the program. Where it cannot be had, the test ends.
func (p *program) build(t *testing.T) string {
	t.Helper()
	p.once.Do(func() { p.path, p.err = p.compile(commandContext(t)) })
	if p.err == nil {
		return p.path
	}
	if p.ours {
		t.Fatalf("%s: %v", p.name, p.err)
	}
	unavailable(t, p.name, p.err)
	return ""
}

func (p *program) compile(ctx context.Context) (string, error) {
	announce("building %s", p.name)
	if p != &rlpxProgram {
		warnOfBuilds()
	}
	start := time.Now()
	path, err := p.make(ctx, filepath.Join(workDir, p.name+exeSuffix()))
	if err != nil {
		return "", err
	}
	announce("built %s in %v", p.name, time.Since(start).Round(time.Second))
	return path, nil
}

// goBuild builds a package with the module in a directory.
func goBuild(pkg, dir string) func(context.Context, string) (string, error) {
	return func(ctx context.Context, to string) (string, error) {
		_, err := goCommand(ctx, slices.Concat([]string{"build", "-C", dir, "-o", to}, buildFlags, []string{pkg})...)
		return to, err
	}
}

func exeSuffix() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}

var warnOfBuilds = sync.OnceFunc(func() {
	announce("with nothing of go-ethereum in Go's build cache, this takes 5 to 10 minutes on two cores")
})

// buildFlags are those of all builds of go-ethereum as it is. With -trimpath, what is compiled does
// not depend on where its source lies, so that the changed copy of go-ethereum shares what both
// import from other modules with geth in Go's build cache. Without geth's profile for the compiler,
// geth shares them with everything else, and with these tests. Without symbols, there is less to
// link.
var buildFlags = []string{"-trimpath", "-pgo=off", "-ldflags=-s -w"}

// commandContext is for a run of the go command. It ends before the test binary's own time is up,
// as after that nobody would end the compiler.
func commandContext(t *testing.T) context.Context {
	deadline, ok := t.Deadline()
	if !ok {
		return t.Context()
	}
	ctx, cancel := context.WithDeadlineCause(t.Context(), deadline.Add(-spareTime), errNoTime)
	t.Cleanup(cancel)
	return ctx
}

const spareTime = 15 * time.Second

var errNoTime = errors.New("not done when the time of all tests was over: give go test a longer -timeout")

// goCommand runs the go command in the directory of this module and returns its standard output.
func goCommand(ctx context.Context, args ...string) (string, error) {
	return execute(ctx, "", nil, "go", args...)
}

// execute runs a command of a build in a directory, with additions to the environment, and returns
// its standard output.
func execute(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = 5 * time.Second
	cmd.Dir = dir
	if len(env) > 0 {
		cmd.Env = append(os.Environ(), env...)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(stdout.String()), nil
}

// unavailable skips a test whose foreign peer cannot be had, or fails it where peers are required.
func unavailable(t *testing.T, what string, err error) {
	t.Helper()
	if os.Getenv(requireEnv) != "" && os.Getenv(requireEnv) != "0" {
		t.Fatalf("%s is required (%s) and cannot be had: %v", what, requireEnv, err)
	}
	partial.Store(true)
	announce("SKIPPED %s: NOT TESTED AGAINST %s, which cannot be had: %v", t.Name(), strings.ToUpper(what), err)
	t.Skipf("no %s: %v", what, err)
}

// announce tells whoever runs the tests at once, whether or not they asked for -v.
func announce(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "interop: "+format+"\n", args...)
}

func copyFile(to, from string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}
