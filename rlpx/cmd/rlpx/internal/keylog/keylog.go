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

// maxLine bounds a line: a session takes 330 bytes, and what is left is room for a comment.
const maxLine = 4 << 10

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
}

// A LineError reports the first line that is not one of a key log.
type LineError struct {
	Line int // counted from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

var (
	errTooLong  = fmt.Errorf("longer than %d bytes", maxLine)
	errLabel    = errors.New("does not begin with " + label + ", as lines of an RLPx key log do")
	errConflict = errors.New("has other secrets for a session that an earlier line has")
)

// fieldNames are those of the fields after the label, for error texts.
var fieldNames = [...]string{"x coordinate", "aes-secret", "mac-secret", "initiator-nonce", "recipient-nonce"}

// Read reads a key log to its end. The error is a *LineError for the first line that is malformed, or the reader's.
func Read(r io.Reader) (*Log, error) {
	log := &Log{sessions: map[[FieldSize]byte]*Session{}}
	br := bufio.NewReaderSize(r, maxLine)
	for n := 1; ; n++ {
		line, err := br.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, &LineError{n, errTooLong}
		case err != nil && err != io.EOF:
			return nil, err
		}
		if bad := log.add(n, bytes.TrimSpace(line)); bad != nil {
			return nil, &LineError{n, bad}
		}
		if err == io.EOF {
			return log, nil
		}
	}
}

func (l *Log) add(n int, line []byte) error {
	if len(line) == 0 || line[0] == '#' {
		return nil
	}
	fields := bytes.Fields(line)
	if string(fields[0]) != label {
		return errLabel
	}
	if fields = fields[1:]; len(fields) != len(fieldNames) {
		return fmt.Errorf("has %d fields after %s instead of %d", len(fields), label, len(fieldNames))
	}
	s := &Session{Line: n}
	for i, dst := range []*[FieldSize]byte{&s.X, &s.AES, &s.MAC, &s.InitiatorNonce, &s.RecipientNonce} {
		if len(fields[i]) != hex.EncodedLen(FieldSize) {
			return fmt.Errorf("%s has %d digits instead of %d", fieldNames[i], len(fields[i]), hex.EncodedLen(FieldSize))
		}
		if _, err := hex.Decode(dst[:], fields[i]); err != nil {
			return fmt.Errorf("%s is not hexadecimal", fieldNames[i])
		}
	}
	if old := l.sessions[s.X]; old != nil {
		s.Line = old.Line
		if *s != *old {
			return errConflict
		}
		return nil
	}
	l.sessions[s.X] = s
	return nil
}

// Find returns the session whose auth packet has that X coordinate, or nil.
func (l *Log) Find(x [FieldSize]byte) *Session { return l.sessions[x] }

// Len returns the number of sessions.
func (l *Log) Len() int { return len(l.sessions) }
