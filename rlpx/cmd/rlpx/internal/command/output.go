package command

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// output is the standard output. It keeps its first error, so that what could not be written
// is reported once, at the end, and stops nothing that is under way.
type output struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

// Write reports success at all times.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		_, o.err = o.w.Write(p)
	}
	return len(p), nil
}

func (o *output) printf(format string, args ...any) { fmt.Fprintf(o, format, args...) }

func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		return nil
	}
	return fmt.Errorf("cannot write the output: %w", o.err)
}

// maxMessage bounds an error message, in bytes. The longest that is worth reading has a long path
// in it.
const maxMessage = 1024

// message is the text of an error as one printable line. The prefixes of the library's
// packages, which stand wherever an error was wrapped, are left out.
func message(err error) string {
	text := strings.NewReplacer("rlpx: ", "", "p2p: ", "").Replace(err.Error())
	return printable(text, maxMessage)
}

// printable returns text with everything escaped that could disturb a terminal or a log, cut to
// limit bytes.
func printable(text string, limit int) string {
	var b strings.Builder
	for _, r := range text {
		escaped := string(r)
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			escaped = strings.Trim(strconv.QuoteRuneToASCII(r), "'")
		}
		if b.Len()+len(escaped) > limit {
			b.WriteString("...")
			break
		}
		b.WriteString(escaped)
	}
	return b.String()
}
