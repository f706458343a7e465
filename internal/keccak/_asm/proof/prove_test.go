package main

import "testing"

// kernelDir is where the assembly files are.
const kernelDir = "../.."

func TestKernels(t *testing.T) {
	if err := proveFiles(kernelDir); err != nil {
		t.Fatal(err)
	}
}
