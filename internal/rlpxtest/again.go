package rlpxtest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// emulator is an environment variable with the command that runs the test binary, if this system
// does not run it without. It is the same as go test's -exec.
const emulator = "RLPX_TEST_EXEC"

// Again is the command that runs one test of the same test binary in a process of its own, whose
// environment has the given additions.
func Again(ctx context.Context, t testing.TB, test string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(strings.Fields(os.Getenv(emulator)), self, "-test.run=^"+test+"$", "-test.timeout=8m")
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	return cmd
}
