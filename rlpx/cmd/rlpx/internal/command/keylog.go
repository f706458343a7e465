package command

import (
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/urfave/cli/v3"

	"github.com/go-rlpx/transport/rlpx"
)

func keyLogFlag() cli.Flag {
	return &cli.StringFlag{
		Name:  "keylog",
		Usage: "append the secrets of every session to `FILE`, to decrypt captures; whoever has it can read the traffic",
	}
}

// keyLog is the file that the -keylog flag names. What cannot be written stops nothing that is
// under way. It keeps the first error, for the end.
type keyLog struct {
	mu   sync.Mutex
	f    *os.File
	torn bool // the file ends within a line
	err  error
}

// openKeyLog makes cfg log to the file that the -keylog flag names, if it names one. Run closes
// it.
func (e *env) openKeyLog(cmd *cli.Command, cfg *rlpx.Config) error {
	file := cmd.String("keylog")
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, keyFileMode)
	if err != nil {
		return fmt.Errorf("key log: %w", err)
	}
	e.keyLog = &keyLog{f: f, torn: endsWithinLine(file)}
	cfg.KeyLogWriter = e.keyLog
	return nil
}

// endsWithinLine reports whether a file ends within a line, as a log does whose disk became full.
func endsWithinLine(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

// Write writes a line, never behind what is left of another.
func (k *keyLog) Write(line []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.torn {
		if _, err := io.WriteString(k.f, "\n"); err != nil {
			return 0, k.failed(err)
		}
		k.torn = false
	}
	n, err := k.f.Write(line)
	if err != nil {
		k.torn = n > 0
		return n, k.failed(err)
	}
	return n, nil
}

func (k *keyLog) failed(err error) error {
	if k.err == nil {
		k.err = err
	}
	return err
}

// close closes the log and reports whether all of it was written. There may be none.
func (k *keyLog) close() error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.f.Close(); err != nil {
		k.failed(err)
	}
	if k.err == nil {
		return nil
	}
	return fmt.Errorf("the key log is incomplete: %w", k.err)
}
