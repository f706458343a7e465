package interop

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

// The matrix of README.md is made of what the tests saw, and of nothing else. A row is a peer in a
// role under a version of our Hello, a cell is a set of short facts. A test that passes says with
// seen what it has shown; when all tests are done, the matrix is compared with README.md, or
// written there with -update.
//
// A run of some tests only, or one in which a peer could not be had, shows some facts only: these
// must be in README.md, and with -update they are added. A run of all tests must show all, and with
// -update it replaces all.

// row names a row of the matrix.
type row struct {
	peer  string // name and version, without anything that differs between machines
	who   role
	hello uint64 // version of our Hello
}

// The columns after those of row. A fact stands in one of them; it has no "|" and no ";".
const (
	handshakeColumn  = "handshake"
	helloColumn      = "Hello"
	snappyColumn     = "snappy"
	sizesColumn      = "sizes"
	pingColumn       = "Ping"
	disconnectColumn = "Disconnect"
	transcriptColumn = "transcript"
)

var (
	rowColumns = []string{"peer", "role", "our Hello"}
	columns    = []string{
		handshakeColumn, helloColumn, snappyColumn, sizesColumn, pingColumn, disconnectColumn, transcriptColumn,
	}
)

// matrix holds the facts of each column of each row.
type matrix map[row]map[string][]string

// seenMatrix is what the tests of this run saw.
var (
	seenMu     sync.Mutex
	seenMatrix = matrix{}
)

// partial says that something could not be tested, so that the matrix is not whole.
var partial atomic.Bool

// seen puts facts into a cell of the matrix when the test has ended, if it passed.
func seen(t *testing.T, r row, column string, facts ...string) {
	t.Helper()
	if !slices.Contains(columns, column) || len(facts) == 0 || strings.ContainsAny(r.peer+strings.Join(facts, ""), "|;\n") {
		t.Fatalf("no cell can have %q in column %q", facts, column)
	}
	note := func() {
		if t.Failed() || t.Skipped() {
			return
		}
		seenMu.Lock()
		defer seenMu.Unlock()
		for _, fact := range facts {
			seenMatrix.add(r, column, fact)
		}
	}
	t.Cleanup(note)
}

// Facts that several tests share.
const (
	weSentAuth   = "we sent auth"
	itSentAuth   = "it sent auth"
	oursAnswered = "ours answered"
	itsAnswered  = "its answered"
)

func saidReasons(n int) string  { return fmt.Sprintf("%s said", plural(n, "reason")) }
func heardReasons(n int) string { return fmt.Sprintf("%s heard", plural(n, "reason")) }

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// seenSession notes what shows once a session is there.
func seenSession(t *testing.T, r row, session *p2p.Session) {
	t.Helper()
	state := session.ConnectionState()
	seen(t, r, handshakeColumn, map[bool]string{true: weSentAuth, false: itSentAuth}[state.Initiator])
	seen(t, r, helloColumn, fmt.Sprintf("its version %d", session.Remote().Version))
	seen(t, r, snappyColumn, map[bool]string{true: "on", false: "off"}[state.Snappy])
}

// seenSizes notes that messages of all sizes up to the largest went both ways.
func seenSizes(t *testing.T, r row) {
	t.Helper()
	for kind, size := range map[string]int{"compressible": largest(r.hello, true), "not": largest(r.hello, false)} {
		seen(t, r, sizesColumn, fmt.Sprintf("to 16 MiB - %d B %s", 1<<24-size, kind))
	}
}

func (m matrix) add(r row, column, fact string) {
	if m[r] == nil {
		m[r] = map[string][]string{}
	}
	facts := m[r][column]
	at, there := slices.BinarySearch(facts, fact)
	if !there {
		m[r][column] = slices.Insert(facts, at, fact)
	}
}

// missing lists the facts of m that other has not.
func (m matrix) missing(other matrix) []string {
	var list []string
	for _, r := range m.rows() {
		for _, column := range columns {
			for _, fact := range m[r][column] {
				if !slices.Contains(other[r][column], fact) {
					list = append(list, fmt.Sprintf("%s, %s, Hello %d, %s: %s", r.peer, r.who, r.hello, column, fact))
				}
			}
		}
	}
	return list
}

func (m matrix) rows() []row {
	return slices.SortedFunc(maps.Keys(m), func(a, b row) int {
		return cmp.Or(cmp.Compare(a.peer, b.peer), -cmp.Compare(a.who, b.who), cmp.Compare(a.hello, b.hello))
	})
}

// format returns the matrix as a table of README.md.
func (m matrix) format() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(slices.Concat(rowColumns, columns))
	line(slices.Repeat([]string{"---"}, len(rowColumns)+len(columns)))
	for _, r := range m.rows() {
		cells := []string{r.peer, string(r.who), strconv.FormatUint(r.hello, 10)}
		for _, column := range columns {
			cells = append(cells, strings.Join(m[r][column], "; "))
		}
		line(cells)
	}
	return b.String()
}

// parseMatrix reads what format wrote.
func parseMatrix(table string) (matrix, error) {
	m := matrix{}
	lines := strings.Split(strings.TrimSpace(table), "\n")
	for i, line := range lines[min(2, len(lines)):] {
		inner, begins := strings.CutPrefix(line, "| ")
		inner, ends := strings.CutSuffix(inner, " |")
		cells := strings.Split(inner, " | ")
		if !begins || !ends || len(cells) != len(rowColumns)+len(columns) {
			return nil, fmt.Errorf("row %d of the matrix has %d cells", i+1, len(cells))
		}
		hello, err := strconv.ParseUint(cells[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("row %d of the matrix: %w", i+1, err)
		}
		r := row{cells[0], role(cells[1]), hello}
		for j, column := range columns {
			if cell := cells[len(rowColumns)+j]; cell != "" {
				for fact := range strings.SplitSeq(cell, "; ") {
					m.add(r, column, fact)
				}
			}
		}
	}
	return m, nil
}

// readme is the file with the generated blocks.
const readme = "README.md"

// block is a generated part of README.md.
type block string

const (
	matrixBlock block = "matrix"
	habitsBlock block = "habits"
)

// find returns what is before the block's contents, these, and what follows.
func (b block) find(text []byte) (before, contents, after []byte, err error) {
	begin := fmt.Appendf(nil, "<!-- %s: generated by the tests, see -update -->\n", b)
	end := fmt.Appendf(nil, "<!-- end of %s -->", b)
	before, rest, ok := bytes.Cut(text, begin)
	contents, after, ok2 := bytes.Cut(rest, end)
	if !ok || !ok2 {
		return nil, nil, nil, fmt.Errorf("%s has no block %q", readme, b)
	}
	return append(before[:len(before):len(before)], begin...), contents, append(end, after...), nil
}

// wholeRun says that all tests ran, and passed.
func wholeRun(code int) bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return false
		}
	}
	return code == 0 && !testing.Short() && !partial.Load()
}

// checkReadme compares README.md with what the tests saw, or writes it. It is the last thing of a
// run.
func checkReadme(code int) error {
	text, err := os.ReadFile(readme)
	if err != nil {
		return err
	}
	seenMu.Lock()
	defer seenMu.Unlock()

	before, table, after, err := matrixBlock.find(text)
	if err != nil {
		return err
	}
	written, err := parseMatrix(string(table))
	if err != nil {
		return err
	}
	whole := wholeRun(code)
	var wrong []string
	if *update {
		now := written
		if whole {
			now = matrix{}
		}
		for r, cells := range seenMatrix {
			for column, facts := range cells {
				for _, fact := range facts {
					now.add(r, column, fact)
				}
			}
		}
		text = slices.Concat(before, []byte(now.format()), after)
	} else {
		for _, fact := range seenMatrix.missing(written) {
			wrong = append(wrong, "not in it: "+fact)
		}
		if whole {
			for _, fact := range written.missing(seenMatrix) {
				wrong = append(wrong, "not seen: "+fact)
			}
			if len(wrong) == 0 && written.format() != string(table) {
				wrong = append(wrong, "the matrix is not in the form in which it is written")
			}
		}
	}

	before, lines, after, err := habitsBlock.find(text)
	if err != nil {
		return err
	}
	habits, err := formatHabits()
	if err != nil {
		return err
	}
	if *update {
		return os.WriteFile(readme, slices.Concat(before, []byte(habits), after), 0o644)
	}
	if habits != string(lines) {
		wrong = append(wrong, "the habits are not those of the transcripts")
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s is not what this run shows; run with -update to write it:\n\t%s", readme, strings.Join(wrong, "\n\t"))
	}
	return nil
}
