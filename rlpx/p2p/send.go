package p2p

import (
	"context"

	"github.com/ethereum/go-ethereum/rlp"

	"github.com/go-rlpx/transport/rlpx"
)

// Message is one of the messages of Channel.WriteBatch.
type Message struct {
	ID   uint64
	Data []byte // neither kept nor modified
}

// code returns the code under which message id travels, or why nothing can be sent: from the
// beginning of the session's end on, its error, though the connection may still be open.
func (ch *Channel) code(id uint64) (uint64, error) {
	if ch == nil {
		return 0, ErrNotShared
	}
	select {
	case <-ch.session.ending:
		return 0, ch.session.Err()
	default:
		return ch.shared.Code(id)
	}
}

// Write sends a message. An id that is not below the capability's Length gives ErrInvalidMessageID,
// a message that is too large an error that matches rlpx.ErrMessageTooBig; neither changes
// anything. After any other error, which is that of Session.Err, the session has ended.
//
// Write returns when the message was handed to the network. Goroutines that write at once take
// turns; messages go out whole. data is neither kept nor modified.
func (ch *Channel) Write(id uint64, data []byte) error {
	return ch.WriteContext(context.Background(), id, data)
}

// WriteContext is Write with a context. If ctx ends while the message waits for those before it,
// the message is not sent, the error is that of ctx, and the session goes on. Once the message is
// being sent, WriteContext waits for the end of that, which SessionConfig.WriteTimeout bounds.
func (ch *Channel) WriteContext(ctx context.Context, id uint64, data []byte) error {
	code, err := ch.code(id)
	if err != nil {
		return err
	}
	_, err = ch.session.conn.WriteContext(ctx, code, data)
	return ch.session.written(ctx, err)
}

// WritePayload is WriteContext with data that was compressed before, once for many peers.
func (ch *Channel) WritePayload(ctx context.Context, id uint64, p *rlpx.Payload) error {
	code, err := ch.code(id)
	if err != nil {
		return err
	}
	_, err = ch.session.conn.WritePayloadContext(ctx, code, p)
	return ch.session.written(ctx, err)
}

// WriteBatch sends messages in their order with as few calls on the network as possible, as
// rlpx.Conn.WriteBatch does: all of them, or none if one of them has a bad id or is too large.
// Without messages, it waits until all that was sent before is written.
func (ch *Channel) WriteBatch(ctx context.Context, msgs []Message) error {
	if ch == nil {
		return ErrNotShared
	}
	batch := make([]rlpx.Message, len(msgs))
	for i, m := range msgs {
		code, err := ch.code(m.ID)
		if err != nil {
			return err
		}
		batch[i] = rlpx.Message{Code: code, Data: m.Data}
	}
	_, err := ch.session.conn.WriteBatchContext(ctx, batch)
	return ch.session.written(ctx, err)
}

// WriteRLP is WriteContext with the RLP encoding of val.
func (ch *Channel) WriteRLP(ctx context.Context, id uint64, val any) error {
	data, err := rlp.EncodeToBytes(val)
	if err != nil {
		return err
	}
	return ch.WriteContext(ctx, id, data)
}

// Send queues a message and returns without waiting for anything. data is copied, or compressed,
// before. What is queued for a peer is bounded by rlpx.Config.SendQueue: over that, Send returns
// rlpx.ErrQueueFull, and nothing has changed. The peer then reads slower than messages are sent to
// it. Write waits for its turn behind what is queued.
//
// Other errors are those of Write, though Session.Err may follow only within a second: the peer's
// reason may be in what it sent. That a message was queued does not say that it will be written:
// the end of the session drops what is queued. [Channel.WriteBatch] without messages waits for it.
func (ch *Channel) Send(id uint64, data []byte) error {
	code, err := ch.code(id)
	if err != nil {
		return err
	}
	return ch.session.posted(ch.session.conn.Send(code, data))
}

// SendPayload is Send with data that was compressed before, once for many peers. It copies nothing.
func (ch *Channel) SendPayload(id uint64, p *rlpx.Payload) error {
	code, err := ch.code(id)
	if err != nil {
		return err
	}
	return ch.session.posted(ch.session.conn.SendPayload(code, p))
}

// SendRLP is Send with the RLP encoding of val.
func (ch *Channel) SendRLP(id uint64, val any) error {
	data, err := rlp.EncodeToBytes(val)
	if err != nil {
		return err
	}
	return ch.Send(id, data)
}
