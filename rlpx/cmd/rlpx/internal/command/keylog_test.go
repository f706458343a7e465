package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKeyLogThatCannotBeOpened(t *testing.T) {
	for _, args := range [][]string{{"demo"}, {"serve", "-addr", "127.0.0.1:0"}, {"ping", enodeURL(newKey(t), 1)}} {
		args = append([]string{args[0], "-keylog", t.TempDir()}, args[1:]...)
		run(t, args...).wantError(t, statusFailed, "key log")
	}
}

// fullDisk is a file that takes nothing.
const fullDisk = "/dev/full"

// A key log that cannot be written stops no session. The command says so at its end, and fails.
func TestCase_N6_KeyLogThatCannotBeWritten(t *testing.T) {
	if _, err := os.Stat(fullDisk); err != nil {
		t.Skip("no " + fullDisk)
	}
	const text = "the key log is incomplete: write " + fullDisk
	r := run(t, "demo", "-for", "1ms", "-keylog", fullDisk)
	wantAll(t, r.stdout, "every byte as sent", "disconnect   bob said: client quitting")
	r.atEnd().wantError(t, statusFailed, text)

	s := startServe(t, "-n", "2", "-keylog", fullDisk)
	r = run(t, "ping", "-c", "1", "-keylog", fullDisk, s.url)
	wantAll(t, r.stdout, "1 sent, 1 answered")
	r.wantError(t, statusFailed, text)
	r = run(t, "bench", "-to", s.url, "-rounds", "1", "-time", "1ms", "-sizes", "1", "-keylog", fullDisk)
	wantAll(t, r.stdout, "throughput")
	r.atEnd().wantError(t, statusFailed, text)
	if status := <-s.status; status != statusFailed || !strings.HasSuffix(s.stderr.String(), "rlpx: "+text+": no space left on device\n") {
		t.Errorf("serve: status %d, stderr %q", status, s.stderr.String())
	}

	// Besides the error that ended the command.
	r = run(t, "ping", "-c", "1", "-keylog", fullDisk, startPeer(t, func(p *scriptedPeer) {}))
	if r.status != statusFailed || strings.Count(r.stderr, "\n") != 2 || !strings.Contains(r.stderr, "closed the connection") {
		t.Errorf("ping: status %d, stderr %q", r.status, r.stderr)
	}
	wantAll(t, r.stderr, text)
}

// What was cut off at the end of a log does not spoil the next session's line.
func TestCase_N6_KeyLogCutOff(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.log")
	if err := os.WriteFile(file, []byte("# mine\nRLPX 0123"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "demo", "-for", "1ms", "-keylog", file).wantSuccess(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const lines = 2 + 2*(1+demoPeers) // two from each session
	if !strings.HasPrefix(string(text), "# mine\nRLPX 0123\nRLPX ") || strings.Count(string(text), "\n") != lines {
		t.Errorf("the log is %q", text)
	}
}

// A write that ends within a line does not spoil the next one.
func TestCase_N6_KeyLogAfterATornLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.log")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	k := &keyLog{f: f, torn: true}
	for _, line := range []string{"a\n", "b\n"} {
		if n, err := k.Write([]byte(line)); n != len(line) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if err := k.close(); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(file); string(text) != "\na\nb\n" {
		t.Errorf("the log is %q", text)
	}
	if _, err := k.Write([]byte("c\n")); err == nil {
		t.Error("written to a closed file")
	}
}
