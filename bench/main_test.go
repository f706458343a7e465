package bench

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
)

// TestMain adds what the header of benchmark output leaves out, in the same form.
func TestMain(m *testing.M) {
	if os.Getenv(spinEnv) != "" {
		spinUntilEOF()
		return
	}
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() != "" {
		fmt.Println("go: " + runtime.Version())
		if settings := os.Getenv("GODEBUG"); settings != "" {
			fmt.Println("godebug: " + settings)
		}
	}
	os.Exit(m.Run())
}
