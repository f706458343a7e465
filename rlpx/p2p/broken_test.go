package p2p

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A tick that was under way when a write failed must not put off the end of the session.
func TestTickDoesNotPutOffTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := pipe.session(t, &SessionConfig{Capabilities: testCaps, PingInterval: -1, ReadTimeout: -1})
		fault := errors.New("fault")
		start := time.Now()
		s.writeFailed(fault)
		s.again(never) // what the tick found before
		wantDone(t, s, fault)
		if took := time.Since(start); took > disconnectTimeout {
			t.Errorf("took %v", took)
		}
	})
}
