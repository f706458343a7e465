package rlpx

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/bufpool"
)

// Payload is message data made ready to be sent to many peers. It is safe for
// concurrent use.
type Payload struct {
	plain []byte
	block []byte // snappy; nil if plain is too large for any frame
}

// Compress prepares data to be sent with [Conn.WritePayload] or [Conn.SendPayload], compressing it
// once for all peers. data must not be modified as long as the Payload is in use, which
// after SendPayload it may be until the connection is closed.
func Compress(data []byte) *Payload {
	p := &Payload{plain: data}
	if len(data) <= maxUint24 {
		block, n := compress(data)
		p.block = append(make([]byte, 0, n), block.B[:n]...)
		block.Release(n)
	}
	return p
}

// Len returns the size of the data in bytes, before compression.
func (p *Payload) Len() int { return len(p.plain) }

var errNilPayload = errors.New("rlpx: no payload")

// setPayload makes p the message of it.
func (it *item) setPayload(code uint64, p *Payload, compressed bool) error {
	if p == nil {
		return errNilPayload
	}
	if err := checkMessage(code, len(p.plain), compressed); err != nil {
		return err
	}
	if !compressed || p.block == nil { // the zero Payload has no block
		it.set(code, p.plain, compressed)
		return nil
	}
	if err := checkFrame(code, len(p.block)); err != nil {
		return err
	}
	it.set(code, p.block, false)
	it.plain = len(p.plain)
	return nil
}

// checkMessage reports whether a message can be sent, as far as that is known before compression.
func checkMessage(code uint64, size int, compressed bool) error {
	if size > maxUint24 {
		return &SizeError{What: "message", Size: size, Limit: maxUint24}
	}
	if compressed {
		return nil
	}
	return checkFrame(code, size)
}

// checkFrame reports whether a frame can hold a code and a payload of the given length.
func checkFrame(code uint64, payload int) error {
	if size := dataSize(code, payload); size > maxUint24 {
		return &SizeError{What: "frame", Size: size, Limit: maxUint24}
	}
	return nil
}

// check reports whether m fits a frame.
func (m *Message) check(compressed bool) error {
	if err := checkMessage(m.Code, len(m.Data), compressed); err != nil || !compressed {
		return err
	}
	if checkFrame(m.Code, snappy.MaxEncodedLen(len(m.Data))) == nil {
		return nil
	}
	// Only the encoder knows.
	block, n := compress(m.Data)
	block.Release(n)
	return checkFrame(m.Code, n)
}

// sharedPayload is the data of one SendAll, in pooled memory that its items share.
type sharedPayload struct {
	users atomic.Int32
	size  int            // before compression
	plain bufpool.Buffer // held if some connection does not compress
	block bufpool.Buffer // held if some connection compresses
	n     int            // of block
}

var sharedPayloads = sync.Pool{New: func() any { return new(sharedPayload) }}

// newSharedPayload returns one with the caller as its user.
func newSharedPayload(size int) *sharedPayload {
	s := sharedPayloads.Get().(*sharedPayload)
	s.users.Store(1)
	s.size = size
	return s
}

// data is data as it goes to connections that compress, or do not. The first call for each makes
// it.
func (s *sharedPayload) data(data []byte, compressed bool) []byte {
	if compressed {
		if !s.block.Held() {
			s.block, s.n = compact(compress(data))
		}
		return s.block.B[:s.n:s.n]
	}
	if !s.plain.Held() {
		s.plain = bufpool.Get(len(data))
		copy(s.plain.B, data)
	}
	return s.plain.B[:len(data):len(data)]
}

// release ends one use.
func (s *sharedPayload) release() {
	if s.users.Add(-1) > 0 {
		return
	}
	if s.plain.Held() {
		s.plain.Release(s.size)
	}
	if s.block.Held() {
		s.block.Release(s.n)
	}
	s.size, s.n = 0, 0
	sharedPayloads.Put(s)
}

// compact moves a block that is much shorter than its buffer to one that fits, for a longer stay.
func compact(block bufpool.Buffer, n int) (bufpool.Buffer, int) {
	if bufpool.ClassSize(n) > len(block.B)/2 {
		return block, n
	}
	smaller := bufpool.Get(n)
	copy(smaller.B, block.B[:n])
	block.Release(n)
	return smaller, n
}
