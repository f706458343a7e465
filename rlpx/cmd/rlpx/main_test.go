package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// asCommand makes the test binary the command itself.
const asCommand = "RLPX_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

func process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

func TestExitStatus(t *testing.T) {
	for _, tc := range []struct {
		args   []string
		status int
	}{
		{nil, 0},
		{[]string{"version"}, 0},
		{[]string{"demo", "-for", "1ms"}, 0},
		{[]string{"key", filepath.Join(t.TempDir(), "missing")}, 1},
		{[]string{"ping", "enode://nobody"}, 2},
		{[]string{"ping"}, 2},
		{[]string{"nonsense"}, 2},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			cmd := process(t, tc.args...)
			out, err := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != tc.status {
				t.Errorf("exit status %d, want %d: %v\n%s", got, tc.status, err, out)
			}
		})
	}
}

func TestSignalEndsServe(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such signals")
	}
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			cmd := process(t, "serve", "-addr", "127.0.0.1:0")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || !strings.HasPrefix(line, "enode://") {
				t.Errorf("first line %q, %v", line, err)
			}
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v, stderr %q", err, stderr.String())
			}
			if !strings.Contains(stderr.String(), "msg=stopped") {
				t.Errorf("stderr %q", stderr.String())
			}
		})
	}
}

// Whoever reads our output may stop to.
func TestReaderGone(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"demo", "-for", "1ms"}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		cmd := process(t, args...)
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = w, &stderr
		err = cmd.Run()
		w.Close()
		if err == nil {
			t.Errorf("%q: success, although nobody reads", args)
		}
		if strings.Contains(stderr.String(), "goroutine") || strings.Count(stderr.String(), "\n") > 1 {
			t.Errorf("%q: stderr %q", args, stderr.String())
		}
	}
}

func TestStdoutClosed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no shell that can close it")
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := process(t, "demo", "-for", "1ms")
	args := append([]string{"-c", `exec "$0" "$@" >&-`}, cmd.Args...)
	closed := exec.CommandContext(t.Context(), sh, args...)
	closed.Env = cmd.Env
	out, err := closed.CombinedOutput()
	if strings.Contains(string(out), "goroutine") || strings.Count(string(out), "rlpx: ") > 1 {
		t.Errorf("%v, stderr %q", err, out)
	}
}
