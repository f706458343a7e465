package rlpx

import (
	"runtime"
	"sync"
	"time"

	"github.com/go-rlpx/transport/internal/bufpool"
	"github.com/go-rlpx/transport/internal/keccak"
	"github.com/go-rlpx/transport/mac"
)

// Broadcast sends one message to many peers, each as [Conn.Write] would. The
// data is compressed once, and frames are sealed for several peers at a time,
// as many as the machine's Keccak kernel has lanes.
//
// It returns when every peer's frame is written or failed. Peers do not wait
// for each other: each is written to by a goroutine of its own, which ends before Broadcast returns. A peer
// that does not read holds up the return, so set write deadlines. The result
// is nil if all went well, else errs[i] is what happened to conns[i].
//
// Broadcasts and other writers may overlap. data is neither kept nor modified.
func Broadcast(conns []*Conn, code uint64, data []byte) (errs []error) {
	for _, c := range conns {
		// It panics for a caller's mistake, which must be before anything is locked.
		_ = c.mustBeEstablished("Broadcast")
	}
	b := broadcasts.Get().(*broadcast)
	b.code, b.errs = code, nil
	b.payload.plain = data
	b.size = len(conns)
	b.last = time.Now()
	if len(data) > maxUint24 {
		for i := range conns {
			b.failed(i, &SizeError{What: "message", Size: len(data), Limit: maxUint24})
		}
		return b.release()
	}
	for start := 0; start < len(conns); start += keccak.Lanes {
		b.sealGroup(conns[start:min(start+keccak.Lanes, len(conns))], start)
		if b.due() {
			b.launch()
			// Let the writers run: what they give back the next group takes, while
			// it is in the cache.
			runtime.Gosched()
		}
	}
	b.launch()
	b.writers.Wait()
	return b.release()
}

// Starting writers wakes an idle processor, which takes about 30 us, as long as sealing several frames of 16 KiB. So
// they are started when launchSize is sealed, which the cache has room for. But if the last start was less than
// stillAwake ago, the processor that it woke does not sleep again: then starts are cheap, and nobody need wait.
const (
	launchSize = 512 << 10
	stillAwake = 20 * time.Microsecond
)

// due reports whether to launch after a group.
func (b *broadcast) due() bool { return b.sealed >= launchSize || time.Since(b.last) < stillAwake }

// broadcast is the state of one Broadcast. It is pooled with its goroutines' parts.
type broadcast struct {
	code    uint64
	payload Payload
	block   bufpool.Buffer // behind payload.block
	writers sync.WaitGroup
	parts   []*broadcastPart

	launched int       // how many of parts
	sealed   int       // bytes of the others
	last     time.Time // when some were launched, or the Broadcast began

	mu   sync.Mutex
	size int
	errs []error
}

var broadcasts = sync.Pool{New: func() any { return new(broadcast) }}

// broadcastPart writes to one peer.
type broadcastPart struct {
	b      *broadcast
	c      *Conn
	index  int
	m      outgoing
	sealed bool   // the frame is in the connection's batch; else it is still to be sealed
	batch  uint64 // set if sealed
	run    func() // the method write: a method value made anew allocates
}

// release returns the errors and gives b back. It is not deferred: if a callback panics, writers may still use b.
func (b *broadcast) release() (errs []error) {
	errs = b.errs
	if b.block.Held() {
		b.block.Release(len(b.payload.block))
	}
	for _, p := range b.parts {
		p.c, p.m = nil, outgoing{}
	}
	b.parts = b.parts[:0]
	b.launched, b.sealed = 0, 0
	b.payload, b.errs = Payload{}, nil
	broadcasts.Put(b)
	return errs
}

// message is the message for a connection, compressed when the first one asks.
func (b *broadcast) message(compressed bool) outgoing {
	if compressed && !b.block.Held() {
		var n int
		b.block, n = compress(b.payload.plain)
		b.payload.block = b.block.B[:n]
	}
	return b.payload.message(b.code, compressed)
}

func (b *broadcast) failed(i int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.errs == nil {
		b.errs = make([]error, b.size)
	}
	b.errs[i] = err
}

// add gets a writer to conns[i] ready for launch.
func (b *broadcast) add(c *Conn, i int, m outgoing, sealed bool, batch uint64) {
	n := len(b.parts)
	if n < cap(b.parts) {
		b.parts = b.parts[:n+1]
	} else {
		b.parts = append(b.parts, nil)
	}
	p := b.parts[n]
	if p == nil {
		p = &broadcastPart{b: b}
		p.run = p.write
		b.parts[n] = p
	}
	p.c, p.index, p.m, p.sealed, p.batch = c, i, m, sealed, batch
}

// launch starts the writers that are ready.
func (b *broadcast) launch() {
	ready := b.parts[b.launched:]
	b.launched, b.sealed = len(b.parts), 0
	b.writers.Add(len(ready))
	for _, p := range ready {
		go p.run()
	}
	b.last = time.Now()
}

func (p *broadcastPart) write() {
	defer p.b.writers.Done()
	var err error
	if p.sealed {
		err = p.c.flushSealed(p.batch, len(p.m.plain), len(p.m.payload))
	} else {
		_, err = p.c.write(&p.m)
	}
	if err != nil {
		p.b.failed(p.index, err)
	}
}

// flushSealed writes the batch that holds a frame of ours.
func (c *Conn) flushSealed(batch uint64, plain, wire int) error {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	err := c.flush(batch)
	if err == nil {
		c.out.stats.message(plain, wire)
		c.out.published.set(c.out.stats)
	}
	return err
}

// sealGroup seals the frames of up to keccak.Lanes peers together and adds
// their writers. Who cannot take a frame at once, because somebody else is just writing,
// much is pending, or the frame is one that goes out in pieces, gets a writer that seals as usual.
func (b *broadcast) sealGroup(conns []*Conn, first int) {
	var (
		frames [keccak.Lanes]mac.Frame
		msgs   [keccak.Lanes]outgoing
		dsts   [keccak.Lanes][]byte
		peers  [keccak.Lanes]int // index into conns
		n      int
	)
	for i, c := range conns {
		if err := c.mustBeEstablished("Broadcast"); err != nil {
			b.failed(first+i, err)
			continue
		}
		m := b.message(c.snappy.Load())
		size := dataSize(b.code, len(m.payload))
		// TryLock, since several are held at a time and in no order.
		out := &c.out
		if size > wholeFrame || !out.mu.TryLock() {
			b.add(c, first+i, m, false, 0)
			continue
		}
		length := wireLen(size)
		if out.taken || out.full(length) || c.writable() != nil {
			out.mu.Unlock()
			b.add(c, first+i, m, false, 0)
			continue
		}
		out.reserve(length)
		dst := out.pending.B[out.n : out.n+length]
		out.n += length
		b.sealed += length
		header, body := out.encrypt(dst, b.code, m.payload, size)
		frames[n] = mac.Frame{MAC: out.mac, Header: header, Ciphertext: body}
		msgs[n], dsts[n], peers[n] = m, dst, i
		n++
	}
	mac.Batch(frames[:n])
	for k := range n {
		putTags(dsts[k], frames[k].HeaderMAC, frames[k].Tag)
		i := peers[k]
		c := conns[i]
		c.enqueued(&msgs[k], len(dsts[k]))
		batch := c.out.batch
		c.out.mu.Unlock()
		b.add(c, first+i, msgs[k], true, batch)
	}
}
