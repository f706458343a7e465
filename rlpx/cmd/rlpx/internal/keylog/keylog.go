package keylog

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// FieldSize is the size of each field in bytes.
const FieldSize = 32

// maxLine bounds a line: a session takes 330 bytes, and what is left is room for others that are
// glued to it.
const maxLine = 64 << 10

const (
	fieldDigits = 2 * FieldSize
	hexDigits   = "0123456789abcdefABCDEF"
)

const label = "RLPX"

// A Session is a line of a key log.
type Session struct {
	Line int // in the log, counted from 1

	X              [FieldSize]byte // of the ephemeral point of the auth packet
	AES, MAC       [FieldSize]byte
	InitiatorNonce [FieldSize]byte
	RecipientNonce [FieldSize]byte
}

// A Log holds the sessions of a key log. It never changes.
type Log struct {
	sessions map[[FieldSize]byte]*Session
	skipped  int
	first    *LineError
}

// A LineError says what is wrong with a line.
type LineError struct {
	Line int // counted from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

var (
	errTooLong  = fmt.Errorf("longer than %d bytes", maxLine)
	errLabel    = errors.New("does not begin with " + label + ", as lines of an RLPx key log do")
	errBehind   = errors.New("has something else behind the fields of a session")
	errConflict = errors.New("has other secrets for a session that an earlier line has")
)

// fieldNames are those of the fields after the label, for error texts.
var fieldNames = [...]string{"x coordinate", "aes-secret", "mac-secret", "initiator-nonce", "recipient-nonce"}

// Read reads a key log to its end. A line of which something is not used is counted, see Skipped.
// The error is the reader's.
func Read(r io.Reader) (*Log, error) {
	log := &Log{sessions: map[[FieldSize]byte]*Session{}}
	br := bufio.NewReaderSize(r, maxLine)
	for n := 1; ; n++ {
		line, err := br.ReadSlice('\n')
		var bad error
		if errors.Is(err, bufio.ErrBufferFull) {
			bad = errTooLong
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = br.ReadSlice('\n')
			}
		} else {
			bad = log.addLine(n, bytes.TrimSpace(line))
		}
		if err != nil && err != io.EOF {
			return nil, err
		}
		if bad != nil {
			log.skipped++
			if log.first == nil {
				log.first = &LineError{n, bad}
			}
		}
		if err == io.EOF {
			return log, nil
		}
	}
}

// addLine takes what is good of a line, and returns the first thing that is wrong with it. Lines
// are found glued together, behind one that was cut off.
func (l *Log) addLine(n int, line []byte) (bad error) {
	if len(line) == 0 || line[0] == '#' {
		return nil
	}
	note := func(err error) {
		if bad == nil {
			bad = err
		}
	}
	parts := bytes.Split(line, []byte(label))
	if len(parts[0]) > 0 {
		note(errLabel)
	}
	for _, part := range parts[1:] {
		s, err := parse(part)
		if err != nil {
			note(err)
		}
		if s == nil {
			continue
		}
		s.Line = n
		if old := l.sessions[s.X]; old == nil {
			l.sessions[s.X] = s
		} else if s.Line = old.Line; *s != *old {
			note(errConflict)
		}
	}
	return bad
}

// parse parses what follows a label. With an error, the session is there if its fields are.
func parse(part []byte) (*Session, error) {
	fields := bytes.Fields(part)
	switch {
	case len(fields) < len(fieldNames):
		return nil, fmt.Errorf("has %d fields after %s instead of %d", len(fields), label, len(fieldNames))
	case part[0] != ' ' && part[0] != '\t':
		return nil, errLabel
	}
	var behind error
	last := len(fieldNames) - 1
	if len(fields) > len(fieldNames) {
		behind = errBehind
	}
	if f := fields[last]; len(f) > fieldDigits && len(bytes.Trim(f[fieldDigits:], hexDigits)) > 0 {
		fields[last], behind = f[:fieldDigits], errBehind
	}
	s := new(Session)
	for i, dst := range []*[FieldSize]byte{&s.X, &s.AES, &s.MAC, &s.InitiatorNonce, &s.RecipientNonce} {
		if len(fields[i]) != fieldDigits {
			return nil, fmt.Errorf("%s has %d digits instead of %d", fieldNames[i], len(fields[i]), fieldDigits)
		}
		if _, err := hex.Decode(dst[:], fields[i]); err != nil {
			return nil, fmt.Errorf("%s is not hexadecimal", fieldNames[i])
		}
	}
	return s, behind
}

// Find returns the session whose auth packet has that X coordinate, or nil.
func (l *Log) Find(x [FieldSize]byte) *Session { return l.sessions[x] }

// Len returns the number of sessions.
func (l *Log) Len() int { return len(l.sessions) }

// Skipped returns how many lines are not, or not only, lines of a key log, and the first of them;
// nil if there is none.
func (l *Log) Skipped() (lines int, first *LineError) { return l.skipped, l.first }
