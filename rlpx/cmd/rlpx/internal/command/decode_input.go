package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

const (
	// drainTime is how long standard input may go on after an interrupt. What writes to it, tcpdump
	// say, got the interrupt too, and has something left to write.
	drainTime = time.Second

	// chunkSize is how much of the standard input is read ahead.
	chunkSize = 256 * kib

	// barInterval is how often the bar moves.
	barInterval = 100 * time.Millisecond
)

// captureInput reads a capture file, and shows how far it is if somebody watches.
type captureInput struct {
	name   string
	r      io.Reader
	file   *os.File // nil: standard input
	pipe   *pipeReader
	read   int64  // bytes
	before func() // is called before anything is read
	bar    *progressbar.ProgressBar
	began  time.Time // first shown
	shown  time.Time // last
}

// openCapture opens a file, or standard input for "-". Its end comes early when ctx is done.
func openCapture(ctx context.Context, file string, e *env) (*captureInput, error) {
	in := &captureInput{name: file}
	size := int64(-1)
	if file == "-" {
		in.name = "standard input"
		in.pipe = newPipeReader(ctx, os.Stdin)
	} else {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("capture: %w", err)
		}
		info, err := f.Stat()
		switch {
		case err == nil && info.IsDir():
			f.Close()
			return nil, fmt.Errorf("capture: %s is a directory", file)
		case err == nil && info.Mode().IsRegular():
			size = info.Size()
			in.r = contextReader{ctx, f}
		default:
			in.pipe = newPipeReader(ctx, f)
		}
		in.file = f
	}
	if in.pipe != nil {
		in.r = in.pipe
	}
	if isTerminal(e.err) {
		in.bar = newByteBar(e.err, size)
	}
	return in, nil
}

func newByteBar(w io.Writer, size int64) *progressbar.ProgressBar {
	return progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription("decoding"),
		progressbar.OptionSetWidth(30),
		progressbar.OptionUseANSICodes(true),
	)
}

func (in *captureInput) Read(p []byte) (int, error) {
	if in.before != nil {
		in.before()
	}
	if in.bar != nil && time.Since(in.shown) > barInterval {
		in.shown = time.Now()
		if in.began.IsZero() {
			in.began = in.shown
		}
		in.bar.Describe(fmt.Sprintf("decoding %s, %s", byteCount(in.read), rate(in.read, in.shown.Sub(in.began))))
		_ = in.bar.Set64(in.read)
	}
	n, err := in.r.Read(p)
	in.read += int64(n)
	return n, err
}

// beside returns w, written around the bar if both are on a terminal.
func (in *captureInput) beside(w *output) io.Writer {
	if in.bar == nil || !isTerminal(w.w) {
		return w
	}
	return aroundBar{w, in.bar}
}

type aroundBar struct {
	w   io.Writer
	bar *progressbar.ProgressBar
}

func (a aroundBar) Write(p []byte) (int, error) {
	_ = a.bar.Clear()
	return a.w.Write(p)
}

// finish removes the bar.
func (in *captureInput) finish() {
	if in.bar != nil {
		_ = in.bar.Clear()
		in.bar = nil
	}
}

func (in *captureInput) close() {
	in.finish()
	if in.pipe != nil {
		in.pipe.end()
	}
	if in.file != nil {
		in.file.Close()
	}
}

// contextReader ends when ctx is done. It is for files, which never block for long.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, errInterrupted
	}
	return r.r.Read(p)
}

// pipeReader reads what may block for ever, in a goroutine that stays behind if it does.
type pipeReader struct {
	chunks chan []byte // closed at the end
	free   chan []byte
	err    error // of the end
	stop   chan struct{}
	end    func() // closes stop
	rest   []byte
	whole  []byte // what rest is a part of
}

func newPipeReader(ctx context.Context, r io.Reader) *pipeReader {
	d := &pipeReader{chunks: make(chan []byte), free: make(chan []byte, 2), stop: make(chan struct{})}
	d.end = sync.OnceFunc(func() { close(d.stop) })
	for range cap(d.free) {
		d.free <- make([]byte, chunkSize)
	}
	context.AfterFunc(ctx, func() { time.AfterFunc(drainTime, d.end) })
	go func() {
		defer close(d.chunks)
		for {
			select {
			case p := <-d.free:
				n, err := r.Read(p)
				if n > 0 {
					select {
					case d.chunks <- p[:n]:
					case <-d.stop:
						return
					}
				}
				if err != nil {
					d.err = err
					return
				}
				if n == 0 {
					d.free <- p
				}
			case <-d.stop:
				return
			}
		}
	}()
	return d
}

func (d *pipeReader) Read(p []byte) (int, error) {
	if len(d.rest) == 0 {
		if d.whole != nil {
			d.free <- d.whole[:cap(d.whole)]
			d.whole = nil
		}
		select {
		case chunk, ok := <-d.chunks:
			if !ok {
				return 0, d.err
			}
			d.rest, d.whole = chunk, chunk
		case <-d.stop:
			return 0, errInterrupted
		}
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}
