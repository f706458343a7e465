package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-rlpx/transport/rlpx"
)

// RegisterHashing publishes what the connections of the process that have rlpx.Config.SharedHashing
// hash together. Lanes divided by passes is how many of the processor's lanes were busy on average.
func RegisterHashing(r prometheus.Registerer) {
	for _, c := range []struct {
		name, help string
		value      func() uint64
	}{
		{"passes_total", "Passes in which pieces of several connections were hashed side by side.",
			func() uint64 { return rlpx.SharedHashing().Passes }},
		{"lanes_total", "Lanes that were busy in these passes.",
			func() uint64 { return rlpx.SharedHashing().Lanes }},
		{"alone_total", "Pieces that went alone because there was nobody to share with.",
			func() uint64 { return rlpx.SharedHashing().Alone }},
	} {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "hashing", Name: c.name, Help: c.help,
		}, func() float64 { return float64(c.value()) }))
	}
}
