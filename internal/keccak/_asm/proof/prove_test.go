package main

import (
	"regexp"
	"testing"
)

// kernelDir is where the assembly files are.
const kernelDir = "../.."

func TestKernels(t *testing.T) {
	if err := proveFiles(kernelDir, regexp.MustCompile("")); err != nil {
		t.Fatal(err)
	}
}
