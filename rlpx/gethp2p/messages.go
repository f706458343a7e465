package gethp2p

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	geth "github.com/ethereum/go-ethereum/p2p"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// maxMessageSize is the largest message that the protocol knows, in bytes before compression.
const maxMessageSize = 1<<24 - 1

// messages is the MsgReadWriter of a protocol. It may be used by several goroutines at once.
type messages struct{ ch *p2p.Channel }

// ReadMsg returns the next message. Its payload belongs to the caller. After the end of the session
// it returns what was received before. Then follows the reason of the peer's Disconnect, or io.EOF
// if there was none.
func (m *messages) ReadMsg() (geth.Msg, error) {
	id, data, err := m.ch.Read(context.Background())
	if err != nil {
		return geth.Msg{}, readError(err)
	}
	return geth.Msg{
		Code: id, Size: uint32(len(data)), Payload: bytes.NewReader(data), ReceivedAt: time.Now(),
	}, nil
}

// readError makes what a protocol expects of the error of a session that has ended.
func readError(err error) error {
	disconnect, ok := errors.AsType[*p2p.DisconnectError](err)
	switch {
	case !ok || !disconnect.Remote:
		return io.EOF
	case disconnect.Reason == p2p.DiscUnspecified:
		return geth.DiscReason(geth.DiscInvalid)
	default:
		return geth.DiscReason(disconnect.Reason)
	}
}

// WriteMsg reads Size bytes of the payload and sends them. It returns when they were handed to the
// network. If the code is not below the protocol's Length, the payload is too short, or the message
// too large, nothing is sent and the session goes on. After the end of the session the error is
// p2p.ErrShuttingDown.
func (m *messages) WriteMsg(msg geth.Msg) error {
	if _, err := m.ch.Shared().Code(msg.Code); err != nil {
		return err
	}
	if msg.Size > maxMessageSize {
		return fmt.Errorf("gethp2p: %w: %d bytes", rlpx.ErrMessageTooBig, msg.Size)
	}
	buf := buffers.Get().(*bytes.Buffer)
	defer recycle(buf)
	if msg.Size > 0 {
		buf.Grow(int(msg.Size))
		data := buf.AvailableBuffer()[:msg.Size]
		if _, err := io.ReadFull(msg.Payload, data); err != nil {
			return fmt.Errorf("gethp2p: payload of message %#x: %w", msg.Code, err)
		}
		buf.Write(data)
	}
	err := m.ch.Write(msg.Code, buf.Bytes())
	if err != nil && m.ch.Session().Err() != nil && !errors.Is(err, rlpx.ErrMessageTooBig) {
		return geth.ErrShuttingDown
	}
	return err
}

// maxKept is the size of the largest buffer that is kept for later messages, in bytes.
const maxKept = 1 << 20

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func recycle(buf *bytes.Buffer) {
	if buf.Cap() <= maxKept {
		buf.Reset()
		buffers.Put(buf)
	}
}

// eof is a payload without a byte.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }
