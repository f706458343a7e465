package main

import (
	"fmt"
	"io"
	"strings"
)

// renderTraced writes what a Trace costs, if that was measured. Of several rounds it shows medians.
func renderTraced(out io.Writer, rows []*pairedRow) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprint(out, "\n### What a Trace costs a frame\n\n"+
		"Time with it against without, which is the last column; above 1 is a cost. The rows `trace=unset` compare nothing with nothing.\n\n"+
		"| frame | ratio | 95 % interval | without |\n|---|---|---|---|\n")
	for _, p := range rows {
		fmt.Fprintf(out, "| `%s` | %.3f | %.3f to %.3f | %s |\n", strings.TrimPrefix(p.name, "Trace/"),
			median(p.values["set/unset"]), median(p.values["lo95"]), median(p.values["hi95"]), quantity(median(p.values["unset-ns"]), "ns/op"))
	}
}
