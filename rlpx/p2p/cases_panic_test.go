package p2p

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
)

// panicChild names the callback in which the process is to panic.
const panicChild = "RLPX_TEST_PANIC_IN"

// A callback that a session's reader calls has nobody above it who could recover: a panic there
// ends the process with its own words, and not with those of a lock or of a wait for ever.
func TestCase_N13_PanicInReader(t *testing.T) {
	if name := os.Getenv(panicChild); name != "" {
		h := &hooked{name: name, f: func(*Session) { panic("in " + name) }}
		_, p := h.start(t)
		p.send(0x14, nil)
		p.Conn.Close()
		<-t.Context().Done()
		return
	}
	for _, name := range []string{"rlpx.Trace.FrameRead", "rlpx.Trace.ReadFailed", "rlpx.Config.MessageLimit", "Capability.Handle"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			cmd := rlpxtest.Again(ctx, t, "TestCase_N13_PanicInReader", panicChild+"="+name)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			err := cmd.Run()
			text := out.String()
			_, exited := errors.AsType[*exec.ExitError](err)
			if !exited || !strings.Contains(text, "panic: in "+name) || strings.Contains(text, "fatal error") ||
				strings.Contains(text, "test timed out") {
				t.Errorf("%v\n%.2000s", err, text)
			}
		})
	}
}

// A callback that is called by the goroutine of a Write: the panic reaches that goroutine, and the
// session ends, for all. A Broadcast may have a goroutine of its own write, where the panic becomes
// an error.
func TestCase_N13_PanicInWriter(t *testing.T) {
	for _, name := range []string{"rlpx.Trace.FrameWritten", "rlpx.Trace.Flushed"} {
		for way, write := range map[string]func(ch *Channel){
			"Write":     func(ch *Channel) { ch.Write(0, nil) },
			"Broadcast": func(ch *Channel) { Broadcast(context.Background(), []*Channel{ch}, 0, nil) },
		} {
			t.Run(name+"/"+way, func(t *testing.T) {
				h := &hooked{name: name, f: func(*Session) { panic("in " + name) }}
				s, p := h.start(t)
				go p.rest()
				func() {
					defer func() {
						got := recover()
						if way == "Broadcast" && got == nil {
							return // it was in a goroutine of the Broadcast: the error says it
						}
						if got != "in "+name {
							t.Errorf("panic %v", got)
						}
					}()
					write(s.Capability("aaa"))
				}()
				if err := s.Capability("aaa").Write(0, nil); err == nil {
					t.Error("a later Write succeeds")
				}
				<-s.Done()
				if _, ok := errors.AsType[*rlpx.PanicError](s.Err()); !ok {
					t.Error(s.Err())
				}
				s.Close()
			})
		}
	}
}
