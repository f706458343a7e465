package rlpx

import (
	"encoding/binary"
	"sync"

	"github.com/golang/snappy"

	"github.com/go-rlpx/transport/internal/bufpool"
)

// An item is one call of Write, WriteBatch and the like, or what one or several calls of Send left.
// It is the cursor over its messages, too: next gives those that are yet to be sealed.
type item struct {
	next  *item // in the list that has it
	state int8  // guarded by mu of the half, like chosen and cost

	// The messages: either msgs, whose data belongs to the caller or is held by block or shared,
	// or records, see appendRecord.
	msgs     []Message
	one      [1]Message // behind msgs, if it is one
	records  []byte
	compress bool // the data of msgs is to be compressed
	plain    int  // size before compression of the one message of msgs whose data is compressed, else -1

	bound int // at most so many bytes of frames

	// Memory to be given back once the messages are sealed.
	block  bufpool.Buffer
	dirty  int // so much of block
	shared *sharedPayload
	cost   int // of writeHalf.posted

	// Who is told of the end: a goroutine that waits, a broadcast, or nobody.
	waited bool
	chosen bool      // the goroutine that waits is the owner
	woken  sync.Cond // L is mu of the half; signals that the item is done or chosen
	cast   *broadcast
	index  int // in cast

	wire int // payload bytes, as Write returns them
	err  error
}

// States of an item.
const (
	queued int8 = iota
	taken
	finished
)

// outgoing is a message to be sealed.
type outgoing struct {
	code     uint64
	data     []byte
	plain    int  // size of the data before compression
	compress bool // the data is yet to be compressed
}

// message takes the first message that is left.
func (it *item) message() (m outgoing, ok bool) {
	if len(it.msgs) > 0 {
		msg := &it.msgs[0]
		it.msgs = it.msgs[1:]
		m = outgoing{code: msg.Code, data: msg.Data, plain: len(msg.Data), compress: it.compress}
		if it.plain >= 0 {
			m.plain = it.plain
		}
		return m, true
	}
	if len(it.records) > 0 {
		m, it.records = cutRecord(it.records)
		return m, true
	}
	return m, false
}

// bound is the most that the frame of a message can take.
func (m *outgoing) bound() int {
	n := len(m.data)
	if m.compress {
		n = snappy.MaxEncodedLen(n)
	}
	return wireLen(maxCodeLen + n)
}

// A record is a small message of Send in the buffer that it shares with others: code, size before
// compression and size, all as varints, and the payload as it goes on the wire.

// maxRecordHead is the longest head of a record.
const maxRecordHead = 3 * binary.MaxVarintLen64

func appendRecord(dst []byte, m outgoing) []byte {
	dst = binary.AppendUvarint(dst, m.code)
	dst = binary.AppendUvarint(dst, uint64(m.plain))
	dst = binary.AppendUvarint(dst, uint64(len(m.data)))
	return append(dst, m.data...)
}

func cutRecord(records []byte) (m outgoing, rest []byte) {
	var fields [3]uint64
	for i := range fields {
		var n int
		fields[i], n = binary.Uvarint(records)
		records = records[n:]
	}
	n := fields[2]
	return outgoing{code: fields[0], plain: int(fields[1]), data: records[:n:n]}, records[n:]
}

// newItem returns an empty item.
func (out *writeHalf) newItem() *item {
	if it := out.spare.Swap(nil); it != nil {
		return it
	}
	return itemPool.Get().(*item)
}

// itemPool has the items of connections that need more than one.
var itemPool = sync.Pool{New: func() any { return &item{plain: -1} }}

// free ends the use of an item that is done, or was never queued.
func (it *item) free(out *writeHalf) {
	it.release()
	*it = item{plain: -1}
	if !out.spare.CompareAndSwap(nil, it) {
		itemPool.Put(it)
	}
}

// set makes a message the one of it.
func (it *item) set(code uint64, data []byte, compress bool) {
	it.one[0] = Message{code, data}
	it.msgs, it.compress = it.one[:], compress
	m := outgoing{data: data, compress: compress}
	it.bound = m.bound()
}

// release gives back the memory of the messages.
func (it *item) release() {
	if it.block.Held() {
		it.block.Release(it.dirty)
	}
	if it.shared != nil {
		it.shared.release()
		it.shared = nil
	}
	it.msgs, it.records = nil, nil
	it.one[0] = Message{}
}

// tell tells of the end of an item that is done, and that no goroutine waits for. Afterwards the
// item is another's.
func (it *item) tell(out *writeHalf) {
	switch {
	case it.cast != nil:
		it.cast.ended(it)
	default:
		it.free(out)
	}
}

// tell is tell for all of l.
func (l items) tell(out *writeHalf) {
	for it := l.pop(); it != nil; it = l.pop() {
		it.tell(out)
	}
}

// items is a list of items, first in first out.
type items struct{ first, last *item }

func (l *items) push(it *item) {
	it.next = nil
	if l.first == nil {
		l.first = it
	} else {
		l.last.next = it
	}
	l.last = it
}

func (l *items) pop() *item {
	it := l.first
	if it != nil {
		l.first = it.next
		it.next = nil
	}
	return it
}

// append moves all of other behind l.
func (l *items) append(other *items) {
	if other.first == nil {
		return
	}
	if l.first == nil {
		*l = *other
	} else {
		l.last.next = other.first
		l.last = other.last
	}
	*other = items{}
}

// remove takes it out. It reports false if it is not there.
func (l *items) remove(it *item) bool {
	var before *item
	for at := l.first; at != nil; before, at = at, at.next {
		if at != it {
			continue
		}
		if before == nil {
			l.first = it.next
		} else {
			before.next = it.next
		}
		if l.last == it {
			l.last = before
		}
		it.next = nil
		return true
	}
	return false
}
