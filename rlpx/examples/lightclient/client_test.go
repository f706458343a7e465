package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/rlp"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

// Both versions: Status each way, and headers by number and by hash.
func TestHeaders(t *testing.T) {
	for _, tc := range []struct {
		versions []uint64
		want     uint64
	}{{[]uint64{68}, 68}, {[]uint64{69}, 69}, {[]uint64{68, 69}, 69}} {
		t.Run(fmt.Sprint(tc.versions), func(t *testing.T) {
			n := startNode(t, tc.versions...)
			c := n.mustDial()
			want := testStatus(tc.want)
			if tc.want == 68 {
				want.Latest = 0
			}
			if got := c.Status(); got != *want {
				t.Errorf("Status %+v, want %+v", got, want)
			}
			m := <-n.messages
			ours, err := decodeStatus(tc.want, m.data)
			if want := (Status{tc.want, chainID, hashOf(0), want.ForkID, 0, hashOf(0)}); err != nil || m.id != statusMsg || *ours != want {
				t.Errorf("the node got message %d, %+v, %v; want Status %+v", m.id, ours, err, want)
			}
			for _, first := range []int{0, 1, 99, 150, 499} {
				byNumber, err := c.HeadersFrom(t.Context(), uint64(first), 192)
				if err != nil {
					t.Fatal(err)
				}
				byHash, err := c.HeadersAt(t.Context(), hashOf(first), 192)
				if err != nil {
					t.Fatal(err)
				}
				for _, got := range [][]*Header{byNumber, byHash} {
					if len(got) != min(192, len(chain)-first) {
						t.Errorf("%d headers from %d on", len(got), first)
					}
					for i, h := range got {
						if h.Hash() != hashOf(first+i) || h.Number != uint64(first+i) || h.Time != 1_700_000_000+12*h.Number || string(h.Extra) != "made up" {
							t.Errorf("header %d is %+v", first+i, h)
						}
					}
				}
			}
			if _, err := c.HeadersFrom(t.Context(), uint64(len(chain)), 1); !errors.Is(err, ErrHeaders) {
				t.Errorf("after the end of the chain: %v", err)
			}
		})
	}
}

// What is wrong in Status is said, and the node is told to be of no use, or in the wrong.
func TestWrongStatus(t *testing.T) {
	for _, tc := range []struct {
		name   string
		start  func(n *node, ch *p2p.Channel)
		want   error
		text   string
		reason p2p.DiscReason
	}{
		{"network", changed(func(s *Status) { s.Network = 5 }), ErrNetwork, "another network: 5 instead of 1337", p2p.DiscUselessPeer},
		{"genesis", changed(func(s *Status) { s.Genesis = Hash{0xab} }), ErrGenesis, "another genesis block: 0xab00", p2p.DiscUselessPeer},
		{"network and genesis", changed(func(s *Status) { s.Network, s.Genesis = 5, Hash{} }), ErrNetwork, "5 instead", p2p.DiscUselessPeer},
		{"version", changed(func(s *Status) { s.Version = 67 }), ErrVersion, "67 instead of 6", p2p.DiscSubprotocolError},
		{"no list", func(n *node, ch *p2p.Channel) { ch.Write(statusMsg, []byte{0x05}) }, ErrProtocol, "Status", p2p.DiscSubprotocolError},
		{"of the other version", func(n *node, ch *p2p.Channel) {
			other := 68 + 69 - ch.Shared().Version
			ch.WriteRLP(context.Background(), statusMsg, testStatus(ch.Shared().Version).wire(other))
		}, ErrProtocol, "Status", p2p.DiscSubprotocolError},
		{"another message first", func(n *node, ch *p2p.Channel) { ch.Write(blockHeadersMsg, []byte{0xc2, 1, 0xc0}) }, ErrProtocol, "message 0x4", p2p.DiscSubprotocolError},
	} {
		for _, version := range []uint64{68, 69} {
			t.Run(fmt.Sprint(tc.name, version), func(t *testing.T) {
				n := startNode(t, version)
				n.started = func(ch *p2p.Channel) { tc.start(n, ch) }
				_, err := n.dial(t.Context(), testNetwork)
				if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) || p2p.ReasonFor(err) != tc.reason {
					t.Fatalf("got %v (%v)", err, p2p.ReasonFor(err))
				}
				n.wantEnd(tc.reason)
			})
		}
	}
}

func changed(change func(s *Status)) func(n *node, ch *p2p.Channel) {
	return func(n *node, ch *p2p.Channel) {
		s := testStatus(ch.Shared().Version)
		change(s)
		n.say(ch, s)
	}
}

func TestStatusTwice(t *testing.T) {
	n := startNode(t, 69)
	c := n.mustDial()
	s := n.session()
	n.say(s.Capability("eth"), testStatus(69))
	<-c.Session().Done()
	if err := c.Session().Err(); !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), "only once") {
		t.Error(err)
	}
}

// Dial does not wait longer than its context.
func TestNoStatus(t *testing.T) {
	n := startNode(t, 69)
	ctx, cancel := context.WithCancel(t.Context())
	n.started = func(*p2p.Channel) { cancel() }
	if _, err := n.dial(ctx, testNetwork); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Why the node ends the session is known, while Status is exchanged and while headers are waited
// for.
func TestNodeEndsIt(t *testing.T) {
	want := &p2p.DisconnectError{Reason: p2p.DiscTooManyPeers, Remote: true}
	n := startNode(t, 69)
	n.started = func(ch *p2p.Channel) { ch.Session().End(p2p.DiscTooManyPeers) }
	if _, err := n.dial(t.Context(), testNetwork); !errors.Is(err, want) {
		t.Errorf("instead of Status: %v", err)
	}
	n = startNode(t, 69)
	n.asked = func(ch *p2p.Channel, _ uint64, _ []rlp.RawValue) error {
		ch.Session().End(p2p.DiscTooManyPeers)
		return nil
	}
	if _, err := n.mustDial().HeadersFrom(t.Context(), 0, 1); !errors.Is(err, want) {
		t.Errorf("instead of headers: %v", err)
	}
}

// Answers that are none are refused, and the session goes on.
func TestBadHeaders(t *testing.T) {
	other := slices.Clone(chain[6])
	other[len(other)-1] ^= 1 // in the nonce
	for _, tc := range []struct {
		name   string
		answer []rlp.RawValue
		text   string
	}{
		{"none", nil, "got 0"},
		{"more than asked for", chain[5:9], "got 4"},
		{"from another block on", chain[6:9], "instead of"},
		{"a gap", []rlp.RawValue{chain[5], chain[7]}, "7 is no child of 5"},
		{"backwards", []rlp.RawValue{chain[5], chain[4]}, "4 is no child of 5"},
		{"twice", []rlp.RawValue{chain[5], chain[5]}, "5 is no child of 5"},
		{"another parent", []rlp.RawValue{chain[5], other, chain[7]}, "7 is no child of 6"},
		{"no header", []rlp.RawValue{{0xc1, 0x05}}, "header"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := startNode(t, 69)
			var bad atomic.Bool
			bad.Store(true)
			n.asked = func(ch *p2p.Channel, id uint64, headers []rlp.RawValue) error {
				if bad.Load() {
					headers = tc.answer
				}
				return ch.SendRLP(blockHeadersMsg, &headersAnswer{id, headers})
			}
			c := n.mustDial()
			if _, err := c.HeadersFrom(t.Context(), 5, 3); !errors.Is(err, ErrHeaders) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("by number: %v", err)
			}
			if _, err := c.HeadersAt(t.Context(), hashOf(5), 3); !errors.Is(err, ErrHeaders) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("by hash: %v", err)
			}
			bad.Store(false)
			if got, err := c.HeadersFrom(t.Context(), 5, 3); err != nil || len(got) != 3 {
				t.Errorf("after that: %d headers, %v", len(got), err)
			}
		})
	}
}

// A header of another chain is found out by its hash.
func TestOtherChain(t *testing.T) {
	n := startNode(t, 69)
	forged := slices.Clone(chain[0])
	forged[len(forged)-1] ^= 1
	n.asked = func(ch *p2p.Channel, id uint64, _ []rlp.RawValue) error {
		return ch.SendRLP(blockHeadersMsg, &headersAnswer{id, []rlp.RawValue{forged}})
	}
	c := n.mustDial()
	if _, err := c.HeadersFrom(t.Context(), 0, 1); !errors.Is(err, ErrHeaders) {
		t.Errorf("by number: %v", err)
	}
	if _, err := c.HeadersAt(t.Context(), hashOf(0), 1); !errors.Is(err, ErrHeaders) {
		t.Errorf("by hash: %v", err)
	}
}

// Requests that are under way at once get the answers with their ids, in whatever order these come.
func TestManyRequests(t *testing.T) {
	const requests = 20
	n := startNode(t, 69)
	type answer struct {
		id      uint64
		headers []rlp.RawValue
	}
	var held []answer
	n.asked = func(ch *p2p.Channel, id uint64, headers []rlp.RawValue) error {
		if held = append(held, answer{id, headers}); len(held) < requests {
			return nil
		}
		if err := ch.SendRLP(blockHeadersMsg, &headersAnswer{1 << 40, chain[:1]}); err != nil { // nobody's
			return err
		}
		for _, a := range slices.Backward(held) {
			if err := ch.SendRLP(blockHeadersMsg, &headersAnswer{a.id, a.headers}); err != nil {
				return err
			}
		}
		return nil
	}
	c := n.mustDial()
	var asking sync.WaitGroup
	for i := range requests {
		asking.Go(func() {
			if got, err := c.HeadersFrom(t.Context(), uint64(10*i), 3); err != nil || len(got) != 3 {
				t.Errorf("request %d: %d headers, %v", i, len(got), err)
			}
		})
	}
	asking.Wait()
	wantNonePending(t, c)
}

// A request that is given up leaves nothing behind, and its late answer does no harm.
func TestLateAnswer(t *testing.T) {
	n := startNode(t, 69)
	ctx, cancel := context.WithCancel(t.Context())
	ids := make(chan uint64, 1)
	n.asked = func(_ *p2p.Channel, id uint64, _ []rlp.RawValue) error {
		ids <- id
		cancel()
		return nil
	}
	c := n.mustDial()
	if _, err := c.HeadersFrom(ctx, 0, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ch := n.session().Capability("eth")
	if err := ch.WriteRLP(context.Background(), blockHeadersMsg, &headersAnswer{<-ids, chain[:1]}); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.Session().Ping(t.Context()); err != nil { // the answer came before
		t.Error(err)
	}
	wantNonePending(t, c)
}

func wantNonePending(t *testing.T, c *Client) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) > 0 {
		t.Errorf("%d requests are pending", len(c.pending))
	}
}

// The node's requests are answered with nothing, and what it tells is taken or left.
func TestNodeAsksAndTells(t *testing.T) {
	n := startNode(t, 69)
	c := n.mustDial()
	<-n.messages // our Status
	ch := n.session().Capability("eth")
	for request, answer := range emptyAnswers {
		if err := ch.WriteRLP(context.Background(), request, []any{uint64(77), [][]byte{make([]byte, 32)}}); err != nil {
			t.Fatal(err)
		}
		m := <-n.messages
		var got headersAnswer
		if err := rlp.DecodeBytes(m.data, &got); err != nil || m.id != answer || got.ID != 77 || len(got.Headers) > 0 {
			t.Errorf("request %#x: message %#x, %+v, %v", request, m.id, got, err)
		}
	}
	if err := ch.Write(0x02, []byte("transactions, of which nothing is decoded")); err != nil {
		t.Fatal(err)
	}
	if err := ch.WriteRLP(context.Background(), blockRangeUpdateMsg, &blockRange{3, 501, Hash{5}}); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.Session().Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if s := c.Status(); s.Latest != 501 || s.HeadHash != (Hash{5}) {
		t.Errorf("Status %+v", s)
	}
	if err := ch.Write(blockRangeUpdateMsg, []byte{0xc1, 0x80}); err != nil {
		t.Fatal(err)
	}
	<-c.Session().Done()
	if err := c.Session().Err(); !errors.Is(err, ErrProtocol) {
		t.Error(err)
	}
}

// A message that no node has reason to send is not even decompressed.
func TestLargeMessage(t *testing.T) {
	n := startNode(t, 69)
	c := n.mustDial()
	go n.session().Capability("eth").Write(blockHeadersMsg, make([]byte, 11<<20))
	<-c.Session().Done()
	if err := c.Session().Err(); p2p.ReasonFor(err) != p2p.DiscProtocolError {
		t.Error(err)
	}
}

func TestProgram(t *testing.T) {
	n := startNode(t, 68, 69)
	args := func(more ...string) []string {
		return append(more, "-timeout", "1m", "-network", fmt.Sprint(chainID), "-genesis", hashOf(0).String(), n.url)
	}
	var out strings.Builder
	if err := run(t.Context(), args("-from", "50", "-count", "400"), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 401 || lines[0] != "node/v1, eth/69, network 1337, newest block "+hashOf(499).String() ||
		lines[400] != fmt.Sprintf("%10d  %v  2023-11-14 23:43:08", 449, hashOf(449)) {
		t.Errorf("%d lines, %q ... %q", len(lines), lines[0], lines[len(lines)-1])
	}
	if err := run(t.Context(), args("-from", "490"), &out); err != nil { // up to the end
		t.Error(err)
	}
	if err := run(t.Context(), args("-from", "490", "-count", "11"), &out); !errors.Is(err, ErrHeaders) {
		t.Errorf("past the end: %v", err)
	}
	if err := run(t.Context(), []string{"-timeout", "1m", n.url}, &out); !errors.Is(err, ErrNetwork) {
		t.Errorf("with the main network: %v", err)
	}
	for _, wrong := range [][]string{{}, {"-no-such-flag"}, {"-genesis", "0x12", n.url}, {n.url, n.url}, {"enode://nobody"}} {
		if err := run(t.Context(), wrong, &out); err == nil {
			t.Errorf("%v: no error", wrong)
		}
	}
}
