package bench

import (
	"flag"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestBenchmarks runs everything once, so that what nobody measures still works.
func TestBenchmarks(t *testing.T) {
	set := func(name, value string) {
		f := flag.Lookup(name)
		old := f.Value.String()
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Value.Set(old) })
	}
	set("test.benchtime", "1x")
	set("conns", "1")
	defer func(old int) { largest = old }(largest)
	largest = 2 << 20 // still more than is written in one piece
	for _, slice := range []*time.Duration{&sliceTime, &busySliceTime, &besideSliceTime, &keptSliceTime, &settleTime} {
		defer func(old time.Duration) { *slice = old }(*slice)
		*slice = time.Millisecond
	}
	for name, run := range map[string]func(*testing.B){
		"Seal":       BenchmarkSeal,
		"Open":       BenchmarkOpen,
		"Pipe":       BenchmarkPipe,
		"TCP":        BenchmarkTCP,
		"Lone":       BenchmarkLone,
		"Conns":      BenchmarkConns,
		"Handshake":  BenchmarkHandshake,
		"Refuse":     BenchmarkRefuse,
		"Memory":     BenchmarkMemory,
		"Collect":    BenchmarkCollect,
		"Broadcast":  BenchmarkBroadcast,
		"WriteBatch": BenchmarkWriteBatch,
		"Listen":     BenchmarkListen,
		"Shared":     BenchmarkShared,
		"Beside":     BenchmarkSharedBeside,
		"Kept":       BenchmarkSharedKept,
		"Trace":      BenchmarkTrace,
		"Latency":    BenchmarkSharedLatency,
	} {
		t.Run(name, func(t *testing.T) {
			failure = nil
			var failed bool
			testing.Benchmark(func(b *testing.B) {
				run(b)
				failed = b.Failed()
			})
			if failed {
				t.Fatal(failure)
			}
		})
	}
}

// TestNothingImportsBench keeps the benchmarks, and what only they need, out of everything else.
func TestNothingImportsBench(t *testing.T) {
	const here = "github.com/go-rlpx/transport/bench"
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == filepath.Join("..", "bench") || strings.HasPrefix(d.Name(), ".") && path != ".."):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		files++
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			if p, _ := strconv.Unquote(spec.Path.Value); p == here || strings.HasPrefix(p, here+"/") {
				t.Errorf("%s imports %s", path, p)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Fatal("no files found")
	}
}
