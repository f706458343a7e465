package rlpx

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	gethrlpx "github.com/ethereum/go-ethereum/p2p/rlpx"

	"github.com/go-rlpx/transport/handshake"
)

// pipeDialer is a Dialer whose one connection is the returned end of a pipe.
func pipeDialer(cfg *Config) (d *Dialer, peer net.Conn, watched *watchedConn) {
	ours, peer := net.Pipe()
	watched = &watchedConn{Conn: ours, addr: "peer"}
	return &Dialer{Config: cfg, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return watched, nil
	}}, peer, watched
}

func TestCase_H24_DialChecksKeysFirst(t *testing.T) {
	key := newKey(t)
	remote := &newKey(t).PublicKey
	offCurve := func(k *ecdsa.PublicKey) *ecdsa.PublicKey {
		return &ecdsa.PublicKey{Curve: k.Curve, X: k.X, Y: new(big.Int).Add(k.Y, big.NewInt(1))}
	}
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		cfg    *Config
		remote *ecdsa.PublicKey
		is     error
	}{
		{"nil config", nil, remote, handshake.ErrInvalidPrivateKey},
		{"nil key", &Config{}, remote, handshake.ErrInvalidPrivateKey},
		{"empty key", &Config{Key: new(ecdsa.PrivateKey)}, remote, handshake.ErrInvalidPrivateKey},
		{"zero key", &Config{Key: &ecdsa.PrivateKey{PublicKey: key.PublicKey, D: new(big.Int)}}, remote, handshake.ErrInvalidPrivateKey},
		{"key is the group order", &Config{Key: &ecdsa.PrivateKey{PublicKey: key.PublicKey, D: crypto.S256().Params().N}}, remote, handshake.ErrInvalidPrivateKey},
		{"off-curve key", &Config{Key: &ecdsa.PrivateKey{PublicKey: *offCurve(&key.PublicKey), D: key.D}}, remote, handshake.ErrInvalidPrivateKey},
		{"key of another curve", &Config{Key: p256}, remote, handshake.ErrInvalidPrivateKey},
		{"nil remote", &Config{Key: key}, nil, handshake.ErrInvalidPublicKey},
		{"empty remote", &Config{Key: key}, new(ecdsa.PublicKey), handshake.ErrInvalidPublicKey},
		{"zero remote", &Config{Key: key}, &ecdsa.PublicKey{Curve: key.Curve, X: new(big.Int), Y: new(big.Int)}, handshake.ErrInvalidPublicKey},
		{"off-curve remote", &Config{Key: key}, offCurve(remote), handshake.ErrInvalidPublicKey},
		{"remote of another curve", &Config{Key: key}, &p256.PublicKey, handshake.ErrInvalidPublicKey},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Dialer{Config: tc.cfg, DialContext: func(context.Context, string, string) (net.Conn, error) {
				t.Error("connected")
				return nil, io.EOF
			}}
			conn, err := d.Dial(t.Context(), "tcp", "127.0.0.1:1", tc.remote)
			if conn != nil || !errors.Is(err, tc.is) || !strings.HasPrefix(err.Error(), "rlpx: ") {
				t.Errorf("Dialer.Dial: %v, %v", conn, err)
			}
			if conn, err := Dial(t.Context(), "tcp", "127.0.0.1:1", tc.remote, tc.cfg); conn != nil || !errors.Is(err, tc.is) {
				t.Errorf("Dial: %v, %v", conn, err)
			}
		})
	}
}

// A recipient that cannot read auth hangs up, and the dialer says at once what that may mean.
func TestCase_H14_WrongNodeKey(t *testing.T) {
	onError, failed := reports()
	l := mustListen(t, &Config{Key: newKey(t), OnError: onError})
	_, err := Dial(t.Context(), "tcp", l.Addr().String(), &newKey(t).PublicKey, &Config{Key: newKey(t), HandshakeTimeout: time.Hour})
	var failure *handshake.Error
	if !errors.Is(err, ErrHandshake) || !errors.Is(err, handshake.ErrRemoteClosed) || !errors.As(err, &failure) || failure.Step != handshake.StepAck {
		t.Errorf("error %v", err)
	}
	if err == io.EOF || !strings.Contains(err.Error(), "wrong node key?") || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("text %q", err)
	}
	if r := <-failed; !errors.Is(r.err, handshake.ErrDecrypt) {
		t.Errorf("the listener's error: %v", r.err)
	}
}

func TestCase_H18_PeerHangsUpInsteadOfAck(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 200} {
		synctest.Test(t, func(t *testing.T) {
			d, peer, watched := pipeDialer(&Config{Key: newKey(t)})
			go func() {
				readPacket(peer)
				peer.Write(append([]byte{1, 0x90}, make([]byte, 198)...)[:n])
				peer.Close()
			}()
			start := time.Now()
			_, err := d.Dial(t.Context(), "tcp", "peer:30303", &newKey(t).PublicKey)
			if !errors.Is(err, handshake.ErrRemoteClosed) || !errors.Is(err, ErrHandshake) {
				t.Errorf("%d bytes: %v", n, err)
			}
			if time.Since(start) != 0 {
				t.Errorf("%d bytes: after %v", n, time.Since(start))
			}
			if closes := watched.closes.Load(); closes != 1 {
				t.Errorf("%d bytes: closed %d times", n, closes)
			}
		})
	}
}

// readPacket reads a handshake packet and drops it.
func readPacket(r io.Reader) {
	var size [2]byte
	io.ReadFull(r, size[:])
	io.CopyN(io.Discard, r, int64(size[0])<<8|int64(size[1]))
}

// What answers instead of a node is named where two bytes can tell.
func TestDialForeignServer(t *testing.T) {
	for _, tc := range []struct{ name, answer, says string }{
		{"HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n", "the peer speaks HTTP"},
		{"TLS", "\x15\x03\x01\x00\x02\x02\x46", "the peer speaks TLS"},
		{"SSH", "SSH-2.0-OpenSSH_9.9\r\n", "the peer speaks SSH"},
		{"SMTP", "220 mail ESMTP\r\n", "the peer speaks SMTP"},
		{"silly", "\xff\xff\xff", "too big"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, peer, watched := pipeDialer(&Config{Key: newKey(t)})
				go func() {
					readPacket(peer)
					io.WriteString(peer, tc.answer)
				}()
				start := time.Now()
				_, err := d.Dial(t.Context(), "tcp", "peer:80", &newKey(t).PublicKey)
				if !errors.Is(err, handshake.ErrPacketSize) || !errors.Is(err, ErrHandshake) || errors.Is(err, ErrConnect) || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("error %v", err)
				}
				if strings.Contains(err.Error(), "wrong node key") || time.Since(start) != 0 {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
				if n := watched.closes.Load(); n != 1 {
					t.Errorf("closed %d times", n)
				}
			})
		})
	}
}

// One deadline for the handshake of a dialer too, that of the Config or of the context.
func TestCase_D4_OneDeadlineForAck(t *testing.T) {
	const timeout = 4 * time.Second
	for _, tc := range []struct {
		name          string
		config, until time.Duration
		reads         bool // auth
		every         time.Duration
	}{
		{"auth not read", timeout, time.Hour, false, 0},
		{"silent", timeout, time.Hour, true, 0},
		{"dribbles", timeout, time.Hour, true, timeout / 4},
		{"dribbles, context", time.Hour, timeout, true, timeout / 4},
		{"no timeout but the context's", -1, timeout, true, timeout / 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, peer, watched := pipeDialer(&Config{Key: newKey(t), HandshakeTimeout: tc.config})
				var answering sync.WaitGroup
				if tc.reads {
					answering.Go(func() {
						readPacket(peer)
						for b := byte(1); tc.every > 0; b = 0x90 {
							if _, err := peer.Write([]byte{b}); err != nil {
								return
							}
							time.Sleep(tc.every)
						}
					})
				}
				ctx, cancel := context.WithTimeout(t.Context(), tc.until)
				defer cancel()
				start := time.Now()
				_, err := d.Dial(ctx, "tcp", "peer:30303", &newKey(t).PublicKey)
				var ne net.Error
				if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrHandshake) || !errors.As(err, &ne) || !ne.Timeout() {
					t.Errorf("error %v", err)
				}
				if took := time.Since(start); took < timeout || took > timeout+timeout/10 {
					t.Errorf("ended after %v, want %v", took, timeout)
				}
				if n := watched.closes.Load(); n != 1 {
					t.Errorf("closed %d times", n)
				}
				answering.Wait()
			})
		})
	}
}

func TestDialContext(t *testing.T) {
	t.Run("ends while connecting", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := Dialer{Config: &Config{Key: newKey(t)}, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if network != "tcp4" || addr != "peer:30303" {
					t.Errorf("dials %s %s", network, addr)
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := d.Dial(ctx, "tcp4", "peer:30303", &newKey(t).PublicKey); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrConnect) || errors.Is(err, ErrHandshake) {
				t.Errorf("error %v", err)
			}
		})
	})
	t.Run("cancelled during the handshake", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d, peer, watched := pipeDialer(&Config{Key: newKey(t)})
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				readPacket(peer)
				cancel()
			}()
			if _, err := d.Dial(ctx, "tcp", "peer:30303", &newKey(t).PublicKey); !errors.Is(err, context.Canceled) || errors.Is(err, ErrConnect) {
				t.Errorf("error %v", err)
			}
			if n := watched.closes.Load(); n != 1 {
				t.Errorf("closed %d times", n)
			}
		})
	})
	t.Run("cancelled before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		d, _, watched := pipeDialer(&Config{Key: newKey(t)})
		if _, err := d.Dial(ctx, "tcp", "peer:30303", &newKey(t).PublicKey); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if n := watched.closes.Load(); n != 1 {
			t.Errorf("closed %d times", n)
		}
		if _, err := Dial(ctx, "tcp", "127.0.0.1:1", &newKey(t).PublicKey, &Config{Key: newKey(t)}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("has no meaning afterwards", func(t *testing.T) {
		key := newKey(t)
		l := mustListen(t, &Config{Key: key})
		ctx, cancel := context.WithCancel(t.Context())
		client, err := Dial(ctx, "tcp", l.Addr().String(), &key.PublicKey, &Config{Key: newKey(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		server, err := l.Accept(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		cancel()
		exchange(t, client, server, 16, nil)
		l.Close()
		exchange(t, server, client, 16, nil)
	})
}

// Errors of connecting keep their chain.
func TestDialUnreachable(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, tc := range []struct {
		name, network, addr string
		is                  func(error) bool
	}{
		{"refused", "tcp", closed.Addr().String(), func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }},
		{"no port", "tcp", "127.0.0.1", func(err error) bool { var e *net.AddrError; return errors.As(err, &e) }},
		{"no such network", "carrier pigeon", "127.0.0.1:1", func(err error) bool { var e net.UnknownNetworkError; return errors.As(err, &e) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			goroutines, files := runtime.NumGoroutine(), openFiles()
			_, err := Dial(t.Context(), tc.network, tc.addr, &newKey(t).PublicKey, &Config{Key: newKey(t)})
			var op *net.OpError
			if err == nil || !tc.is(err) || !errors.As(err, &op) || !errors.Is(err, ErrConnect) || errors.Is(err, ErrHandshake) {
				t.Errorf("error %v", err)
			}
			if text := err.Error(); !strings.HasPrefix(text, "rlpx: dial") || strings.Count(text, tc.addr) != 1 || strings.Contains(text, "node key") {
				t.Errorf("text %q", text)
			}
			settle(t, goroutines, files)
		})
	}
}

// What package net calls a timeout stays one, also that of the system.
func TestDialTimeout(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want bool
	}{
		{"deadline", os.ErrDeadlineExceeded, true},
		{"context", context.DeadlineExceeded, true},
		{"the system's", os.NewSyscallError("connect", syscall.ETIMEDOUT), true},
		{"refused", os.NewSyscallError("connect", syscall.ECONNREFUSED), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			failing := func(_ context.Context, network, _ string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Net: network, Err: tc.err}
			}
			d := Dialer{Config: &Config{Key: newKey(t)}, DialContext: failing}
			_, err := d.Dial(t.Context(), "tcp", "peer:30303", &newKey(t).PublicKey)
			var ne net.Error
			if !errors.As(err, &ne) || ne.Timeout() != tc.want || !errors.Is(err, tc.err) || !errors.Is(err, ErrConnect) {
				t.Errorf("error %v, want a timeout: %v", err, tc.want)
			}
		})
	}
}

func TestDialGoEthereum(t *testing.T) {
	serverKey, clientKey := newKey(t), newKey(t)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	accepted := make(chan *gethrlpx.Conn, 1)
	go func() {
		defer close(accepted)
		c, err := inner.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		server := gethrlpx.NewConn(c, nil)
		remote, err := server.Handshake(serverKey)
		if err != nil || !remote.Equal(&clientKey.PublicKey) {
			t.Errorf("go-ethereum's handshake: %v", err)
		}
		accepted <- server
	}()
	d := Dialer{Config: &Config{Key: clientKey}, DialContext: new(net.Dialer).DialContext}
	client, err := d.Dial(t.Context(), "tcp", inner.Addr().String(), &serverKey.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server := <-accepted
	defer server.Close()
	exchange(t, client, server, 16, pattern(1000, 1))
	exchange(t, server, client, 16, pattern(1000, 2))
}
