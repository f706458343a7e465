package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

const (
	// pipelined is how many requests are sent without waiting for an answer.
	pipelined = 10_000

	// headStart is how many of them are sent before anybody looks at an answer. They fit into
	// the buffers of any system.
	headStart = 500
)

// question is one of many requests for headers, and the hashes of those that answer it.
type question struct {
	request *eth.GetBlockHeadersRequest
	want    []common.Hash
}

// questions are requests of several forms, spread over the chain.
func (c *chain) questions() []question {
	questions := make([]question, pipelined)
	for i := range questions {
		number, step := i*7%len(c.blocks), 1
		q := question{request: &eth.GetBlockHeadersRequest{Amount: uint64(i % 4)}} // also for nothing
		if i%3 == 0 {
			q.request.Origin.Hash = c.blocks[number].Hash()
		} else {
			q.request.Origin.Number = uint64(number)
		}
		if i%5 == 0 {
			q.request.Skip = 2
			step = 3
		}
		if i%2 == 0 {
			q.request.Reverse = true
			step = -step
		}
		for range q.request.Amount {
			if number < 0 || number >= len(c.blocks) {
				break
			}
			q.want = append(q.want, c.blocks[number].Hash())
			number += step
		}
		questions[i] = q
	}
	return questions
}

// packet is the request under a number.
func (q question) packet(id int) ([]byte, error) {
	return rlp.EncodeToBytes(&eth.GetBlockHeadersPacket{RequestId: uint64(id), GetBlockHeadersRequest: q.request})
}

// answers checks off the answers to all questions.
type answers struct {
	questions []question
	seen      []bool
	left      int
}

func newAnswers(questions []question) *answers {
	return &answers{questions, make([]bool, len(questions)), len(questions)}
}

// add takes a BlockHeaders message, the answer to a question that has none yet, and returns the
// request's id.
func (a *answers) add(data []byte) (id uint64, err error) {
	var answer listAnswer
	if err := rlp.DecodeBytes(data, &answer); err != nil {
		return 0, err
	}
	id = answer.RequestID
	if id >= uint64(len(a.questions)) {
		return id, fmt.Errorf("the answer to request %d, which nobody sent", id)
	}
	if a.seen[id] {
		return id, fmt.Errorf("request %d is answered twice", id)
	}
	a.seen[id] = true
	a.left--
	var got []common.Hash
	for _, raw := range answer.List {
		got = append(got, crypto.Keccak256Hash(raw))
	}
	if !slices.Equal(got, a.questions[id].want) {
		return id, fmt.Errorf("request %d, %+v, is answered with %v, want %v", id, a.questions[id].request, got, a.questions[id].want)
	}
	return id, nil
}

// TestGethPipelined sends geth 10,000 requests without waiting for answers, while another
// goroutine reads these. Each must be answered once, and rightly.
func TestGethPipelined(t *testing.T) {
	c := testChain()
	questions := c.questions()
	l := listen(t)
	n := startGeth(t, gethConfig{chain: c, staticNodes: []string{l.url}})
	caps := ethCapabilities(eth.ETH69)

	// The session with geth as the initiator goes first, as it does not wait for long.
	for _, who := range []role{weServe, weDial} {
		t.Run(string(who)+"/writers", func(t *testing.T) {
			var p *ethPeer
			if who == weServe {
				p = joinedBy(t, l, caps, c.head())
			} else {
				p = join(t, n, caps, c.head())
			}
			pipelineSession(t, p, questions)
		})
	}
	t.Run("we dial/batches", func(t *testing.T) { pipelineBatches(t, dial(t, n), caps, questions) })
}

// pipelineSession has several goroutines share the requests, all on the channel of one session.
func pipelineSession(t *testing.T, p *ethPeer, questions []question) {
	session := p.ch.Session()
	const writers = 4
	ctx, cancel := context.WithCancelCause(step(t))
	defer cancel(nil)
	var sent atomic.Int64
	started := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer session.Close() // ends writers, should they be stuck
	start := time.Now()
	for w := range writers {
		wg.Go(func() {
			for id := w; id < len(questions); id += writers {
				data, err := questions[id].packet(id)
				if err == nil {
					err = p.ch.Write(eth.GetBlockHeadersMsg, data)
				}
				if err != nil {
					cancel(fmt.Errorf("sending request %d: %w", id, err))
					return
				}
				if sent.Add(1) == headStart {
					close(started)
				}
			}
		})
	}
	select {
	case <-started:
	case <-ctx.Done():
		t.Fatalf("%d requests sent: %v", sent.Load(), context.Cause(ctx))
	}
	for a := newAnswers(questions); a.left > 0; {
		id, data, err := p.ch.Read(ctx)
		if err != nil {
			t.Fatalf("%d requests sent, %d not answered: %v", sent.Load(), a.left, errors.Join(err, context.Cause(ctx)))
		}
		if id != eth.BlockHeadersMsg {
			continue
		}
		if _, err := a.add(data); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d requests by %d goroutines in %v", len(questions), writers, time.Since(start).Round(time.Millisecond))
	expectStillThere(t, p, session)
}

// expectStillThere checks that nothing comes beyond what was asked for, and that the session goes
// on.
func expectStillThere(t *testing.T, p *ethPeer, session *p2p.Session) {
	t.Helper()
	if err := p.genesisHeader(step(t), eth.HashOrNumber{Number: 0}); err != nil {
		t.Error(err)
	}
	if _, err := session.Ping(step(t)); err != nil {
		t.Error(err)
	}
}

// pipelineBatches sends the requests in batches, on a connection without a session.
func pipelineBatches(t *testing.T, conn *rlpx.Conn, caps p2p.Capabilities, questions []question) {
	theirs, err := p2p.Handshake(step(t), conn, &p2p.Hello{Name: "interop", Caps: caps.Caps()})
	if err != nil {
		t.Fatal(err)
	}
	matched, err := p2p.Match(caps, theirs.Caps)
	if err != nil {
		t.Fatal(err)
	}
	shared, ok := matched.Find("eth")
	if !ok {
		t.Fatalf("eth is not shared with %v", theirs)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	status := (&ethPeer{version: shared.Version, genesis: genesis().ToBlock(), head: testChain().head()}).status()
	if _, err := conn.Write(shared.Offset+eth.StatusMsg, encode(t, &status)); err != nil {
		t.Fatal(err)
	}

	const batch = 250
	wrote := make(chan error, 1)
	start := time.Now()
	go func() {
		for first := 0; first < len(questions); first += batch {
			var messages []rlpx.Message
			for id := first; id < min(first+batch, len(questions)); id++ {
				data, err := questions[id].packet(id)
				if err != nil {
					wrote <- err
					return
				}
				messages = append(messages, rlpx.Message{Code: shared.Offset + eth.GetBlockHeadersMsg, Data: data})
			}
			if _, err := conn.WriteBatch(messages); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- nil
	}()
	a, hadStatus := newAnswers(questions), false
	for a.left > 0 {
		code, data, _, err := conn.Read()
		if err != nil {
			t.Fatalf("%d requests are not answered: %v", a.left, err)
		}
		switch code {
		case p2p.PingCode:
			if _, err := conn.Write(p2p.PongCode, p2p.AppendPong(nil)); err != nil {
				t.Fatal(err)
			}
		case p2p.DisconnectCode:
			t.Fatalf("%d requests are not answered, and geth says Disconnect: %v", a.left, p2p.DecodeDisconnect(data))
		case shared.Offset + eth.StatusMsg:
			hadStatus = true
		case shared.Offset + eth.BlockHeadersMsg:
			want := uint64(len(questions) - a.left) // geth answers in order
			if id, err := a.add(data); err != nil || id != want {
				t.Fatalf("answer to request %d where that to %d is due, error %v", id, want, err)
			}
		}
	}
	if err := <-wrote; err != nil || !hadStatus {
		t.Errorf("writing: %v; Status came: %v", err, hadStatus)
	}
	t.Logf("%d requests in batches of %d in %v", len(questions), batch, time.Since(start).Round(time.Millisecond))
}
