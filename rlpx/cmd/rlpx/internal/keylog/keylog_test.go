package keylog

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// field is 32 times a digit pair.
func field(b byte) string { return strings.Repeat(hex.EncodeToString([]byte{b}), FieldSize) }

func line(x byte) string {
	return strings.Join([]string{"RLPX", field(x), field(2), field(3), field(4), field(5)}, " ")
}

func TestRead(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		lines      map[byte]int // by X
	}{
		{"empty", "", nil},
		{"one", line(1) + "\n", map[byte]int{1: 1}},
		{"no newline at the end", line(1), map[byte]int{1: 1}},
		{"several", line(1) + "\n" + line(7) + "\n", map[byte]int{1: 1, 7: 2}},
		{"comments and blank lines", "# RLPX\n\n  \t\n" + line(1) + "\n#" + line(9) + "\n", map[byte]int{1: 4}},
		{"carriage returns", line(1) + "\r\n\r\n" + line(7) + "\r\n", map[byte]int{1: 1, 7: 3}},
		{"blanks around and between", " \t" + strings.ReplaceAll(line(1), " ", " \t ") + "  \n", map[byte]int{1: 1}},
		{"capitals", "RLPX" + strings.ToUpper(line(0xab)[4:]) + "\n", map[byte]int{0xab: 1}},
		{"both ends of a session", line(1) + "\n" + line(1) + "\n", map[byte]int{1: 1}},
		{"long comment", "#" + strings.Repeat("x", maxLine-2) + "\n" + line(1), map[byte]int{1: 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tc.text), iotest.OneByteReader(strings.NewReader(tc.text)), iotest.DataErrReader(strings.NewReader(tc.text))} {
				log, err := Read(r)
				if err != nil {
					t.Fatal(err)
				}
				if log.Len() != len(tc.lines) {
					t.Errorf("%d sessions, want %d", log.Len(), len(tc.lines))
				}
				for x, n := range tc.lines {
					s := log.Find([FieldSize]byte(bytes.Repeat([]byte{x}, FieldSize)))
					if s == nil || s.Line != n || s.X[0] != x || s.AES[31] != 2 || s.MAC[0] != 3 || s.InitiatorNonce[9] != 4 || s.RecipientNonce[0] != 5 {
						t.Errorf("session %#x is %+v", x, s)
					}
				}
				if s := log.Find([FieldSize]byte{1}); s != nil {
					t.Errorf("found %+v", s)
				}
			}
		})
	}
}

// Logs as they are found. What is good is used, the rest is counted.
func TestCase_N6_DamagedLogs(t *testing.T) {
	other := strings.Replace(line(1), field(4), field(6), 1)
	for _, tc := range []struct {
		name, text string
		skipped    int
		line       int // the first of them
		want       string
		good       []byte // X of the sessions that are used
	}{
		{"a key log of TLS", "CLIENT_RANDOM " + field(1) + " " + field(2), 1, 1, "does not begin with RLPX", nil},
		{"among lines of TLS", "CLIENT_RANDOM " + field(1) + "\n" + line(1) + "\nCLIENT_RANDOM " + field(1) + "\n" + line(7), 2, 1, "does not begin with RLPX", []byte{1, 7}},
		{"label in small letters", "rlpx" + line(1)[4:], 1, 1, "does not begin with RLPX", nil},
		{"label alone", "RLPX", 1, 1, "0 fields", nil},
		{"label runs on", "RLPX" + line(1)[5:] + " " + field(5), 1, 1, "does not begin with RLPX", nil},
		{"field missing", line(1) + "\n" + line(7)[:5+4*65-1], 1, 2, "4 fields after RLPX instead of 5", []byte{1}},
		{"field too many", line(1) + " " + field(9), 1, 1, "something else behind", []byte{1}},
		{"cut off at the end", line(7) + "\n\n" + line(1)[:len(line(1))-1], 1, 3, "recipient-nonce has 63 digits instead of 64", []byte{7}},
		{"cut off and appended to", line(7)[:100] + line(1) + "\n" + line(9), 1, 1, "fields after RLPX", []byte{1, 9}},
		{"cut off in the label", line(7) + "\nRL" + line(1), 1, 2, "does not begin with RLPX", []byte{1, 7}},
		{"glued", line(1) + line(7) + line(9) + "\n", 0, 0, "", []byte{1, 7, 9}},
		{"glued by blanks", line(1) + " " + line(7) + "\n", 0, 0, "", []byte{1, 7}},
		{"glued to another program's", line(1) + "CLIENT_RANDOM " + field(1), 1, 1, "", []byte{1}},
		{"glued to another program's by a field", line(1) + "CLIENT_RANDOM", 1, 1, "something else behind", []byte{1}},
		{"behind another program's", "CLIENT_RANDOM " + field(1) + line(1) + "\n", 1, 1, "does not begin with RLPX", []byte{1}},
		{"behind a byte order mark", "\ufeff" + line(1) + "\n" + line(7), 1, 1, "does not begin with RLPX", []byte{1, 7}},
		{"field too long", strings.Replace(line(1), field(2), field(2)+"00", 1), 1, 1, "aes-secret has 66 digits", nil},
		{"last field too long", line(1) + "00", 1, 1, "recipient-nonce has 66 digits", nil},
		{"no hexadecimal digit", strings.Replace(line(1), field(3), field(3)[:63]+"g", 1), 1, 1, "mac-secret is not hexadecimal", nil},
		{"binary", "\x00\xff\x1b[2J", 1, 1, "does not begin with RLPX", nil},
		{"two secrets for one session", line(1) + "\n# \n" + other, 1, 3, "other secrets", []byte{1}},
		{"line without end", line(1) + "\n" + strings.Repeat("x", 1<<20), 1, 2, "longer than", []byte{1}},
		{"long line between others", line(1) + "\n" + strings.Repeat("x", 1<<20) + "\n" + line(7), 1, 2, "longer than", []byte{1, 7}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log, err := Read(strings.NewReader(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			if log.Len() != len(tc.good) {
				t.Errorf("%d sessions, want %d", log.Len(), len(tc.good))
			}
			for _, x := range tc.good {
				s := log.Find([FieldSize]byte(bytes.Repeat([]byte{x}, FieldSize)))
				if s == nil || s.AES[31] != 2 || s.MAC[0] != 3 || s.InitiatorNonce[9] != 4 || s.RecipientNonce[0] != 5 {
					t.Errorf("session %#x is %+v", x, s)
				}
			}
			skipped, bad := log.Skipped()
			if skipped != tc.skipped || (bad == nil) != (skipped == 0) {
				t.Fatalf("%d lines skipped, first %v, want %d", skipped, bad, tc.skipped)
			}
			if bad == nil {
				return
			}
			if bad.Line != tc.line || !strings.Contains(bad.Error(), tc.want) || !strings.HasPrefix(bad.Error(), fmt.Sprintf("line %d: ", tc.line)) {
				t.Errorf("error %v, want one of line %d: %s", bad, tc.line, tc.want)
			}
			// What is malformed may be a secret all the same.
			for _, secret := range []string{"0202", "0303", "0404", "CLIENT", "\x1b", "xx"} {
				if strings.Contains(bad.Error(), secret) {
					t.Errorf("%q gives away %q", bad, secret)
				}
			}
		})
	}
}

func TestReadFails(t *testing.T) {
	broken := errors.New("disk on fire")
	if _, err := Read(io.MultiReader(strings.NewReader(line(1)+"\n"), iotest.ErrReader(broken))); err != broken {
		t.Errorf("got %v", err)
	}
}

// Whatever is accepted says the same when it is written in the form that programs write.
func FuzzKeyLog(f *testing.F) {
	for _, seed := range []string{"", "#", line(1), line(1) + "\n" + line(7) + "\r\n\n# x\n", "RLPX " + field(1), line(1)[:300]} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		log, err := Read(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Count(text, []byte("\n")) + 1
		if skipped, bad := log.Skipped(); skipped > lines || bad != nil && (bad.Line < 1 || bad.Line > lines) {
			t.Fatalf("%d lines skipped of %d, the first %v", skipped, lines, bad)
		}
		var again bytes.Buffer
		for _, s := range log.sessions {
			fmt.Fprintf(&again, "RLPX %x %x %x %x %x\n", s.X, s.AES, s.MAC, s.InitiatorNonce, s.RecipientNonce)
		}
		second, err := Read(&again)
		if err != nil || second.Len() != log.Len() || second.skipped > 0 {
			t.Fatalf("%d sessions, then %v", log.Len(), err)
		}
		for x, s := range log.sessions {
			got := *second.Find(x)
			if got.Line = s.Line; got != *s {
				t.Fatalf("%+v became %+v", s, got)
			}
		}
	})
}
