package p2p

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/rlpx"
)

// HelloTimeout bounds the exchange of Hello where neither the context nor the encrypted handshake
// had a deadline. It is what go-ethereum allows.
const HelloTimeout = 5 * time.Second

// Handshake exchanges Hello over a connection whose encrypted handshake is done, and returns the
// peer's. Messages after it are compressed if both versions ask for that, also those that came
// together with the peer's Hello.
//
// A nil ours stands for a zero one. In ours, a Version of 0 means Version, and an ID of zeros the
// key of the encrypted handshake, from which it must not differ. The returned Hello has the ID that
// the peer proved to own.
//
// All of it happens before ctx is done. If ctx has no deadline, that of the encrypted handshake
// (rlpx.Config.HandshakeTimeout, from accept or dial on) bounds Hello as well, so that a peer
// cannot take the time twice; call Handshake as soon as the connection is there. Deadlines that
// were set on the connection hold beside. A peer that says Disconnect instead of Hello gives a
// *DisconnectError. Where something is wrong with the peer or its Hello, the error says what, and
// the peer is sent the reason that ReasonFor gives.
//
// After any error the connection is closed, with our Disconnect sent before if that was possible
// within a second. Nothing that Handshake started is left when it returns.
func Handshake(ctx context.Context, conn *rlpx.Conn, ours *Hello) (*Hello, error) {
	state := conn.ConnectionState()
	x := &helloExchange{conn: conn, local: nodeID(state.LocalKey), remote: nodeID(state.RemoteKey)}
	if err := x.prepare(ours); err != nil {
		// Our own mistake, of which the peer needs no details.
		Refuse(conn, DiscRequested)
		return nil, err
	}
	if bytes.Equal(x.local, x.remote) {
		Refuse(conn, ReasonFor(ErrSelf))
		return nil, ErrSelf
	}
	if _, ok := ctx.Deadline(); !ok {
		deadline := state.HandshakeDeadline
		if deadline.IsZero() {
			deadline = time.Now().Add(HelloTimeout)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	return x.run(ctx)
}

// nodeID returns the key as Hello has it, nil if there is none.
func nodeID(key *ecdsa.PublicKey) []byte {
	if key == nil {
		return nil
	}
	return crypto.FromECDSAPub(key)[1:] // without the 0x04 of the uncompressed form
}

// helloExchange is one run of Handshake.
type helloExchange struct {
	conn          *rlpx.Conn
	local, remote []byte // keys of the encrypted handshake
	snappy        bool   // our version asks for compression
	payload       []byte // our Hello

	written  chan struct{} // closed when the write of our Hello returned
	writeErr error         // set before written is closed
}

// prepare completes our Hello and encodes it.
func (x *helloExchange) prepare(ours *Hello) (err error) {
	if x.local == nil || x.remote == nil {
		return errors.New("p2p: Hello on a connection without an encrypted handshake")
	}
	hello := Hello{}
	if ours != nil {
		hello = *ours
	}
	if hello.Version == 0 {
		hello.Version = Version
	}
	if hello.ID == [IDLength]byte{} {
		hello.ID = [IDLength]byte(x.local)
	}
	if !bytes.Equal(hello.ID[:], x.local) {
		return errors.New("p2p: ID of our Hello is not our key in the encrypted handshake")
	}
	x.snappy = hello.Snappy()
	x.payload, err = AppendHello(nil, &hello)
	return err
}

// run does the exchange, and says Disconnect and closes the connection if it fails.
func (x *helloExchange) run(parent context.Context) (*Hello, error) {
	ctx, cancel := context.WithCancel(parent)
	var writer sync.WaitGroup
	defer writer.Wait()
	defer cancel()

	x.conn.SetSnappy(false)
	x.conn.SetMessageLimit(baseLimits)
	limit := x.conn.ReadLimit()
	x.conn.SetReadLimit(smaller(limit, 1+HelloLimit)) // with the code

	// ctx unblocks what waits for the peer; the connection can still say Disconnect after that.
	exchanged, unblocked, closed := make(chan struct{}), make(chan struct{}), false
	stop := context.AfterFunc(ctx, func() {
		defer close(unblocked)
		if x.conn.SetDeadline(time.Unix(1, 0)) == nil {
			select {
			case <-exchanged:
				return
			case <-time.After(impatience):
			}
		}
		closed = true // some tunnels have no deadlines, and some do not say so
		x.conn.Close()
	})

	// Both ends send Hello before they read one, and the connection may have no buffer.
	x.written = make(chan struct{})
	writer.Go(func() {
		_, x.writeErr = x.conn.Write(HelloCode, x.payload)
		close(x.written)
		if x.writeErr == nil {
			return
		}
		// Why the peer does not want our Hello may be among what we have yet to read, but a peer
		// that says nothing must not hold us until the end of ctx.
		select {
		case <-time.After(disconnectTimeout):
			cancel()
		case <-ctx.Done():
		}
	})

	theirs, err := x.exchange()
	close(exchanged)
	if !stop() {
		<-unblocked
		ours := err == nil || isTimeout(err) || closed && errors.Is(err, net.ErrClosed)
		if reason := parent.Err(); reason != nil && ours {
			err = fmt.Errorf("p2p: waiting for Hello: %w", reason)
		} else if ours {
			err = x.writeErr
		}
	}
	if err == nil {
		x.conn.SetReadLimit(limit)
		return theirs, nil
	}
	switch disconnect, ok := errors.AsType[*DisconnectError](err); {
	case ok && disconnect.Remote:
		release(x.conn)
	case parent.Err() != nil:
		refuse(x.conn, ReasonFor(err), impatience, x.written)
	default:
		refuse(x.conn, ReasonFor(err), disconnectTimeout, x.written)
	}
	return nil, err
}

// baseLimits is for rlpx.Conn.SetMessageLimit: the program's own limits are for messages of
// capabilities.
func baseLimits(code uint64) (plainBytes int, own bool) { return maxMessageSize, code < BaseLength }

// smaller returns the smaller of a limit that the caller has set, 0 if none, and ours.
func smaller(callers, ours int) int {
	if callers <= 0 {
		return ours
	}
	return min(callers, ours)
}

// exchange waits for the peer's Hello, and for ours to be written.
func (x *helloExchange) exchange() (*Hello, error) {
	theirs, err := x.readHello()
	if err != nil {
		return nil, err
	}
	// That its Hello verified, as every frame must, is the peer's proof that it owns this key.
	if !bytes.Equal(theirs.ID[:], x.remote) {
		return nil, fmt.Errorf("%w: id starts with %x instead of %x", ErrUnexpectedIdentity, theirs.ID[:8], x.remote[:8])
	}
	<-x.written
	snappy := x.snappy && theirs.Snappy()
	x.conn.SetSnappy(snappy)
	if x.writeErr != nil {
		return nil, lastWord(x.conn, snappy, x.writeErr)
	}
	return theirs, nil
}

// readHello reads the first message of the peer.
func (x *helloExchange) readHello() (*Hello, error) {
	code, payload, wireSize, err := x.conn.Read()
	switch {
	case code == DisconnectCode:
		return nil, readDisconnect(payload, wireSize, false, err)
	case errors.Is(err, rlpx.ErrMessageTooBig):
		return nil, fmt.Errorf("%w: %w", ErrHelloTooBig, err)
	case err != nil:
		return nil, fmt.Errorf("p2p: waiting for Hello: %w", err)
	case code == HelloCode:
		return DecodeHello(payload)
	default:
		return nil, fmt.Errorf("%w: code %#x before Hello", ErrUnexpectedMessage, code)
	}
}
