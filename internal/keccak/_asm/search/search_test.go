package main

import (
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestSearch measures two orders of each kernel that this machine can run. The order that is
// printed has the steps of the present one.
func TestSearch(t *testing.T) {
	for name, target := range targets {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			s := &search{name: name, candidates: 2, turns: 3, calls: 2, seed: 1, asm: "..", out: &out}
			best, err := s.run()
			if runtime.GOARCH != "amd64" || !target.has() {
				if err == nil || !strings.Contains(err.Error(), "cannot run: it needs "+target.needs) {
					t.Fatalf("a processor without %s: %v", target.needs, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(out.String(), " of the time of the best so far"); n != 2 {
				t.Errorf("%d orders were measured, not 2:\n%s", n, out.String())
			}
			if !strings.HasSuffix(out.String(), ":\n"+wrapped(best)) {
				t.Errorf("the best order is not printed:\n%s", out.String())
			}
			b, err := newBench(s)
			if err != nil {
				t.Fatal(err)
			}
			defer b.close()
			present, err := b.present()
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(slices.Sorted(slices.Values(best)), slices.Sorted(slices.Values(present))) {
				t.Errorf("the best order has other steps than the present one:\n%q\n%q", best, present)
			}
			// What uses a result before it is there must be refused.
			slices.Reverse(present)
			if err := b.generate(present, "Second"); err == nil || !strings.Contains(err.Error(), errRefused.Error()) {
				t.Errorf("the present order from its end to its beginning: %v", err)
			}
		})
	}
}

// TestUnknownOrder asks for an order that there is not.
func TestUnknownOrder(t *testing.T) {
	if _, err := (&search{name: "rows"}).run(); err == nil || !strings.Contains(err.Error(), `"rows"`) {
		t.Error(err)
	}
}
