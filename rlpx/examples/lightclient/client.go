package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ethereum/go-ethereum/rlp"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// What can be wrong with a node. The session ends with these, and so does Dial.
var (
	ErrVersion  = errors.New("lightclient: the node's Status is of another version of eth")
	ErrNetwork  = errors.New("lightclient: the node is on another network")
	ErrGenesis  = errors.New("lightclient: the node has another genesis block")
	ErrProtocol = errors.New("lightclient: the node breaks the rules of eth")

	// ErrHeaders reports an answer that is none to the question. The session goes on.
	ErrHeaders = errors.New("lightclient: bad headers")
)

// Network is the one that a node must be on.
type Network struct {
	ID      uint64
	Genesis Hash
}

// Client is a session with a node that is on the right network. Its methods may be called by any
// goroutine.
type Client struct {
	network Network
	session *p2p.Session
	ready   chan struct{} // closed when both Status are exchanged

	mu      sync.Mutex
	status  *Status // of the node, with its newest block up to date; nil before it came
	lastID  uint64  // of a request
	pending map[uint64]chan<- []rlp.RawValue
}

// Dial connects to the node of an enode URL and exchanges Status. ctx bounds all of it. Of what the
// node says that is wrong, ErrVersion, ErrNetwork or ErrGenesis comes first.
func Dial(ctx context.Context, url string, conn *rlpx.Config, network Network) (*Client, error) {
	c := &Client{network: network, ready: make(chan struct{}), pending: map[uint64]chan<- []rlp.RawValue{}}
	session, err := p2p.Dial(ctx, url, conn, &p2p.SessionConfig{Name: "lightclient/v1", Capabilities: capabilities(c.handle)})
	if err != nil {
		return nil, err
	}
	c.session = session
	select {
	case <-c.ready:
		return c, nil
	case <-session.Done():
		return nil, session.Err()
	case <-ctx.Done():
		session.Close()
		return nil, fmt.Errorf("lightclient: waiting for Status: %w", ctx.Err())
	}
}

// Close says goodbye.
func (c *Client) Close() error { return c.session.Close() }

// Session is the session with the node.
func (c *Client) Session() *p2p.Session { return c.session }

// Status returns what the node said last of itself.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.status
}

// handle is called by the session's reader for each message, from before Dial has the session. data
// is lent; what is decoded from it is a copy. An error ends the session, with the reason that is in
// it or else with DiscSubprotocolError.
func (c *Client) handle(ch *p2p.Channel, id uint64, data []byte) error {
	c.mu.Lock()
	first := c.status == nil
	c.mu.Unlock()
	switch answer, asked := emptyAnswers[id]; {
	case first != (id == statusMsg):
		return fmt.Errorf("%w: message %#x, with Status to come first and only once", ErrProtocol, id)
	case id == statusMsg:
		return c.handleStatus(ch, data)
	case id == blockHeadersMsg:
		return c.handleHeaders(data)
	case id == blockRangeUpdateMsg:
		return c.handleRange(data)
	case asked:
		// We have no blocks. A node that waits for an answer in vain ends the session.
		var request struct {
			ID   uint64
			Rest []rlp.RawValue `rlp:"tail"`
		}
		if err := decode(data, &request); err != nil {
			return err
		}
		// Handle must not wait for the node, which may wait for us: so Send, not Write.
		return ch.SendRLP(answer, &headersAnswer{ID: request.ID})
	default:
		return nil // transactions and blocks that it tells us of
	}
}

// handleStatus checks the node's Status and answers with ours.
func (c *Client) handleStatus(ch *p2p.Channel, data []byte) error {
	version := ch.Shared().Version
	s, err := decodeStatus(version, data)
	switch {
	case err != nil:
		return fmt.Errorf("%w: Status: %w", ErrProtocol, err)
	case s.Version != version:
		return fmt.Errorf("%w: %d instead of %d", ErrVersion, s.Version, version)
	case s.Network != c.network.ID:
		return fmt.Errorf("%w: %d instead of %d (%w)", ErrNetwork, s.Network, c.network.ID, p2p.DiscUselessPeer)
	case s.Genesis != c.network.Genesis:
		return fmt.Errorf("%w: %v instead of %v (%w)", ErrGenesis, s.Genesis, c.network.Genesis, p2p.DiscUselessPeer)
	}
	// We have the genesis block and nothing else. Forks change nothing of what we do, so we know
	// those that the node knows. To learn of them we wait for its Status, which nodes send without
	// waiting for ours.
	ours := &Status{version, c.network.ID, c.network.Genesis, s.ForkID, 0, c.network.Genesis}
	if err := ch.SendRLP(statusMsg, ours.wire(version)); err != nil {
		return err
	}
	c.mu.Lock()
	c.status = s
	c.mu.Unlock()
	close(c.ready)
	return nil
}

// handleRange takes note of newer blocks.
func (c *Client) handleRange(data []byte) error {
	var r blockRange
	if err := decode(data, &r); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Latest, c.status.HeadHash = r.Latest, r.HeadHash
	return nil
}

// handleHeaders gives an answer to whoever asked. That nobody waits any more is no fault of the
// node.
func (c *Client) handleHeaders(data []byte) error {
	var answer headersAnswer
	if err := decode(data, &answer); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if waiting := c.pending[answer.ID]; waiting != nil {
		delete(c.pending, answer.ID)
		waiting <- answer.Headers // which has room for it
	}
	return nil
}

func decode(data []byte, val any) error {
	if err := rlp.DecodeBytes(data, val); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return nil
}

// HeadersFrom fetches up to count headers, from that with the given number on. Nodes give fewer
// than they were asked for where their chain ends, or where an answer would be too large. None at
// all is ErrHeaders.
func (c *Client) HeadersFrom(ctx context.Context, number, count uint64) ([]*Header, error) {
	headers, err := c.headers(ctx, number, count)
	switch {
	case err != nil:
		return nil, err
	case headers[0].Number != number:
		return nil, fmt.Errorf("%w: number %d instead of %d", ErrHeaders, headers[0].Number, number)
	case number == 0 && headers[0].Hash() != c.network.Genesis:
		return nil, fmt.Errorf("%w: block 0 is %v", ErrHeaders, headers[0].Hash())
	}
	return headers, nil
}

// HeadersAt is HeadersFrom for the header with the given hash and those after it.
func (c *Client) HeadersAt(ctx context.Context, hash Hash, count uint64) ([]*Header, error) {
	headers, err := c.headers(ctx, hash, count)
	if err == nil && headers[0].Hash() != hash {
		return nil, fmt.Errorf("%w: %v instead of %v", ErrHeaders, headers[0].Hash(), hash)
	}
	return headers, err
}

// headers sends a request and checks that the answer is a chain.
func (c *Client) headers(ctx context.Context, origin any, count uint64) ([]*Header, error) {
	raws, err := c.ask(ctx, headersQuery{Origin: origin, Count: count})
	if err != nil {
		return nil, err
	}
	if n := uint64(len(raws)); n == 0 || n > count {
		return nil, fmt.Errorf("%w: asked for %d, got %d", ErrHeaders, count, n)
	}
	var headers []*Header
	for i, raw := range raws {
		h, err := decodeHeader(raw)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrHeaders, err)
		}
		if i > 0 && (h.Parent != headers[i-1].Hash() || h.Number != headers[i-1].Number+1) {
			return nil, fmt.Errorf("%w: number %d is no child of %d", ErrHeaders, h.Number, headers[i-1].Number)
		}
		headers = append(headers, h)
	}
	return headers, nil
}

// ask sends a request and waits for the answer with its id.
func (c *Client) ask(ctx context.Context, query headersQuery) ([]rlp.RawValue, error) {
	answer := make(chan []rlp.RawValue, 1)
	c.mu.Lock()
	c.lastID++
	id := c.lastID
	c.pending[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pending, id)
	}()
	if err := c.session.Capability("eth").WriteRLP(ctx, getBlockHeadersMsg, &headersRequest{id, query}); err != nil {
		return nil, err
	}
	select {
	case raws := <-answer:
		return raws, nil
	case <-c.session.Done():
		return nil, c.session.Err()
	case <-ctx.Done():
		return nil, fmt.Errorf("lightclient: waiting for headers: %w", ctx.Err())
	}
}
