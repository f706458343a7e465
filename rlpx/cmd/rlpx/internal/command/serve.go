package command

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// helloTimeout is how long a peer has for its Hello after the handshake. Peers send it at once.
const helloTimeout = 5 * time.Second

// maxLeaving is how many peers are told at once that there is no room for them. Each takes a second
// at most. Beyond that they are not told.
const maxLeaving = 64

func (e *env) serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "listen, answer Hello and Ping, echo messages",
		Description: "Prints its enode URL on the standard output and one line for each event on the standard error.\n" +
			"Messages of a shared capability are sent back as they came. It runs until it is interrupted,\n" +
			"and then says Disconnect (client quitting) to its peers.\n\n" + capForm,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "addr", Usage: "listen on `HOST:PORT`; port 0: any free one", Value: defaultAddr},
			keyFlag(),
			capFlag("serve `CAP` besides echo/1, such as eth/69"),
			&cli.IntFlag{Name: "maxpeers", Usage: "turn peers away beyond `N`", Value: 50},
			&cli.IntFlag{Name: "n", Usage: "stop after `N` sessions; 0: no limit"},
			&cli.DurationFlag{Name: "for", Usage: "stop after `DURATION`; 0: no limit"},
			&cli.BoolFlag{Name: "json", Usage: "log in JSON"},
			&cli.BoolFlag{Name: "v", Usage: "log every message"},
			keyLogFlag(),
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := noArguments(cmd); err != nil {
				return err
			}
			at, err := parseAddr(cmd.String("addr"))
			switch {
			case err != nil:
				return usagef(cmd, "-addr: %w", err)
			case cmd.Int("maxpeers") < 1:
				return usagef(cmd, "-maxpeers must be positive")
			case cmd.Int("n") < 0:
				return usagef(cmd, "-n must not be negative")
			case cmd.Duration("for") < 0:
				return usagef(cmd, "-for must not be negative")
			}
			caps, err := capsFlag(cmd, p2p.Capabilities{echoCap})
			if err != nil {
				return err
			}
			key, err := e.nodeKey(cmd)
			if err != nil {
				return err
			}
			s := newServer(newLogger(e.err, cmd.Bool("json"), cmd.Bool("v")), cmd.Int("maxpeers"), cmd.Int("n"))
			for i := range caps {
				caps[i].Handle = s.echo
			}
			s.session = p2p.SessionConfig{Name: clientName(), Capabilities: caps}
			cfg := &rlpx.Config{Key: key, OnError: s.handshakeFailed}
			if err := e.openKeyLog(cmd, cfg); err != nil {
				return err
			}
			if d := cmd.Duration("for"); d > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, d)
				defer cancel()
			}
			l, err := rlpx.Listen("tcp", cmd.String("addr"), cfg)
			if err != nil {
				return inWords("cannot listen on "+cmd.String("addr"), 0, err)
			}
			at.port = uint16(l.Addr().(*net.TCPAddr).Port)
			s.session.ListenPort = uint64(at.port)
			url := at.node(&key.PublicKey).String()
			e.out.printf("%s\n", url)
			s.log.Info("listening", "addr", l.Addr().String(), "caps", list(caps.Caps()), "enode", url)
			return s.run(ctx, l)
		},
	}
}

// newLogger logs events, which are at level Info, and if verbose single messages, which are at
// level Debug.
func newLogger(w io.Writer, json, verbose bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	if verbose {
		options.Level = slog.LevelDebug
	}
	if json {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// server is one run of the serve command.
type server struct {
	log     *slog.Logger
	session p2p.SessionConfig
	limit   int           // sessions after which it stops; 0: none
	peers   chan struct{} // holds one element for each peer
	leaving chan struct{} // holds one element for each peer that is being turned away
}

func newServer(log *slog.Logger, maxPeers, limit int) *server {
	return &server{
		log:     log,
		limit:   limit,
		peers:   make(chan struct{}, maxPeers),
		leaving: make(chan struct{}, maxLeaving),
	}
}

// run serves until ctx is done or the limit of sessions is reached. It returns when all peers are
// gone.
func (s *server) run(ctx context.Context, l *rlpx.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan struct{}) // one element for each session that ended
	var peers sync.WaitGroup
	defer func() {
		cancel()
		l.Close()
		peers.Wait()
		s.log.Info("stopped")
	}()
	go func() {
		defer cancel()
		for n := 0; s.limit == 0 || n < s.limit; n++ {
			select {
			case <-served:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		conn, err := l.Accept(ctx)
		if ctx.Err() != nil {
			if conn != nil {
				conn.Close()
			}
			return nil
		}
		if err != nil {
			return inWords("cannot accept connections", 0, err)
		}
		select {
		case s.peers <- struct{}{}:
			peers.Go(func() {
				opened := s.serve(ctx, conn)
				<-s.peers
				if opened {
					select {
					case served <- struct{}{}:
					case <-ctx.Done():
					}
				}
			})
		default:
			s.turnAway(conn, &peers)
		}
	}
}

// serve is one peer from Hello to Disconnect. It reports whether there was a session.
func (s *server) serve(ctx context.Context, conn *rlpx.Conn) bool {
	start := time.Now()
	log := s.log.With("addr", conn.RemoteAddr().String(), "id", shortID(conn.ConnectionState().RemoteKey))

	helloCtx, cancel := context.WithTimeout(ctx, helloTimeout)
	session, err := p2p.NewSession(helloCtx, conn, &s.session)
	cancel()
	if err != nil {
		log.Info("no session", "err", message(inWords("Hello", helloTimeout, err)))
		return false
	}
	hello := session.Remote()
	log.Info("session", "client", hello.PrintableName(), "version", hello.Version, "snappy", hello.Snappy(),
		"caps", list(hello.Caps), "shared", list(sharedCaps(session)))

	select {
	case <-ctx.Done():
		_ = session.Disconnect(p2p.DiscQuitting) // what becomes of it is logged below
	case <-session.Done():
	}
	<-session.Done()
	stats := conn.ConnectionState().Stats
	log.Info("session ended", "reason", ending(session.Err()), "after", time.Since(start).Round(time.Millisecond).String(),
		"messagesIn", stats.MessagesRead, "messagesOut", stats.MessagesWritten,
		"bytesIn", stats.WireBytesRead, "bytesOut", stats.WireBytesWritten)
	return true
}

// echo sends a message back. The session's reader calls it, and goes on to the next message while
// this one is written. Where a peer does not take its echoes, nothing more is read from it.
func (s *server) echo(ch *p2p.Channel, id uint64, data []byte) error {
	if s.log.Enabled(context.Background(), slog.LevelDebug) {
		s.log.Debug("message", "addr", ch.Session().RemoteAddr().String(), "cap", ch.Shared().Cap.String(), "id", id, "bytes", len(data))
	}
	err := ch.Send(id, data)
	if errors.Is(err, rlpx.ErrQueueFull) {
		err = ch.Write(id, data)
	}
	return err
}

// turnAway says too many peers, without waiting for the peer's Hello.
func (s *server) turnAway(conn *rlpx.Conn, peers *sync.WaitGroup) {
	log := s.log.With("addr", conn.RemoteAddr().String(), "id", shortID(conn.ConnectionState().RemoteKey))
	log.Info("turned away", "reason", p2p.DiscTooManyPeers.String())
	select {
	case s.leaving <- struct{}{}:
		peers.Go(func() {
			_ = p2p.Refuse(conn, p2p.DiscTooManyPeers) // it is gone in any case
			<-s.leaving
		})
	default: // too many even of those
		conn.Close()
	}
}

// handshakeFailed is the listener's OnError.
func (s *server) handshakeFailed(addr net.Addr, err error) {
	if errors.Is(err, net.ErrClosed) {
		return // by ourselves
	}
	s.log.Info("no handshake", "addr", addr.String(), "err", message(err))
}

// ending says why a session ended, in words.
func ending(err error) string {
	disconnect, ok := errors.AsType[*p2p.DisconnectError](err)
	switch {
	case ok && disconnect.Remote:
		return "peer: " + disconnect.Reason.String()
	case ok && err == error(disconnect):
		return "we: " + disconnect.Reason.String()
	case isGone(err):
		return "peer closed the connection"
	default:
		return message(err)
	}
}
