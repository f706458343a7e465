package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A bench makes kernels and compares their times. Each comparison is a program of its own, which
// has two kernels: the one to compare with, and another.
type bench struct {
	s                *search
	dir              string // all below is in there
	generator, proof string // programs
	program          string // directory of the measuring program
}

//go:embed measure.go.txt
var measureSource string

func newBench(s *search) (*bench, error) {
	dir, err := os.MkdirTemp("", "keccak-search")
	if err != nil {
		return nil, err
	}
	b := &bench{s: s, dir: dir, generator: filepath.Join(dir, "generator"), proof: filepath.Join(dir, "proof"), program: filepath.Join(dir, "measure")}
	if err := b.prepare(); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bench) close() { os.RemoveAll(b.dir) }

func (b *bench) prepare() error {
	for path, pkg := range map[string]string{b.generator: ".", b.proof: "./proof"} {
		if _, err := run(b.s.asm, "go", "build", "-o", path, pkg); err != nil {
			return err
		}
	}
	// The proof reads the files of all architectures.
	for _, name := range []string{"kernels_arm64.s", "kernels_arm64.go"} {
		content, err := os.ReadFile(filepath.Join(b.s.asm, "..", name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(b.dir, name), content, 0o644); err != nil {
			return err
		}
	}
	if err := os.Mkdir(b.program, 0o755); err != nil {
		return err
	}
	call := func(suffix string) string { return fmt.Sprintf(b.s.target.call, b.s.target.kernel+suffix) }
	source := strings.NewReplacer(
		"TURNS", strconv.Itoa(b.s.turns), "CALLS", strconv.Itoa(b.s.calls), "FIRST", call("First"), "SECOND", call("Second"),
	).Replace(measureSource)
	for name, content := range map[string]string{"go.mod": "module measure\n\ngo 1.26.0\n", "main.go": source} {
		if err := os.WriteFile(filepath.Join(b.program, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// present asks the generator for its order.
func (b *bench) present() ([]string, error) {
	out, err := run(b.dir, b.generator, "-show", b.s.name)
	return strings.Fields(out), err
}

// keep makes an order the one to compare with, and compare measures another against it: it gives
// the quotient of the times, which is below 1 if the other is faster.
func (b *bench) keep(order []string) error { return b.generate(order, "First") }

func (b *bench) compare(order []string) (float64, error) {
	if err := b.generate(order, "Second"); err != nil {
		return 0, err
	}
	return b.measure()
}

// generate makes a kernel, proves it, and puts it into the measuring program with a suffix to its
// name.
func (b *bench) generate(order []string, suffix string) error {
	base := filepath.Join(b.dir, "kernels_amd64")
	if out, err := run(b.dir, b.generator, "-"+b.s.name, strings.Join(order, " "), "-out", base+".s", "-stubs", base+".go", "-pkg", "main"); err != nil {
		return fmt.Errorf("%w: %w\n%.300s", errRefused, err, out)
	}
	if _, err := run(b.dir, b.proof, "-dir", b.dir, "-kernels", "^"+b.s.target.kernel+"$"); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	for _, part := range []struct {
		ext  string
		name *regexp.Regexp
	}{
		{".s", regexp.MustCompile(`(?m)^(TEXT ·\w+)`)},
		{".go", regexp.MustCompile(`(?m)^(func \w+)`)},
	} {
		content, err := os.ReadFile(base + part.ext)
		if err != nil {
			return err
		}
		renamed := part.name.ReplaceAll(content, []byte("${1}"+suffix))
		if err := os.WriteFile(filepath.Join(b.program, suffix+"_amd64"+part.ext), renamed, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// measure runs the two kernels that are in the measuring program in turns.
func (b *bench) measure() (float64, error) {
	if _, err := run(b.program, "go", "build", "-o", "measure", "."); err != nil {
		return 0, err
	}
	out, err := run(b.program, filepath.Join(b.program, "measure"))
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(out), 64)
}

// run runs a command and gives its output. Its error has what the command complained of.
func run(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%s: %w: %.300s", filepath.Base(name), err, complaint.String())
	}
	return string(out), err
}
