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

func TestReadRefuses(t *testing.T) {
	other := strings.Replace(line(1), field(4), field(6), 1)
	for _, tc := range []struct {
		name, text string
		line       int
		want       string
	}{
		{"a key log of TLS", "CLIENT_RANDOM " + field(1) + " " + field(2), 1, "does not begin with RLPX"},
		{"label in small letters", "rlpx" + line(1)[4:], 1, "does not begin with RLPX"},
		{"label alone", "RLPX", 1, "0 fields"},
		{"label runs on", "RLPX" + line(1)[5:], 1, "does not begin with RLPX"},
		{"field missing", line(1) + "\n" + line(7)[:5+4*65-1], 2, "4 fields after RLPX instead of 5"},
		{"field too many", line(1) + " " + field(9), 1, "6 fields"},
		{"cut off", "\n\n" + line(1)[:len(line(1))-1], 3, "recipient-nonce has 63 digits instead of 64"},
		{"field too long", strings.Replace(line(1), field(2), field(2)+"00", 1), 1, "aes-secret has 66 digits"},
		{"no hexadecimal digit", strings.Replace(line(1), field(3), field(3)[:63]+"g", 1), 1, "mac-secret is not hexadecimal"},
		{"binary", "\x00\xff\x1b[2J", 1, "does not begin with RLPX"},
		{"two secrets for one session", line(1) + "\n# \n" + other, 3, "other secrets"},
		{"line without end", line(1) + "\n" + strings.Repeat("x", 1<<20), 2, "longer than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log, err := Read(strings.NewReader(tc.text))
			bad, ok := errors.AsType[*LineError](err)
			if !ok || log != nil || bad.Line != tc.line || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), fmt.Sprintf("line %d: ", tc.line)) {
				t.Fatalf("log %v, error %v, want one of line %d: %s", log, err, tc.line, tc.want)
			}
			// What is malformed may be a secret all the same.
			for _, secret := range []string{"0202", "0303", "0404", "CLIENT", "\x1b", "xx"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%q gives away %q", err, secret)
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
			if bad, ok := errors.AsType[*LineError](err); !ok || bad.Line < 1 || bad.Line > bytes.Count(text, []byte("\n"))+1 {
				t.Fatalf("error %v", err)
			}
			return
		}
		var again bytes.Buffer
		for _, s := range log.sessions {
			fmt.Fprintf(&again, "RLPX %x %x %x %x %x\n", s.X, s.AES, s.MAC, s.InitiatorNonce, s.RecipientNonce)
		}
		second, err := Read(&again)
		if err != nil || second.Len() != log.Len() {
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
