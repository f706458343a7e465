package p2p

import (
	"context"

	"github.com/go-rlpx/transport/rlpx"
)

// Pipe returns two sessions with each other in memory, for the tests of programs that embed this
// package. Like net.Pipe, on which they are, the connection has no buffer: a write waits for the
// other end's reader, which every session has. The first is the one that dialled. Nil is the zero
// SessionConfig, which shares nothing: both need a capability in common.
func Pipe(dialer, listener *SessionConfig) (*Session, *Session, error) {
	a, b, err := rlpx.Pipe(nil, nil)
	if err != nil {
		return nil, nil, err
	}
	type result struct {
		s   *Session
		err error
	}
	other := make(chan result, 1)
	go func() {
		s, err := NewSession(context.Background(), b, listener)
		other <- result{s, err}
	}()
	s, err := NewSession(context.Background(), a, dialer)
	o := <-other
	if err == nil && o.err == nil {
		return s, o.s, nil
	}
	if s != nil {
		s.Close()
	}
	if o.s != nil {
		o.s.Close()
	}
	if err == nil {
		err = o.err
	}
	return nil, nil, err
}
