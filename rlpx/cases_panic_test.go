package rlpx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// wantPanic calls f and fails the test unless it panics with value.
func wantPanic(t testing.TB, value any, f func()) {
	t.Helper()
	defer func() {
		if got := recover(); got != value {
			t.Errorf("panic %v, want %v", got, value)
		}
	}()
	f()
}

// nothingHangs uses a connection after a panic in every way, and fails the test if one does not
// come back.
func nothingHangs(t testing.TB, conn *Conn) {
	t.Helper()
	over := make(chan struct{})
	go func() {
		defer close(over)
		conn.ConnectionState()
		conn.Close()
		if _, err := conn.Write(1, nil); err == nil {
			t.Error("Write succeeds after Close")
		}
		if _, err := conn.WriteBatch([]Message{{Code: 1}}); err == nil {
			t.Error("WriteBatch succeeds after Close")
		}
		if errs := Broadcast([]*Conn{conn}, 1, nil); errs == nil {
			t.Error("Broadcast succeeds after Close")
		}
		if _, _, _, err := conn.Read(); err == nil {
			t.Error("Read succeeds after Close")
		}
		if conn.ConnectionState().HandshakeComplete {
			return // another handshake panics
		}
		if _, err := conn.HandshakeContext(context.Background()); err == nil {
			t.Error("a handshake succeeds after Close")
		}
	}()
	select {
	case <-over:
	case <-time.After(time.Minute):
		t.Fatal("something hangs")
	}
}

// A panic in a callback that is called by a goroutine of the user reaches that goroutine, and
// nothing hangs after it.
func TestCase_N13_PanicInCallback(t *testing.T) {
	for _, name := range []string{
		"VerifyPeer", "KeyLogWriter", "MessageLimit", "Trace.AuthReceived", "Trace.AckSent", "Trace.HandshakeDone",
		"Trace.FrameRead", "Trace.FrameWritten", "Trace.Flushed", "Trace.ReadFailed", "Trace.WriteFailed",
	} {
		t.Run(name, func(t *testing.T) {
			cfg := callback(t, func(called string) {
				if called == name {
					panic(name)
				}
			})
			var conn *Conn
			wantPanic(t, name, func() { exerciseConn(t, cfg, func(c *Conn) { conn = c }) })
			nothingHangs(t, conn)
		})
	}
}

// The same for an initiator, and for a Dialer, which closes the connection that nobody gets.
func TestCase_N13_PanicInDial(t *testing.T) {
	for _, name := range []string{"Trace.AuthSent", "Trace.AckReceived", "Trace.HandshakeDone", "KeyLogWriter"} {
		t.Run(name, func(t *testing.T) {
			key := newKey(t)
			cfg := callback(t, func(called string) {
				if called == name || "Trace."+called == name {
					panic(name)
				}
			})
			watched := &watchedConn{}
			d := Dialer{Config: cfg, DialContext: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				watched.Conn = ours
				go Server(theirs, &Config{Key: key}).HandshakeContext(context.Background())
				return watched, nil
			}}
			wantPanic(t, name, func() { d.Dial(t.Context(), "pipe", "peer", &key.PublicKey) })
			if n := watched.closes.Load(); n != 1 {
				t.Errorf("closed %d times", n)
			}
		})
	}
}

// A panic of the net.Conn in Read reaches the caller, and nothing hangs after it.
func TestCase_N13_PanicOfTheNetConnInRead(t *testing.T) {
	filter := &rlpxtest.Filter{OnRead: func(net.Conn, []byte) (int, error) { panic("fault of the net.Conn") }}
	conn, _, _ := recorded(nil, func(inner net.Conn) net.Conn {
		filter.Conn = inner
		return filter
	}, sealing([]byte("x")))
	wantPanic(t, "fault of the net.Conn", func() { conn.Read() })
	over := make(chan struct{})
	go func() {
		defer close(over)
		conn.ConnectionState()
		if _, _, _, err := conn.Read(); !errors.As(err, new(*PanicError)) {
			t.Errorf("then Read returns %v", err)
		}
		conn.Close()
	}()
	<-over
}

// panicChild names what the process is to panic in.
const panicChild = "RLPX_TEST_PANIC_IN"

// In a goroutine that this package started for a Listener nobody can recover: a panic there ends
// the process, with its own words, and not with those of a lock or of a wait for ever.
func TestCase_N13_PanicInListener(t *testing.T) {
	if name := os.Getenv(panicChild); name != "" {
		listenAndPanic(t, name)
		return
	}
	for _, name := range []string{
		"Allow", "VerifyPeer", "KeyLogWriter", "Trace.AuthReceived", "Trace.AckSent", "Trace.HandshakeDone", "OnError",
	} {
		t.Run(name, func(t *testing.T) {
			wantCrash(t, "TestCase_N13_PanicInListener", name)
		})
	}
}

// wantCrash runs a test in a process of its own that is to end with a panic of name.
func wantCrash(t *testing.T, test, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := rlpxtest.Again(ctx, t, test, panicChild+"="+name)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	text := out.String()
	_, exited := errors.AsType[*exec.ExitError](err)
	if !exited || !strings.Contains(text, "panic: in "+name) || strings.Contains(text, "fatal error") ||
		strings.Contains(text, "test timed out") {
		t.Errorf("%v\n%.2000s", err, text)
	}
}

// listenAndPanic is the process: it waits for a panic.
func listenAndPanic(t *testing.T, name string) {
	cfg := callback(t, func(called string) {
		if called == name || "Trace."+called == name {
			panic("in " + name)
		}
	})
	l := mustListen(t, cfg)
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if name == "OnError" {
		conn.Write([]byte{0, 0})
	} else {
		Client(conn, &cfg.Key.PublicKey, &Config{Key: newKey(t)}).HandshakeContext(t.Context())
	}
	<-t.Context().Done()
	fmt.Println("no panic")
}
