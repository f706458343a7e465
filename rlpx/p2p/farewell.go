package p2p

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/go-rlpx/transport/rlpx"
)

// How long the end of a connection may take.
const (
	// disconnectTimeout bounds all of it: what is under way, our Disconnect, and the wait for the
	// peer to have it. It also bounds how long we look for the peer's reason after a write failed.
	// go-ethereum gives its Disconnect as long.
	disconnectTimeout = time.Second

	// impatience takes its place where the caller's context is done: time enough for a peer that
	// reads, little for one that does not.
	impatience = 100 * time.Millisecond

	// writeGrace is what each call under way on the net.Conn gets to return when the session ends.
	// Part of a frame may be on the wire: then a Disconnect can come after the whole frame, or not
	// at all.
	writeGrace = 100 * time.Millisecond

	// linger is how long the peer may take to close after it was sent our Disconnect. Closing at
	// once, with data of the peer unread, makes TCP send a reset, which on some systems discards
	// what the peer has not read yet: our Disconnect. It covers a round trip of a quarter of the
	// Earth.
	linger = 200 * time.Millisecond
)

// Refuse tells the peer why it is turned away and closes conn. The Disconnect has one second to be
// sent, and the peer another 200 ms to read it. Refuse takes the place of Handshake or NewSession,
// for a node that has no room for instance: in the specification, a Disconnect may take the place
// of Hello. It returns nil if the Disconnect was sent.
func Refuse(conn *rlpx.Conn, reason DiscReason) error {
	return refuse(conn, reason, disconnectTimeout, nil)
}

// refuse is Refuse within the given time. If written is not nil, a write is under way that is to go
// first, and written is closed when it is done.
func refuse(conn *rlpx.Conn, reason DiscReason, within time.Duration, written <-chan struct{}) error {
	if !conn.ConnectionState().HandshakeComplete {
		conn.Close()
		return errors.New("p2p: Disconnect on a connection without an encrypted handshake")
	}
	conn.SetDeadline(time.Now().Add(within))
	// For a connection that has no deadlines, and a peer that neither reads nor writes.
	timer := time.AfterFunc(within+linger, func() { conn.Close() })
	defer timer.Stop()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		drain(conn)
	}()
	if written != nil {
		<-written
	}
	err := sayDisconnect(conn, net.ErrClosed, reason, drained)
	conn.Close()
	<-drained
	release(conn)
	return err
}

// release closes conn, from which nobody reads any more, and has it give back the buffer of the
// message that was read last: whoever still refers to conn must not hold that.
func release(conn *rlpx.Conn) {
	conn.Close()
	conn.Read()
}

// sayDisconnect writes a Disconnect as the last message and lets the peer read it. Other writers
// get cause. Somebody must read from conn meanwhile, since the peer may be unable to read before it
// has written, and close drained when the peer is through. Afterwards conn is to be closed.
func sayDisconnect(conn *rlpx.Conn, cause error, reason DiscReason, drained <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), disconnectTimeout)
	defer cancel()
	err := conn.WriteLast(ctx, cause, writeGrace, DisconnectCode, AppendDisconnect(nil, reason))
	// What has no way to end one direction, such as a pipe, has no buffer that a close discards.
	if _, ok := conn.NetConn().(interface{ CloseWrite() error }); err != nil || !ok {
		return err
	}
	timer := time.NewTimer(linger)
	defer timer.Stop()
	select {
	case <-drained:
	case <-timer.C:
	}
	return nil
}

// drain drops what a peer sends until it ends the connection or says Disconnect, the read deadline
// expires, or conn is closed.
func drain(conn *rlpx.Conn) {
	for {
		code, _, _, err := conn.Read()
		if errors.Is(err, rlpx.ErrProtocol) {
			// No messages come any more, but bytes do.
			io.Copy(io.Discard, conn.NetConn())
		}
		if err != nil || code == DisconnectCode {
			return
		}
	}
}

// lastWord looks for the peer's Disconnect in what it still sends after a write failed with cause:
// its reason explains more. It returns cause if there is none before the read deadline.
func lastWord(conn *rlpx.Conn, snappy bool, cause error) error {
	for {
		code, payload, wireSize, err := conn.Read()
		if code == DisconnectCode {
			return readDisconnect(payload, wireSize, snappy, err)
		}
		if err != nil {
			return cause
		}
	}
}

// readDisconnect makes an error of a Disconnect, given what Read returned with its code. One that
// cannot be decompressed or is over a limit is still a Disconnect: some clients do not compress
// theirs.
func readDisconnect(payload []byte, wireSize int, snappy bool, err error) *DisconnectError {
	reason := DiscUnspecified
	if undecodable, ok := errors.AsType[*rlpx.PayloadError](err); ok {
		reason = DecodeWireDisconnect(undecodable.Payload, true)
	} else if err == nil {
		reason = DecodeWireDisconnect(payload, false)
		if snappy && len(payload) == 0 && wireSize > 0 {
			reason = DiscRequested // a lone zero byte: see DecodeWireDisconnect
		}
	}
	return &DisconnectError{Reason: reason, Remote: true}
}

// isTimeout reports whether err is an expired deadline.
func isTimeout(err error) bool {
	netErr, ok := errors.AsType[net.Error](err)
	return ok && netErr.Timeout()
}
