package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/urfave/cli/v3"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// demoGrace is how much longer than its duration the demo may take: connecting, the round of
// messages that is under way when the time is over, and a slow machine.
const demoGrace = time.Minute

var demoCap = capability("demo", 1, demoLength)

func (e *env) demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "nodes in one process exchange messages and check them",
		Description: "Two nodes connect over TCP on the loopback interface and send each other messages of 0 bytes to\n" +
			fmt.Sprintf("4 MiB, some of which compress well and some not at all. Then one of them sends messages of %s to\n", byteCount(blockSize)) +
			fmt.Sprintf("%d peers, each to all at once. Every byte is compared.", demoPeers),
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "for", Usage: "exchange messages for about `DURATION`, a third of it each way and a third to many peers", Value: 3 * time.Second},
			keyLogFlag(),
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := noArguments(cmd); err != nil {
				return err
			}
			d := &demo{env: e, each: cmd.Duration("for") / 3, bar: isTerminal(e.err)}
			if d.each < 0 {
				return usagef(cmd, "-for must not be negative")
			}
			if err := e.openKeyLog(cmd, &d.cfg); err != nil {
				return err
			}
			runCtx, cancel := context.WithTimeoutCause(ctx, cmd.Duration("for")+demoGrace, errors.New("this machine is too slow for the demo"))
			defer cancel()
			err := d.run(runCtx)
			if err != nil && ctx.Err() != nil {
				return errInterrupted
			}
			return err
		},
	}
}

// demo is one run of the demo command. Alice listens, Bob dials, and then a crowd does.
type demo struct {
	*env
	each time.Duration // for each direction, and for the broadcast
	bar  bool
	cfg  rlpx.Config // of both, but for the key
}

func (d *demo) run(ctx context.Context) error {
	alice, bob, err := d.connect(ctx)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer alice.close()
	defer bob.close()
	d.describe(alice, bob)

	rtt, err := bob.session.Ping(ctx)
	if err != nil {
		return fmt.Errorf("no answer to Ping: %w", err)
	}
	d.out.printf("ping         answered in %s\n", short(rtt))

	for i, way := range [...]struct{ from, to *demoNode }{{bob, alice}, {alice, bob}} {
		if err := d.transfer(ctx, way.from, way.to, newTraffic(uint64(i))); err != nil {
			return fmt.Errorf("%s to %s: %w", way.from.name, way.to.name, err)
		}
	}
	if err := d.broadcast(ctx, alice, newTraffic(2)); err != nil {
		return fmt.Errorf("broadcast: %w", err)
	}
	return d.part(ctx, alice, bob)
}

// demoNode is one of the two nodes.
type demoNode struct {
	name    string
	cfg     *rlpx.Config
	session *p2p.Session
}

func (d *demo) newNode(name string) (*demoNode, error) {
	key, err := crypto.GenerateKey()
	if err != nil {
		return nil, err
	}
	n := &demoNode{name: name, cfg: d.cfg.Clone()}
	n.cfg.Key = key
	return n, nil
}

func (n *demoNode) sessionConfig() *p2p.SessionConfig {
	return &p2p.SessionConfig{Name: clientName() + "/" + n.name, Capabilities: p2p.Capabilities{demoCap}}
}

// listen makes the node accept sessions. It returns where.
func (n *demoNode) listen() (*p2p.Listener, *p2p.Node, error) {
	l, err := p2p.Listen("tcp", "127.0.0.1:0", n.cfg, n.sessionConfig())
	if err != nil {
		return nil, nil, err
	}
	return l, endpoint{"127.0.0.1", uint16(l.Addr().(*net.TCPAddr).Port)}.node(&n.cfg.Key.PublicKey), nil
}

func (n *demoNode) close() { _ = n.session.Close() }

func (n *demoNode) channel() *p2p.Channel { return n.session.Capability(demoCap.Name) }

// connect makes two nodes with a session between them.
func (d *demo) connect(ctx context.Context) (alice, bob *demoNode, err error) {
	if alice, err = d.newNode("alice"); err != nil {
		return nil, nil, err
	}
	if bob, err = d.newNode("bob"); err != nil {
		return nil, nil, err
	}
	l, node, err := alice.listen()
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	d.out.printf("alice        %s\n", node)

	// Either side that fails ends the other one too.
	err = both(ctx,
		func(ctx context.Context) (err error) {
			alice.session, err = l.Accept(ctx)
			return err
		},
		func(ctx context.Context) error {
			dialed, err := dial(ctx, target{node}, bob.cfg, bob.sessionConfig(), rlpx.DefaultHandshakeTimeout)
			if err != nil {
				return err
			}
			d.out.printf("handshake    bob dialed: connected in %s, handshake in %s\n", short(dialed.connect), short(dialed.handshake))
			bob.session = dialed.session
			return nil
		})
	if err != nil {
		for _, n := range []*demoNode{alice, bob} {
			if n.session != nil {
				n.close()
			}
		}
		return nil, nil, err
	}
	return alice, bob, nil
}

// both runs two functions side by side and returns the first error. The context of both ends with
// it.
func both(ctx context.Context, one, other func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	run := func(f func(context.Context) error) error {
		err := f(ctx)
		if err != nil {
			cancel(err)
		}
		return err
	}
	done := make(chan error, 1)
	go func() { done <- run(one) }()
	err := run(other)
	if otherErr := <-done; err != nil || otherErr != nil {
		return context.Cause(ctx)
	}
	return nil
}

// describe prints what each knows of the other, and what they agreed on.
func (d *demo) describe(alice, bob *demoNode) {
	for _, n := range []struct{ self, other *demoNode }{{alice, bob}, {bob, alice}} {
		hello := n.other.session.Remote()
		d.out.printf("%-12s id %s, client %s, p2p version %d\n", n.self.name, shortID(n.other.session.RemoteKey()), hello.PrintableName(), hello.Version)
	}
	for _, s := range bob.session.Shared().All() {
		d.out.printf("negotiated   %s with message codes 0x%02x to 0x%02x, snappy %s\n",
			s.Cap, s.Offset, s.Offset+s.Length-1, onOff(bob.session.ConnectionState().Snappy))
	}
}

// transfer sends messages from one to the other, checks them and prints how it went.
func (d *demo) transfer(ctx context.Context, from, to *demoNode, t *traffic) error {
	wire := from.session.ConnectionState().Stats.WireBytesWritten
	what := from.name + " -> " + to.name
	var got tally
	start := time.Now()
	stop := d.watch(what, start, &got)
	err := both(ctx,
		func(ctx context.Context) error {
			defer context.AfterFunc(ctx, from.close)() // unblocks Write
			return t.send(ctx, from.channel(), d.each)
		},
		func(ctx context.Context) error { return t.receive(ctx, to.channel(), &got) })
	took := time.Since(start)
	stop()
	if err != nil {
		return err
	}
	n := got.bytes.Load()
	wire = from.session.ConnectionState().Stats.WireBytesWritten - wire
	d.out.printf("%-12s %d messages, %s in %s: %s, %s on the wire, every byte as sent\n",
		what, got.messages.Load(), byteCount(n), short(took), rate(n, took), byteCount(int64(wire)))
	return nil
}

// progressEvery is how often the progress is looked at.
const progressEvery = 100 * time.Millisecond

// watch shows the progress until the returned function is called.
func (d *demo) watch(what string, start time.Time, got *tally) (stop func()) {
	p := newProgress(d.err, d.bar, what, d.each)
	ended, shown := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(shown)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.show(time.Since(start), got.bytes.Load())
			case <-ended:
				p.finish()
				return
			}
		}
	}()
	return func() {
		close(ended)
		<-shown
	}
}

// part ends the session the way a node does, and checks that the other learns why.
func (d *demo) part(ctx context.Context, alice, bob *demoNode) error {
	if err := bob.session.Disconnect(p2p.DiscQuitting); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("sending Disconnect: %w", err)
	}
	select {
	case <-alice.session.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	want := &p2p.DisconnectError{Reason: p2p.DiscQuitting, Remote: true}
	if err := alice.session.Err(); !errors.Is(err, want) {
		return fmt.Errorf("alice's session ended with %q, want %q", err, want)
	}
	d.out.printf("disconnect   bob said: %v\n", want.Reason)
	return nil
}
