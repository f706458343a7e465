package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func main() {
	addr := flag.String("listen", "127.0.0.1:9464", "address of /metrics")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "prometheus:", err)
		os.Exit(1)
	}
}

// run lets two nodes talk to each other and serves their metrics on addr until ctx is done.
func run(ctx context.Context, addr string, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectors.NewGoCollector())
	RegisterHashing(registry)
	alice, bob := NewCollector(), NewCollector()
	for name, c := range map[string]*Collector{"alice": alice, "bob": bob} {
		prometheus.WrapRegistererWith(prometheus.Labels{"node": name}, registry).MustRegister(c)
	}

	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() {
		served <- server.Serve(l)
		cancel()
	}()
	fmt.Fprintf(out, "metrics on http://%v/metrics\n", l.Addr())

	err = demo(ctx, alice, bob)
	server.Close()
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}
