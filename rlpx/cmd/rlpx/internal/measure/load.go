package measure

import (
	"context"
	"net"
	"sync"
	"time"
)

// Message codes. The first is the first that a capability can have.
const (
	msgCode = 0x10 + iota
	endCode // the message after the last
)

// A Load is what connections within this process carry: messages of one size, in one direction,
// each connection with a goroutine that writes and one that reads.
type Load struct {
	Pipe   bool // over net.Pipe instead of TCP on the loopback interface
	Conns  int  // how many are busy at once
	Size   int  // bytes of a message, at least 1, at most MaxSize
	Snappy bool
}

// Amount is what was carried.
type Amount struct {
	Messages int64
	Bytes    int64 // message data before compression
	Took     time.Duration
}

// Rate is in bytes a second.
func (a Amount) Rate() float64 { return float64(a.Bytes) / a.Took.Seconds() }

// Run writes for the given time on all connections, one message each at least, and stops the clock
// when everything has arrived. Every connection has carried a message before, so that buffers have
// their size.
func (l Load) Run(ctx context.Context, im Implementation, payload *Payload, d time.Duration) (Amount, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	pairs, err := l.open(ctx, im)
	closeAll := func() {
		for _, p := range pairs {
			p.close()
		}
	}
	defer closeAll()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		return Amount{}, err
	}
	defer context.AfterFunc(ctx, closeAll)() // unblocks everybody

	var (
		running, warm sync.WaitGroup
		start         = make(chan struct{})
		end           time.Time
		counts        = make([]int64, l.Conns)
	)
	for i, p := range pairs {
		warm.Add(1)
		ready := sync.OnceFunc(warm.Done)
		f := flow{pair: p, payload: payload, size: l.Size}
		running.Go(func() {
			err := f.write(0)
			if err == nil {
				<-start
				err = f.writeUntil(end)
			}
			if err != nil {
				fail(err)
			}
		})
		running.Go(func() {
			defer ready()
			err := f.read(0)
			if err == nil {
				ready()
				<-start
				counts[i], err = f.readAll()
			}
			if err != nil {
				fail(err)
			}
		})
	}
	warm.Wait()
	begin := time.Now()
	end = begin.Add(d)
	close(start)
	running.Wait()
	took := time.Since(begin)
	if err := context.Cause(ctx); err != nil {
		return Amount{}, err
	}
	a := Amount{Took: max(took, 1)}
	for _, n := range counts {
		a.Messages += n
	}
	a.Bytes = a.Messages * int64(l.Size)
	return a, nil
}

// open makes the connections. Those that it made are returned with an error too.
func (l Load) open(ctx context.Context, im Implementation) (pairs []pair, err error) {
	var c connector = pipes{}
	if !l.Pipe {
		if c, err = listenLoopback(); err != nil {
			return nil, err
		}
	}
	defer c.close()
	for range l.Conns {
		var from, to net.Conn
		if from, to, err = c.connect(ctx); err != nil {
			return pairs, err
		}
		a, b := newSecrets()
		p := pair{im(from, a), im(to, b)}
		p.from.SetSnappy(l.Snappy)
		p.to.SetSnappy(l.Snappy)
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// flow is one connection's messages.
type flow struct {
	pair
	payload *Payload
	size    int
}

func (f flow) write(i int) error {
	_, err := f.from.Write(msgCode, f.payload.message(i, f.size))
	return err
}

func (f flow) writeUntil(end time.Time) error {
	for i := 1; i == 1 || time.Now().Before(end); i++ {
		if err := f.write(i); err != nil {
			return err
		}
	}
	_, err := f.from.Write(endCode, nil)
	return err
}

func (f flow) read(i int) error {
	code, data, _, err := f.to.Read()
	if err != nil {
		return err
	}
	return f.payload.check(i, f.size, msgCode, code, data)
}

// readAll reads up to the end message and returns how many came before it.
func (f flow) readAll() (n int64, err error) {
	for i := 1; ; i++ {
		code, data, _, err := f.to.Read()
		if err != nil || code == endCode {
			return n, err
		}
		if err := f.payload.check(i, f.size, msgCode, code, data); err != nil {
			return n, err
		}
		n++
	}
}
