package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

const timeout = 5 * time.Second

// inMemory runs a test in a world with a clock that only goes on when everybody waits. The test
// fails if it leaves goroutines.
func inMemory(t *testing.T, test func(t *testing.T, w *world, c *Crawler)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, self: newKey(t), nodes: map[string]func(context.Context) (net.Conn, error){}}
		test(t, w, New(w.self, timeout, w.connect))
		time.Sleep(time.Minute) // until the nodes have ended
		if w.open > 0 {
			t.Errorf("%d connections are open", w.open)
		}
	})
}

// 500 nodes that do everything that nodes do: each is told apart from the others, none takes more
// than its time, and 32 are visited at once, no more and no less.
func TestCrawl(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, c *Crawler) {
		const nodes = 500
		var urls []string
		kindOf := map[string][]kind{}
		want := map[Outcome]int{}
		for i := range nodes {
			k := kinds[i%len(kinds)]
			url := k.make(w)
			urls, kindOf[url] = append(urls, url), append(kindOf[url], k)
			want[k.want]++
		}
		r := rand.New(rand.NewPCG(1, 2))
		r.Shuffle(len(urls), func(i, j int) { urls[i], urls[j] = urls[j], urls[i] })

		got := map[Outcome]int{}
		c.Crawl(t.Context(), slices.Values(urls), func(r Result) {
			got[r.Outcome]++
			k := kindOf[r.URL][0]
			if r.Outcome != k.want {
				t.Errorf("%s: %q, want %q (%v)", k.name, r.Outcome, k.want, r.Err)
			}
			says := r.Outcome == Met || r.Outcome == NothingShared
			if (r.Outcome == Met) != (r.Err == nil) || says != (r.Hello != nil && r.Hello.Name == "node/v1") {
				t.Errorf("%s: Hello %v, error %v", k.name, r.Hello, r.Err)
			}
			if text := r.String(); strings.Contains(text, "\n") || len(text) > 1024 {
				t.Errorf("%s: printed as %q", k.name, text)
			}
		})
		for outcome, n := range want {
			if got[outcome] != n {
				t.Errorf("%s: %d nodes, want %d", outcome, got[outcome], n)
			}
		}
		if w.most > atOnce || w.visits != atOnce {
			t.Errorf("%d visits and %d connections at once, want %d", w.visits, w.most, atOnce)
		}
		if limit := timeout + 2*time.Second; w.longestOpen > limit {
			t.Errorf("a connection was open for %v, want %v at most", w.longestOpen, limit)
		}
	})
}

// What is under way when the crawler is interrupted says nothing of the nodes.
func TestInterrupted(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, c *Crawler) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		asked := 0
		start := time.Now()
		c.Crawl(ctx, func(yield func(string) bool) {
			for asked = 1; yield(kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == "no Hello" })].make(w)); asked++ {
			}
		}, func(r Result) { t.Error(r) })
		if asked != atOnce+1 || time.Since(start) > 3*time.Second {
			t.Errorf("asked for %d nodes, ended after %v", asked, time.Since(start))
		}
	})
}

// The program over TCP: nodes from arguments and from a file.
func TestProgram(t *testing.T) {
	rlpxtest.CheckGoroutines(t)
	key := newKey(t)
	l, err := p2p.Listen("tcp", "127.0.0.1:0", &rlpx.Config{Key: key}, &p2p.SessionConfig{Name: "node/v1", Capabilities: offered})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	url := func(addr string) string {
		node := p2p.Node{Key: &key.PublicKey, Host: "127.0.0.1", TCP: uint16(1), UDP: 1}
		if _, port, err := net.SplitHostPort(addr); err == nil {
			fmt.Sscan(port, &node.TCP)
		}
		return node.String()
	}
	unused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unused.Close()
	file := filepath.Join(t.TempDir(), "nodes")
	list := "# nodes\n\n  " + url(unused.Addr().String()) + "\nenode://\x1b[2J\n"
	if err := os.WriteFile(file, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), []string{"-timeout", "1m", "-file", file, url(l.Addr().String())}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		l.Addr().String() + "  node/v1, p2p/5, capabilities eth/68, eth/69, eth/70, snap/1, id ",
		unused.Addr().String() + "  connection refused (", "?  invalid enode URL (",
		"\n3 of 3 nodes\n", "    1  met\n", "    1  connection refused\n", "    1  invalid enode URL\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("printed %q", out.String())
	}
}

func TestWrongArguments(t *testing.T) {
	for _, args := range [][]string{{}, {"-no-such-flag"}, {"-file", "/no/such/file"}, {"-timeout", "0", "enode://"}} {
		var out strings.Builder
		if err := run(t.Context(), args, &out); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	if err := run(ctx, []string{"enode://"}, &out); !errors.Is(err, context.Canceled) || !strings.Contains(out.String(), "0 of 1 nodes") {
		t.Errorf("interrupted: %v, printed %q", err, out.String())
	}
}
