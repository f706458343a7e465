package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// The bar shows how far the capture is, and leaves nothing behind.
func TestDecodeBar(t *testing.T) {
	for name, size := range map[string]int64{"file": 1 << 20, "pipe": -1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var terminal buffer
				in := &captureInput{r: bytes.NewReader(make([]byte, 1<<20)), bar: newByteBar(&terminal, size)}
				w := aroundBar{&output{w: &terminal}, in.bar}
				p := make([]byte, 100<<10)
				for {
					_, err := in.Read(p)
					if err != nil {
						break
					}
					io.WriteString(w, "a line\n")
					time.Sleep(2 * barInterval)
				}
				in.finish()
				out := terminal.String()
				if in.read != 1<<20 || strings.Count(out, "a line\n") != 11 {
					t.Errorf("%d bytes read, output %q", in.read, out)
				}
				wantAll(t, out, "decoding")
				if size > 0 {
					wantAll(t, out, "48%", "KiB/s")
				}
				// Each line stands alone.
				for line := range strings.Lines(out) {
					if i := strings.LastIndexAny(line, "\r"); strings.HasSuffix(line, "a line\n") && strings.TrimPrefix(line[i+1:], "\x1b[2K") != "a line\n" {
						t.Errorf("line %q", line)
					}
				}
				if !strings.HasSuffix(strings.TrimSuffix(out, "\r"), "\x1b[2K") && !strings.HasSuffix(out, "\r") {
					t.Errorf("the bar is left: %q", out[max(0, len(out)-80):])
				}
			})
		})
	}
}

func TestPipeReader(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789"), 100_000)
	for _, r := range []io.Reader{bytes.NewReader(want), iotest.DataErrReader(bytes.NewReader(want)), iotest.HalfReader(bytes.NewReader(want))} {
		p := newPipeReader(t.Context(), r)
		got, err := io.ReadAll(p)
		p.end()
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	broken := errors.New("broken")
	p := newPipeReader(t.Context(), iotest.ErrReader(broken))
	if _, err := p.Read(make([]byte, 1)); err != broken {
		t.Errorf("got %v", err)
	}
	p.end()
}

// After an interrupt, what comes within a second still counts, and no more than that.
func TestPipeReaderInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r, w := io.Pipe()
		p := newPipeReader(ctx, r)
		defer p.end()
		defer w.Close()
		cancel()
		go func() {
			time.Sleep(drainTime / 2)
			w.Write([]byte("late"))
		}()
		b := make([]byte, 10)
		if n, err := p.Read(b); err != nil || string(b[:n]) != "late" {
			t.Fatalf("%q, %v", b[:n], err)
		}
		start := time.Now()
		if _, err := p.Read(b); err != errInterrupted || time.Since(start) != drainTime/2 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestDecodeInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := runContext(t, ctx, "decode", "-keylog", captures+"geth.keylog", captures+"geth.pcap")
	r.wantError(t, statusInterrupted, "interrupted")
}
