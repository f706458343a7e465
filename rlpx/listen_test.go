package rlpx

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	gethrlpx "github.com/ethereum/go-ethereum/p2p/rlpx"

	"github.com/go-rlpx/transport/handshake"
	"github.com/go-rlpx/transport/internal/rlpxtest"
)

func TestListenAndDial(t *testing.T) {
	goroutines, files := runtime.NumGoroutine(), openFiles()
	serverKey, clientKey := newKey(t), newKey(t)
	l := mustListen(t, &Config{Key: serverKey})
	for range 5 {
		client, err := Dial(t.Context(), "tcp", l.Addr().String(), &serverKey.PublicKey, &Config{Key: clientKey})
		if err != nil {
			t.Fatal(err)
		}
		server, err := l.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !server.ConnectionState().RemoteKey.Equal(&clientKey.PublicKey) || !client.ConnectionState().RemoteKey.Equal(&serverKey.PublicKey) {
			t.Fatal("wrong remote keys")
		}
		if _, ok := server.NetConn().(*net.TCPConn); !ok {
			t.Fatalf("NetConn is a %T", server.NetConn())
		}
		exchange(t, client, server, 16, pattern(1000, 1))
		exchange(t, server, client, 17, pattern(70000, 2))
		if err := server.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := client.Read(); err != io.EOF {
			t.Fatalf("after CloseWrite: %v", err)
		}
		client.Close()
		server.Close()
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	settle(t, goroutines, files)
}

func TestListenerWithGoEthereum(t *testing.T) {
	serverKey, clientKey := newKey(t), newKey(t)
	l := mustListen(t, &Config{Key: serverKey})
	inner, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client := gethrlpx.NewConn(inner, &serverKey.PublicKey)
	defer client.Close()
	if _, err := client.Handshake(clientKey); err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	exchange(t, client, server, 16, pattern(1000, 1))
	exchange(t, server, client, 16, pattern(1000, 2))
}

func TestAcceptContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := newKey(t)
		inner := newPipeListener()
		l := NewListener(inner, &Config{Key: key})
		defer l.Close()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Accept(ctx); err != context.DeadlineExceeded {
			t.Errorf("Accept: %v", err)
		}
		peer, _ := inner.connect("peer")
		defer peer.Close()
		if _, err := Client(peer, &key.PublicKey, &Config{Key: newKey(t)}).HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := l.Accept(ctx); err != context.DeadlineExceeded {
			t.Errorf("Accept with a connection there: %v", err)
		}
		conn, err := l.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	})
}

// Contexts that end while connections arrive lose none of them.
func TestAcceptLosesNothing(t *testing.T) {
	const peers = 60
	key := newKey(t)
	l := mustListen(t, &Config{Key: key, OnError: func(_ net.Addr, err error) { t.Error(err) }})
	var accepted atomic.Int32
	var acceptors, dialers sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range 4 {
		acceptors.Go(func() {
			for ctx.Err() == nil {
				once, stop := context.WithTimeout(ctx, time.Duration(i+1)*time.Millisecond/4)
				conn, err := l.Accept(once)
				stop()
				if err == nil {
					conn.Close()
					if accepted.Add(1) == peers {
						cancel()
					}
				}
			}
		})
	}
	for range 4 {
		dialers.Go(func() {
			for range peers / 4 {
				conn, err := Dial(t.Context(), "tcp", l.Addr().String(), &key.PublicKey, &Config{Key: newKey(t)})
				if err != nil {
					t.Error(err)
					return
				}
				conn.Close()
			}
		})
	}
	dialers.Wait()
	acceptors.Wait()
}

func TestCloseDuringHandshakes(t *testing.T) {
	goroutines, files := runtime.NumGoroutine(), openFiles()
	key := newKey(t)
	auth := authFor(t, key)
	for round := range 30 {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		inner := &countingListener{Listener: tcp}
		var accepted, reported atomic.Int32
		l := NewListener(inner, &Config{Key: key, MaxPending: 8, MaxHandshakes: 2, OnError: func(net.Addr, error) { reported.Add(1) }})
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				if i%2 == 0 {
					if c, err := Dial(t.Context(), "tcp", l.Addr().String(), &key.PublicKey, &Config{Key: key}); err == nil {
						c.Close()
					}
					return
				}
				if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
					c.Write(auth[:len(auth)*i/16])
					io.Copy(io.Discard, c)
					c.Close()
				}
			})
		}
		for range 2 {
			wg.Go(func() {
				for {
					c, err := l.Accept(t.Context())
					if err != nil {
						if err != net.ErrClosed {
							t.Errorf("Accept: %v", err)
						}
						return
					}
					accepted.Add(1)
					c.Close()
				}
			})
		}
		for range round % 7 {
			runtime.Gosched()
		}
		for range 3 {
			wg.Go(func() {
				if err := l.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		}
		wg.Wait()
		// Calls of OnError may outlast Close.
		if !rlpxtest.Eventually(func() bool { return inner.accepted.Load() == accepted.Load()+reported.Load() }) {
			t.Errorf("%d connections came in, %d were accepted and %d reported", inner.accepted.Load(), accepted.Load(), reported.Load())
		}
	}
	settle(t, goroutines, files)
}

// countingListener counts the connections that it gave away.
type countingListener struct {
	net.Listener
	accepted atomic.Int32
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return c, err
}

// OnError may call Close, on whatever goroutine it finds itself.
func TestOnErrorMayClose(t *testing.T) {
	key := newKey(t)
	for _, tc := range []struct {
		name string
		do   func(*pipeListener)
	}{
		{"failed handshake", func(l *pipeListener) { peer, _ := l.connect("x"); peer.Close() }},
		{"refused", func(l *pipeListener) { l.connect("refused") }},
		{"temporary error", func(l *pipeListener) { l.fail(temporaryError{}) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := newPipeListener()
				var l *Listener
				ready, called := make(chan struct{}), make(chan error)
				l = NewListener(inner, &Config{
					Key: key,
					Allow: func(addr net.Addr) error {
						if addr.String() == "refused" {
							return errors.New("no")
						}
						return nil
					},
					OnError: func(net.Addr, error) {
						<-ready
						called <- l.Close()
					},
				})
				close(ready)
				tc.do(inner)
				if err := <-called; err != nil {
					t.Error(err)
				}
				if _, err := l.Accept(t.Context()); err != net.ErrClosed {
					t.Errorf("Accept: %v", err)
				}
				if n := inner.closes.Load(); n != 1 {
					t.Errorf("inner closed %d times", n)
				}
			})
		})
	}
}

func TestListenerWithoutKey(t *testing.T) {
	off := newKey(t)
	off.X.Add(off.X, off.Y)
	for name, cfg := range map[string]*Config{"nil config": nil, "nil key": {}, "zero key": {Key: new(ecdsa.PrivateKey)}, "off-curve key": {Key: off}} {
		t.Run(name, func(t *testing.T) {
			if _, err := Listen("tcp", "127.0.0.1:0", cfg); !errors.Is(err, handshake.ErrInvalidPrivateKey) {
				t.Errorf("Listen: %v", err)
			}
			inner := newPipeListener()
			l := NewListener(inner, cfg)
			if _, err := l.Accept(t.Context()); !errors.Is(err, handshake.ErrInvalidPrivateKey) {
				t.Errorf("Accept: %v", err)
			}
			l.Close()
			if n := inner.closes.Load(); n != 1 {
				t.Errorf("inner closed %d times", n)
			}
		})
	}
}

func TestListenAddressInUse(t *testing.T) {
	cfg := &Config{Key: newKey(t)}
	l := mustListen(t, cfg)
	_, err := Listen("tcp", l.Addr().String(), cfg)
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.HasPrefix(err.Error(), "rlpx: ") {
		t.Errorf("error %v", err)
	}
}

func TestOtherAcceptErrorEndsListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newPipeListener()
		onError, failed := reports()
		l := NewListener(inner, &Config{Key: newKey(t), OnError: onError})
		peer, watched := inner.connect("peer")
		defer peer.Close()
		broken := errors.New("broken")
		accepted := make(chan error)
		go func() {
			_, err := l.Accept(t.Context())
			accepted <- err
		}()
		synctest.Wait()
		inner.fail(broken)
		if err := <-accepted; err != broken {
			t.Errorf("Accept: %v", err)
		}
		if _, err := l.Accept(t.Context()); err != broken {
			t.Errorf("second Accept: %v", err)
		}
		if r := <-failed; !errors.Is(r.err, broken) || !errors.Is(r.err, ErrHandshake) {
			t.Errorf("pending connection: %v", r.err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := l.Accept(t.Context()); err != net.ErrClosed {
			t.Errorf("Accept after Close: %v", err)
		}
		if inner.closes.Load() != 1 || watched.closes.Load() != 1 {
			t.Errorf("closed %d and %d times", inner.closes.Load(), watched.closes.Load())
		}
	})
}

func TestAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := newKey(t)
		inner := newPipeListener()
		onError, failed := reports()
		banned := errors.New("banned")
		l := NewListener(inner, &Config{Key: key, OnError: onError, Allow: func(addr net.Addr) error {
			if addr.String() == "bad" {
				return banned
			}
			return nil
		}})
		defer l.Close()
		const refusals = 20
		goroutines := runtime.NumGoroutine()
		for range refusals {
			peer, watched := inner.connect("bad")
			synctest.Wait()
			if n, err := peer.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("the refused peer read %d bytes, %v", n, err)
			}
			if r := <-failed; r.addr != "bad" || !errors.Is(r.err, ErrRefused) || !errors.Is(r.err, banned) || errors.Is(r.err, ErrHandshake) {
				t.Errorf("reported for %s: %v", r.addr, r.err)
			}
			if n := watched.closes.Load(); n != 1 {
				t.Errorf("closed %d times", n)
			}
		}
		// Some come and go that are of the runtime or of other tests.
		if now := runtime.NumGoroutine(); now > goroutines+refusals/2 {
			t.Errorf("%d goroutines after %d refusals, had %d", now, refusals, goroutines)
		}
		good, _ := inner.connect("good")
		defer good.Close()
		if _, err := Client(good, &key.PublicKey, &Config{Key: newKey(t)}).HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestListenerVerifyPeer(t *testing.T) {
	key, friend := newKey(t), newKey(t)
	onError, failed := reports()
	stranger := errors.New("stranger")
	l := mustListen(t, &Config{Key: key, OnError: onError, VerifyPeer: func(remote *ecdsa.PublicKey) error {
		if remote.Equal(&friend.PublicKey) {
			return nil
		}
		return stranger
	}})
	_, err := Dial(t.Context(), "tcp", l.Addr().String(), &key.PublicKey, &Config{Key: newKey(t)})
	if !errors.Is(err, handshake.ErrRemoteClosed) {
		t.Errorf("dialing as a stranger: %v", err)
	}
	if r := <-failed; !errors.Is(r.err, stranger) || !errors.Is(r.err, ErrHandshake) {
		t.Errorf("reported: %v", r.err)
	}
	c, err := Dial(t.Context(), "tcp", l.Addr().String(), &key.PublicKey, &Config{Key: friend})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}
