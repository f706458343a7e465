package p2p

import (
	"context"
	"sync"

	"github.com/go-rlpx/transport/rlpx"
)

// Broadcast sends one message to many peers and waits for all, each as Channel.WriteContext would.
// Data is compressed once, and several frames are sealed together, as rlpx.WriteAll does. ctx
// bounds the wait of what is not being sent yet.
//
// The result is nil if all went well, else errs[i] is what happened to channels[i]; ErrNotShared
// for a nil Channel. data is neither kept nor modified. A peer that does not read holds up the
// return until its SessionConfig.WriteTimeout: see SendAll.
func Broadcast(ctx context.Context, channels []*Channel, id uint64, data []byte) (errs []error) {
	l := newTargets(channels, id)
	defer l.free()
	errs = rlpx.WriteAll(ctx, l.targets, data)
	return l.errors(channels, errs, func(s *Session, err error) error { return s.written(ctx, err) })
}

// SendAll sends one message to many peers and returns without waiting for any of them, each as
// Channel.Send would. The data is compressed or copied once, and all peers share it. A peer whose
// queue is full has rlpx.ErrQueueFull in the result, which is as for Broadcast.
func SendAll(channels []*Channel, id uint64, data []byte) (errs []error) {
	l := newTargets(channels, id)
	defer l.free()
	errs = rlpx.SendAll(l.targets, data)
	return l.errors(channels, errs, (*Session).posted)
}

// targetList is the scratch of a Broadcast.
type targetList struct {
	targets []rlpx.Target
	bad     []error // of channels that have no such message; nil if there are none
}

var targetLists = sync.Pool{New: func() any { return new(targetList) }}

// newTargets makes targets of channels. One that has no such message becomes a target without a
// connection.
func newTargets(channels []*Channel, id uint64) *targetList {
	l := targetLists.Get().(*targetList)
	for i, ch := range channels {
		t := rlpx.Target{}
		if code, err := ch.code(id); err == nil {
			t = rlpx.Target{Conn: ch.session.conn, Code: code}
		} else {
			if l.bad == nil {
				l.bad = make([]error, len(channels))
			}
			l.bad[i] = err
		}
		l.targets = append(l.targets, t)
	}
	return l
}

func (l *targetList) free() {
	clear(l.targets)
	l.targets, l.bad = l.targets[:0], nil
	targetLists.Put(l)
}

// errors makes errors of sessions of those of connections.
func (l *targetList) errors(channels []*Channel, errs []error, of func(*Session, error) error) []error {
	for i, err := range errs {
		switch {
		case err == nil:
		case l.bad != nil && l.bad[i] != nil:
			errs[i] = l.bad[i]
		default:
			errs[i] = of(channels[i].session, err)
		}
	}
	return errs
}
