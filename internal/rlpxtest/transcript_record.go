package rlpxtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// RecordLimit is how many bytes of both directions a Recorder keeps: with two hex digits for each,
// a transcript stays below 64 KiB.
const RecordLimit = 30 << 10

// A Recorder records one session as a [Transcript], below whatever makes the session: an rlpx.Conn
// with Config.Key and Config.Rand from here, over a net.Conn that went through Conn, DialContext or
// Listener. It sees the bytes of the net.Conn, and never those of a second connection.
//
// What we send is noted before it is sent and what we receive after it came, so that an answer
// never stands before its question. After RecordLimit bytes it stops recording, and lets all
// through.
//
// All methods may be called at any time by several goroutines.
type Recorder struct {
	key    *ecdsa.PrivateKey
	remote *ecdsa.PublicKey // nil: we are the recipient

	mu      sync.Mutex
	taken   bool // the connection that is recorded was there
	rand    []byte
	chunks  []Chunk
	size    int // of all chunks
	stopped bool
}

// NewRecorder returns the recorder of a session of ours under the given key, which ends up in the
// transcript. remote is the peer whom we dial; nil makes us the recipient.
func NewRecorder(key *ecdsa.PrivateKey, remote *ecdsa.PublicKey) *Recorder {
	return &Recorder{key: key, remote: remote}
}

// Key returns our static key, for rlpx.Config.
func (r *Recorder) Key() *ecdsa.PrivateKey { return r.key }

// Rand returns the source of randomness for rlpx.Config: crypto/rand, noted down.
func (r *Recorder) Rand() io.Reader { return recordedRand{r} }

type recordedRand struct{ r *Recorder }

func (rr recordedRand) Read(p []byte) (int, error) {
	n, err := rand.Read(p)
	rr.r.mu.Lock()
	defer rr.r.mu.Unlock()
	rr.r.rand = append(rr.r.rand, p[:n]...)
	return n, err
}

var errOneSession = errors.New("rlpxtest: a Recorder records one session")

// Conn returns conn recorded. Only the first call is served.
func (r *Recorder) Conn(conn net.Conn) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken {
		return nil, errOneSession
	}
	r.taken = true
	return &recordedConn{conn, r}, nil
}

// DialContext dials and records; it fits rlpx.Dialer.
func (r *Recorder) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	recorded, err := r.Conn(conn)
	if err != nil {
		conn.Close()
	}
	return recorded, err
}

// Listener returns a listener, for rlpx.NewListener, whose first connection is recorded. Further
// ones are closed at once: they would draw from the same Rand.
func (r *Recorder) Listener(inner net.Listener) net.Listener { return recordedListener{inner, r} }

type recordedListener struct {
	net.Listener
	r *Recorder
}

func (l recordedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if recorded, err := l.r.Conn(conn); err == nil {
			return recorded, nil
		}
		conn.Close()
	}
}

type recordedConn struct {
	net.Conn
	r *Recorder
}

func (c *recordedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.r.note(In, p[:n])
	return n, err
}

func (c *recordedConn) Write(p []byte) (int, error) {
	i := c.r.note(Out, p)
	n, err := c.Conn.Write(p)
	if n < len(p) {
		c.r.shorten(i, n)
	}
	return n, err
}

// CloseWrite closes the writing direction of the net.Conn underneath.
func (c *recordedConn) CloseWrite() error {
	return c.Conn.(interface{ CloseWrite() error }).CloseWrite()
}

// note adds a chunk and returns its index, negative if it was not taken.
func (r *Recorder) note(way Way, data []byte) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || len(data) == 0 {
		return -1
	}
	if room := RecordLimit - r.size; len(data) > room {
		// What follows in the other direction is left out too: it may be the answer.
		data, r.stopped = data[:room], true
		if room == 0 {
			return -1
		}
	}
	r.size += len(data)
	r.chunks = append(r.chunks, Chunk{way, append([]byte(nil), data...)})
	return len(r.chunks) - 1
}

// shorten cuts a chunk of which only n bytes were sent. Nothing is written after it.
func (r *Recorder) shorten(i, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i >= 0 && n < len(r.chunks[i].Data) {
		r.size -= len(r.chunks[i].Data) - n
		r.chunks[i].Data = r.chunks[i].Data[:n]
	}
}

// Transcript returns what was recorded so far, decoded and cut to whole frames. The header is the
// caller's to fill in, but for the role. It fails if there was no whole handshake, or if the
// recorded bytes do not follow from the recorded keys and randomness.
func (r *Recorder) Transcript() (*Transcript, error) {
	t := r.snapshot()
	h, err := t.handshake()
	if err != nil {
		return nil, err
	}
	for way, direction := range h.directions() {
		kept, err := direction.frames(way, t.Bytes(way))
		if err != nil {
			return nil, fmt.Errorf("rlpxtest: recorded frames %c: %w", way, err)
		}
		t.keep(way, kept)
	}
	t.Remote = h.secrets.Remote
	d, err := t.Decode()
	if err != nil {
		return nil, err
	}
	for _, m := range d.Messages {
		t.Messages = append(t.Messages, m.Message)
	}
	return t, nil
}

func (r *Recorder) snapshot() *Transcript {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &Transcript{Key: r.key, Remote: r.remote, Role: Recipient, Cut: r.stopped}
	if r.remote != nil {
		t.Role = Initiator
	}
	t.Rand = append(t.Rand, r.rand...)
	for _, chunk := range r.chunks {
		t.Chunks = append(t.Chunks, Chunk{chunk.Way, append([]byte(nil), chunk.Data...)})
	}
	return t
}

// keep cuts the chunks of one direction to n bytes together.
func (t *Transcript) keep(way Way, n int) {
	kept := t.Chunks[:0]
	for _, chunk := range t.Chunks {
		if chunk.Way == way {
			if len(chunk.Data) > n {
				chunk.Data, t.Cut = chunk.Data[:n], true
			}
			n -= len(chunk.Data)
		}
		if len(chunk.Data) > 0 {
			kept = append(kept, chunk)
		}
	}
	t.Chunks = kept
}
