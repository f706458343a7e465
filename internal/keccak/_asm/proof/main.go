package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

func main() {
	dir := flag.String("dir", "..", "where the assembly files are")
	flag.Parse()
	if err := proveFiles(*dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// sources are the assembly files of package keccak. Their functions are declared in Go files of the same names.
var sources = []struct {
	name string
	arch *arch
}{
	{"kernels_amd64", amd64()},
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

// proveFiles proves all kernels.
func proveFiles(dir string) error {
	files, err := parseFiles(dir)
	if err != nil {
		return err
	}
	proved := map[string]bool{}
	for _, f := range files {
		for _, k := range f.kernels {
			start := time.Now()
			if err := prove(k); err != nil {
				return err
			}
			proved[k.name] = true
			fmt.Printf("%-20s proved: %4d instructions, %v\n", k.name, len(k.code), time.Since(start).Round(time.Millisecond))
		}
	}
	for name := range contracts {
		if !proved[name] {
			return fmt.Errorf("%s has a contract, but is in no file", name)
		}
	}
	return nil
}
