package rlpx

import (
	"fmt"
	"io"
	"reflect"
	"sync"

	"github.com/go-rlpx/transport/handshake"
)

// logKeys writes the line of a session to the Config's KeyLogWriter. A log that cannot be written
// must not cost the connection.
func (c *Conn) logKeys(sec *handshake.Secrets) {
	w := c.cfg.KeyLogWriter
	if w == nil {
		return
	}
	line := fmt.Sprintf("RLPX %x %x %x %x %x\n",
		sec.EphemeralX, sec.AES, sec.MAC, sec.InitiatorNonce, sec.RecipientNonce)
	defer c.crew.outside()()
	defer keyLogs.lock(w)()
	_, _ = io.WriteString(w, line)
}

// keyLogs serialises the lines of all sessions that share a writer. A writer that blocks must not
// hold up sessions with another.
var keyLogs = keyLogLocks{held: map[any]*keyLogLock{}}

type keyLogLocks struct {
	mu   sync.Mutex
	held map[any]*keyLogLock // by writer, as long as somebody uses it
}

type keyLogLock struct {
	mu    sync.Mutex
	users int // guarded by keyLogLocks.mu
}

// lock waits for its turn to write to w, until unlock is called.
func (l *keyLogLocks) lock(w io.Writer) (unlock func()) {
	var key any = w
	if !reflect.ValueOf(w).Comparable() {
		key = reflect.TypeOf(w) // there is no telling such writers apart
	}
	l.mu.Lock()
	lock := l.held[key]
	if lock == nil {
		lock = new(keyLogLock)
		l.held[key] = lock
	}
	lock.users++
	l.mu.Unlock()

	lock.mu.Lock()
	return func() {
		lock.mu.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if lock.users--; lock.users == 0 {
			delete(l.held, key)
		}
	}
}
