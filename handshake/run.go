package handshake

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"io"
	"sync"
)

// Initiate performs the handshake of the dialing side over rw: it writes auth, reads ack. The
// arguments are those of [NewInitiator], whose errors it returns as they are; every other error is
// an [*Error].
//
// Each packet is one Write. Reading takes the two bytes of the size first, refuses a size out of
// range there and then, and takes exactly as many bytes as were announced: what follows stays in rw
// for the frame reader.
//
// The context is the one deadline of the whole handshake. When it is done first, rw is closed if it
// is an io.Closer, which is what unblocks a Read or Write, and the error wraps the context's; that
// close has returned when the driver does. In no other case is rw closed, also not when the
// handshake fails: that is left to the owner of rw, whose Close must therefore bear a second call.
// A rw that cannot be closed can block past the end of the context.
func Initiate(
	ctx context.Context, rw io.ReadWriter, key *ecdsa.PrivateKey, remote *ecdsa.PublicKey, rand io.Reader,
) (Secrets, error) {
	return Steps{}.Initiate(ctx, rw, key, remote, rand)
}

// Initiate is the function [Initiate] with these callbacks.
func (steps Steps) Initiate(
	ctx context.Context, rw io.ReadWriter, key *ecdsa.PrivateKey, remote *ecdsa.PublicKey, rand io.Reader,
) (s Secrets, err error) {
	h := new(struct {
		Initiator
		driver
	})
	if err := h.Initiator.init(key, remote, rand); err != nil {
		return Secrets{}, err
	}
	defer h.wipe()
	d := &h.driver
	d.start(ctx, rw, RoleInitiator, steps)
	defer func() { s, err = d.finish(s, err) }()

	auth, err := h.writeAuth(nil)
	if err != nil {
		return Secrets{}, err
	}
	if err := d.write(auth); err != nil {
		return Secrets{}, err
	}
	d.step = StepAck
	ack, room, err := d.read()
	if err != nil {
		return Secrets{}, err
	}
	return h.readAck(ack, room)
}

// Respond performs the handshake of the listening side over rw: it reads auth, writes ack. The
// arguments are those of [NewResponder], and everything said at [Initiate] holds.
//
// A verify that is not nil is called with the initiator's static key once auth is decoded, before
// anything is generated or written. If it returns an error, that ends the handshake without an
// answer and is wrapped in the error of Respond. The key is only claimed at that point: verify can
// refuse a peer, not authenticate one.
//
// The ack is sent before the secrets are derived, so that both ends do that at the same time.
func Respond(
	ctx context.Context, rw io.ReadWriter, key *ecdsa.PrivateKey, rand io.Reader,
	verify func(remote *ecdsa.PublicKey) error,
) (Secrets, error) {
	return Steps{}.Respond(ctx, rw, key, rand, verify)
}

// Respond is the function [Respond] with these callbacks. Received comes before verify.
func (steps Steps) Respond(
	ctx context.Context, rw io.ReadWriter, key *ecdsa.PrivateKey, rand io.Reader,
	verify func(remote *ecdsa.PublicKey) error,
) (s Secrets, err error) {
	h := new(struct {
		Responder
		driver
	})
	if err := h.Responder.init(key, rand); err != nil {
		return Secrets{}, err
	}
	defer h.wipe()
	d := &h.driver
	d.start(ctx, rw, RoleRecipient, steps)
	defer func() { s, err = d.finish(s, err) }()

	auth, room, err := d.read()
	if err != nil {
		return Secrets{}, err
	}
	remote, err := h.readAuth(auth, room)
	if err != nil {
		return Secrets{}, err
	}
	if verify != nil {
		if err := verify(remote); err != nil {
			return Secrets{}, fmt.Errorf("peer refused: %w", err)
		}
	}
	d.step = StepAck
	ack, err := h.writeAck(nil)
	if err != nil {
		return Secrets{}, err
	}
	if err := d.write(ack); err != nil {
		return Secrets{}, err
	}
	return h.Responder.finish(ack)
}

// driver carries one handshake over a connection.
type driver struct {
	ctx        context.Context
	rw         io.ReadWriter
	role, step string // what an error says
	steps      Steps
	prefix     [prefixSize]byte

	stop    func() bool    // ends the watch over ctx; nil for a context that is never done
	closing sync.WaitGroup // until the close of rw has returned
}

// start begins the watch over ctx, which finish must end. The standard library's contexts take no
// goroutine for it.
func (d *driver) start(ctx context.Context, rw io.ReadWriter, role string, steps Steps) {
	d.ctx, d.rw, d.role, d.step, d.steps = ctx, rw, role, StepAuth, steps
	if ctx.Done() != nil {
		d.closing.Add(1)
		d.stop = context.AfterFunc(ctx, d.abort)
	}
}

// abort unblocks the Read or Write that the handshake may be in.
func (d *driver) abort() {
	defer d.closing.Done()
	if c, ok := d.rw.(io.Closer); ok {
		c.Close()
	}
}

// finish turns the outcome of the steps into what the caller gets. A context that was done before
// wins over it, also over success, since rw is closed then.
func (d *driver) finish(s Secrets, err error) (Secrets, error) {
	if d.stop != nil && !d.stop() {
		d.closing.Wait()
		err = d.ctx.Err()
		if cause := context.Cause(d.ctx); cause != err {
			err = fmt.Errorf("%w: %w", err, cause)
		}
	}
	if err == nil {
		return s, nil
	}
	s.wipe()
	if _, ok := err.(*Error); !ok {
		err = &Error{d.role, d.step, err}
	}
	return Secrets{}, err
}

// write sends a packet in one call. The context is looked at here and in read for the sake of an rw
// that cannot be closed.
func (d *driver) write(packet []byte) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	d.steps.sending(d.step, len(packet))
	n, err := d.rw.Write(packet)
	if err == nil && n < len(packet) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return writeError(err)
	}
	d.steps.sent(d.step, len(packet))
	return nil
}

// read returns the next packet, prefix included, and room in which to decrypt it: empty, and with
// capacity for its message. Memory is taken only after the size was found to be in range.
func (d *driver) read() (packet, room []byte, err error) {
	if err := d.ctx.Err(); err != nil {
		return nil, nil, err
	}
	if n, err := io.ReadFull(d.rw, d.prefix[:]); err != nil {
		return nil, nil, readError(err, n)
	}
	size, err := checkSize(d.prefix)
	if err != nil {
		return nil, nil, err
	}
	n := prefixSize + size
	buf := make([]byte, n, n+size-eciesOverhead)
	copy(buf, d.prefix[:])
	if n, err := io.ReadFull(d.rw, buf[prefixSize:]); err != nil {
		return nil, nil, readError(err, prefixSize+n)
	}
	if err := d.steps.received(d.step, n); err != nil {
		return nil, nil, err
	}
	return buf[:n:n], buf[n:], nil
}
