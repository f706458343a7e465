package main

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/go-rlpx/transport/rlpx"
)

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// connect returns the two ends of a connection between the nodes of two Collectors.
func connect(t *testing.T, dialing, listening *Collector) (a, b *rlpx.Conn) {
	t.Helper()
	key := newKey(t)
	l, err := rlpx.Listen("tcp", "127.0.0.1:0", listening.Instrument(&rlpx.Config{Key: key}))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err = rlpx.Dial(t.Context(), "tcp", l.Addr().String(), &key.PublicKey, dialing.Instrument(&rlpx.Config{Key: newKey(t)}))
	if err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// carry sends messages from a to b.
func carry(t *testing.T, a, b *rlpx.Conn, count, size int) {
	t.Helper()
	for range count {
		sent := make(chan error, 1)
		go func() {
			_, err := a.Write(16, make([]byte, size))
			sent <- err
		}()
		if _, _, _, err := b.Read(); err != nil {
			t.Fatal(err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
}

// serve serves /metrics of some Collectors as main does.
func serve(t *testing.T, nodes map[string]*Collector) (url string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	RegisterHashing(registry)
	for name, c := range nodes {
		prometheus.WrapRegistererWith(prometheus.Labels{"node": name}, registry).MustRegister(c)
	}
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	return server.URL
}

func wantMetrics(t *testing.T, url, want string) {
	t.Helper()
	var names []string
	for line := range strings.Lines(want) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			names = append(names, strings.Fields(name)[0])
		}
	}
	if err := testutil.ScrapeAndCompare(url, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

// What is scraped is what was carried, and stays so when connections end.
func TestScrape(t *testing.T) {
	alice, bob := NewCollector(), NewCollector()
	url := serve(t, map[string]*Collector{"alice": alice, "bob": bob})
	const format = `
# HELP rlpx_connections Connections that are open.
# TYPE rlpx_connections gauge
rlpx_connections{node="alice"} %d
rlpx_connections{node="bob"} %d
# HELP rlpx_handshakes_total Handshakes that have ended.
# TYPE rlpx_handshakes_total counter
rlpx_handshakes_total{node="alice",result="ok",role="initiator"} %d
rlpx_handshakes_total{node="bob",result="ok",role="recipient"} %d
# HELP rlpx_messages_total Messages.
# TYPE rlpx_messages_total counter
rlpx_messages_total{direction="read",node="alice"} %d
rlpx_messages_total{direction="read",node="bob"} %d
rlpx_messages_total{direction="written",node="alice"} %d
rlpx_messages_total{direction="written",node="bob"} %d
# HELP rlpx_plain_bytes_total Message data before compression.
# TYPE rlpx_plain_bytes_total counter
rlpx_plain_bytes_total{direction="read",node="alice"} %d
rlpx_plain_bytes_total{direction="read",node="bob"} %d
rlpx_plain_bytes_total{direction="written",node="alice"} %d
rlpx_plain_bytes_total{direction="written",node="bob"} %d
# HELP rlpx_wire_bytes_total Everything that went through the net.Conns after the handshakes.
# TYPE rlpx_wire_bytes_total counter
rlpx_wire_bytes_total{direction="read",node="alice"} %d
rlpx_wire_bytes_total{direction="read",node="bob"} %d
rlpx_wire_bytes_total{direction="written",node="alice"} %d
rlpx_wire_bytes_total{direction="written",node="bob"} %d
`
	// A frame: header and its MAC, code and data padded to 16 bytes, MAC.
	const frame100, frame1000 = 32 + 112 + 16, 32 + 1008 + 16

	a, b := connect(t, alice, bob)
	untrackA, untrackB := alice.Track(a), bob.Track(b)
	carry(t, a, b, 3, 100)
	carry(t, b, a, 2, 1000)
	first := fmt.Sprintf(format, 1, 1, 1, 1, 2, 3, 3, 2, 2000, 300, 300, 2000, 2*frame1000, 3*frame100, 3*frame100, 2*frame1000)
	wantMetrics(t, url, first)

	a.Close()
	b.Close()
	untrackA()
	untrackB()
	ended := strings.NewReplacer(`connections{node="alice"} 1`, `connections{node="alice"} 0`, `connections{node="bob"} 1`, `connections{node="bob"} 0`).Replace(first)
	wantMetrics(t, url, ended)
	untrackA() // once more does not count twice
	wantMetrics(t, url, ended)

	a, b = connect(t, alice, bob)
	alice.Track(a)
	bob.Track(b)
	carry(t, a, b, 1, 100)
	wantMetrics(t, url, fmt.Sprintf(format, 1, 1, 2, 2, 2, 4, 4, 2, 2000, 400, 400, 2000, 2*frame1000, 4*frame100, 4*frame100, 2*frame1000))
}

// Every counter of a connection is published, and each once.
func TestEveryCounterIsPublished(t *testing.T) {
	var stats rlpx.Stats
	v := reflect.ValueOf(&stats).Elem()
	for i := range v.NumField() {
		v.Field(i).SetUint(1 << i)
	}
	sums := newTotals()
	sums.add(stats)
	var seen uint64
	for i, sum := range sums {
		for direction, value := range map[string]uint64{"read": sum.read, "written": sum.written} {
			bit := -1
			for j := range v.NumField() {
				if value == 1<<j {
					bit = j
				}
			}
			if bit < 0 || seen&value != 0 {
				t.Fatalf("counter %d, %s: %b", i, direction, value)
			}
			seen |= value
			if name := v.Type().Field(bit).Name; strings.Contains(name, "Read") != (direction == "read") {
				t.Errorf("%s is published as %s", name, direction)
			}
		}
	}
	if seen != 1<<v.NumField()-1 {
		t.Errorf("published are %b of %d counters", seen, v.NumField())
	}
}

func TestLint(t *testing.T) {
	problems, err := testutil.CollectAndLint(NewCollector())
	if err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// Totals grow, or stay, while connections come and go and others are scraping.
func TestTotalsNeverGoBackwards(t *testing.T) {
	const connections, count = 20, 10
	node := NewCollector()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(node)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var scraping sync.WaitGroup
	for range 2 {
		scraping.Go(func() {
			last := map[string]float64{}
			for ctx.Err() == nil {
				metrics, err := registry.Gather()
				if err != nil {
					t.Error(err)
					return
				}
				for _, family := range metrics {
					for _, m := range family.Metric {
						if m.Counter == nil {
							continue
						}
						key := fmt.Sprint(family.GetName(), m.Label)
						if v := m.Counter.GetValue(); v < last[key] {
							t.Errorf("%s went from %v to %v", key, last[key], v)
						} else {
							last[key] = v
						}
					}
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	for range connections {
		a, b := connect(t, node, node)
		untrackA, untrackB := node.Track(a), node.Track(b)
		carry(t, a, b, count, 5000)
		a.Close()
		b.Close()
		untrackA()
		untrackB()
	}
	stop()
	scraping.Wait()
	sums, open := node.sum()
	if want := uint64(connections * count); sums[0].read != want || sums[0].written != want || open != 0 {
		t.Errorf("messages: %+v, want %d; %d open", sums[0], want, open)
	}
}

func TestRegisterHashing(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	RegisterHashing(registry)
	metrics, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range metrics {
		got[family.GetName()] = family.Metric[0].Counter.GetValue()
	}
	// Nothing is hashing meanwhile.
	s := rlpx.SharedHashing()
	want := map[string]float64{
		"rlpx_hashing_passes_total": float64(s.Passes),
		"rlpx_hashing_lanes_total":  float64(s.Lanes),
		"rlpx_hashing_alone_total":  float64(s.Alone),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
