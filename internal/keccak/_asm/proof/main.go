package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

func main() {
	dir := flag.String("dir", "..", "where the assembly files are")
	mutants := flag.Bool("mutate", false, "change the kernels and see that the proof fails")
	sample := flag.Int("sample", 0, "with -mutate: how many changes to try; 0 is all")
	seed := flag.Uint64("seed", 1, "with -sample: which ones")
	names := flag.String("kernels", "", "a regular expression for the names of those to prove; otherwise all")
	flag.Parse()
	only := regexp.MustCompile(*names)
	if *mutants {
		files, err := parseFiles(*dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if n, err := mutate(os.Stdout, files, only, *sample, *seed); n > 0 || err != nil {
			fmt.Fprintln(os.Stderr, n, "mutants are not explained", err)
			os.Exit(1)
		}
		return
	}
	if err := proveFiles(*dir, only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// sources are the assembly files of package keccak. Their functions are declared in Go files of
// the same names.
var sources = []struct {
	name string
	arch *arch
}{
	{"kernels_amd64", amd64()},
	{"kernels_arm64", arm64()},
}

// parseFiles reads all of them.
func parseFiles(dir string) (all []*file, err error) {
	for _, s := range sources {
		base := filepath.Join(dir, s.name)
		f, err := parseFile(base+".s", base+".go", s.arch)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// proveFiles proves the kernels whose names match only.
func proveFiles(dir string, only *regexp.Regexp) error {
	files, err := parseFiles(dir)
	if err != nil {
		return err
	}
	proved := map[string]bool{}
	for _, f := range files {
		for _, k := range f.kernels {
			if !only.MatchString(k.name) {
				continue
			}
			start := time.Now()
			if err := prove(k); err != nil {
				fmt.Fprintln(os.Stderr, err)
				var d *diagnosis
				if errors.As(err, &d) {
					d.tryRepairs()
				}
				return err
			}
			proved[k.name] = true
			fmt.Printf("%-20s proved: %4d instructions, %v\n", k.name, len(k.code), time.Since(start).Round(time.Millisecond))
		}
	}
	for name := range contracts {
		if only.MatchString(name) && !proved[name] {
			return fmt.Errorf("%s has a contract, but is in no file", name)
		}
	}
	return nil
}
