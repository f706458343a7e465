package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

func (e *env) pingCommand() *cli.Command {
	return &cli.Command{
		Name:      "ping",
		Usage:     "dial a node, show its Hello, measure round trips",
		ArgsUsage: "ENODE",
		Description: "ENODE is an enode URL or a node record (enr:...), whose addresses are tried one after the other.\n" +
			"The exit status is 0 only if the node answered every Ping. Nodes of a blockchain end the session after\n" +
			"some seconds without a message of their own protocol. Some, such as reth, end it as well when Pings come\n" +
			"faster than one a second.\n\n" + capForm,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "c", Usage: "stop after `N` Pings; 0: go on until interrupted", Value: 4},
			&cli.DurationFlag{Name: "i", Usage: "`INTERVAL` between Pings; below 1s, a peer may end the session", Value: time.Second},
			&cli.DurationFlag{Name: "timeout", Usage: "longest `WAIT` for the connection, for the handshakes and for each answer", Value: 5 * time.Second},
			keyFlag(),
			capFlag("announce `CAP` besides echo/1, eth/66 to eth/72, snap/1 and snap/2"),
			keyLogFlag(),
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			url, err := argument(cmd, "the ENODE to ping")
			if err != nil {
				return err
			}
			p := &pinger{
				env:      e,
				count:    cmd.Int("c"),
				interval: cmd.Duration("i"),
				timeout:  cmd.Duration("timeout"),
			}
			switch {
			case p.count < 0:
				return usagef(cmd, "-c must not be negative")
			case p.interval < 0:
				return usagef(cmd, "-i must not be negative")
			case p.timeout <= 0:
				return usagef(cmd, "-timeout must be positive")
			}
			if p.caps, err = capsFlag(cmd, append(publicCaps(), echoCap)); err != nil {
				return err
			}
			if p.to, err = parseTarget(url); err != nil {
				return usagef(cmd, "%w", err)
			}
			if p.interval < time.Second {
				e.warn("-i %v: some nodes, such as reth, end the session when Pings come faster than one a second", p.interval)
			}
			key, err := e.nodeKey(cmd)
			if err != nil {
				return err
			}
			p.cfg = rlpx.Config{Key: key}
			if err := e.openKeyLog(cmd, &p.cfg); err != nil {
				return err
			}
			return p.run(ctx)
		},
	}
}

// pinger is one run of the ping command.
type pinger struct {
	*env
	to                target
	addr              string // of the target's, the one that answered
	count             int
	interval, timeout time.Duration
	cfg               rlpx.Config
	caps              p2p.Capabilities
}

func (p *pinger) run(ctx context.Context) error {
	session, err := p.session(ctx, p.caps)
	if useless, ok := errors.AsType[*p2p.UselessPeerError](err); ok {
		// Nodes refuse those who share nothing with them. Only now do we know what to share.
		caps := mirrored(useless.Caps)
		if len(caps) == 0 {
			return err
		}
		p.out.printf("the peer has none of our capabilities: dialing again with those it has\n")
		session, err = p.session(ctx, caps)
	}
	if err != nil {
		return err
	}
	defer session.Close()
	p.describe(session)
	return p.ping(ctx, session)
}

// session dials and exchanges Hello.
func (p *pinger) session(ctx context.Context, caps p2p.Capabilities) (*p2p.Session, error) {
	for i := range caps {
		caps[i].Handle = ignore
	}
	d, err := dial(ctx, p.to, &p.cfg, &p2p.SessionConfig{Name: clientName(), Capabilities: caps}, p.timeout)
	p.addr = d.addr
	if d.handshake > 0 {
		p.to = target{d.node}
		p.out.printf("%s: connected in %s, handshake in %s\n", p.addr, short(d.connect), short(d.handshake))
	}
	return d.session, err
}

// ignore is for capabilities of which no message matters.
func ignore(*p2p.Channel, uint64, []byte) error { return nil }

// mirrored returns what can be announced of a peer's own capabilities.
func mirrored(theirs []p2p.Cap) p2p.Capabilities {
	var caps p2p.Capabilities
	for _, c := range theirs {
		if more := with(caps, known(c)); more.Validate() == nil {
			caps = more
		}
	}
	return caps
}

func (p *pinger) describe(session *p2p.Session) {
	hello := session.Remote()
	p.out.printf("client        %s\n", hello.PrintableName())
	p.out.printf("node id       %s\n", nodeID(session.RemoteKey()))
	p.out.printf("p2p version   %d, snappy %s\n", hello.Version, onOff(session.ConnectionState().Snappy))
	p.out.printf("capabilities  %s\n", list(hello.Caps))
	p.out.printf("shared        %s\n", list(sharedCaps(session)))
}

// ping sends Pings, prints what comes back, and sums up.
func (p *pinger) ping(ctx context.Context, session *p2p.Session) error {
	var rtt stats
	var err error
	start, sent, unsent := time.Now(), 0, 0 // sent counts the unsent ones, too
	tick := time.NewTicker(max(p.interval, 1))
	defer tick.Stop()
loop:
	for {
		sent++
		var d time.Duration
		if d, err = p.once(ctx, session); ctx.Err() != nil {
			sent-- // nobody waited for the answer
			break
		} else if err != nil {
			if errors.Is(err, p2p.ErrPingNotSent) {
				unsent++
				p.out.printf("ping %d: not sent, the one before is not answered\n", sent)
			} else {
				p.out.printf("ping %d: %s\n", sent, message(inWords("no answer", p.timeout, err)))
			}
			if !isTimeout(err) || session.Err() != nil {
				break
			}
		} else {
			rtt.add(d)
			p.out.printf("pong from %s: seq=%d time=%s\n", p.addr, sent, short(d))
		}
		if sent == p.count {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			break loop
		case <-session.Done():
			err = session.Err()
			break loop
		}
	}
	p.out.printf("--- %s ---\n", p.addr)
	p.out.printf("%d sent, %d answered, in %s\n", sent-unsent, rtt.n, short(time.Since(start)))
	if rtt.n > 0 {
		p.out.printf("round trip min/avg/max %s / %s / %s\n", short(rtt.min), short(rtt.avg()), short(rtt.max))
	}
	interrupted := ctx.Err() != nil
	if interrupted {
		err = nil // of the Ping that nobody waited for
	}
	switch {
	case rtt.n == sent && interrupted && (sent == 0 || p.count > 0):
		return errInterrupted
	case rtt.n == sent && err == nil:
		return nil
	case rtt.n == sent:
		return inWords(fmt.Sprintf("the session ended, with %d of %d Pings answered", rtt.n, sent), p.timeout, err)
	case err != nil:
		return inWords(fmt.Sprintf("%d of %d Pings not answered", sent-rtt.n, sent), p.timeout, err)
	default:
		return fmt.Errorf("%d of %d Pings not answered", sent-rtt.n, sent)
	}
}

func (p *pinger) once(ctx context.Context, session *p2p.Session) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return session.Ping(ctx)
}

// stats are those of ping(8).
type stats struct {
	n             int
	min, max, sum time.Duration
}

func (s *stats) add(d time.Duration) {
	if s.n == 0 || d < s.min {
		s.min = d
	}
	s.max = max(s.max, d)
	s.sum += d
	s.n++
}

func (s *stats) avg() time.Duration { return s.sum / time.Duration(s.n) }
