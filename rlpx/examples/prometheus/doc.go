// Command prometheus is an example: it publishes what package rlpx counts and traces with
// Prometheus's client library. Copy what you need.
//
//   - [Collector] (collector.go) adds up the counters of all connections of a node, those that have
//     ended included, so that no total ever goes backwards.
//   - handshakes.go counts handshakes by result, with a histogram of how long they took, from
//     rlpx.Config's Trace and OnError.
//   - hashing.go publishes what connections of the process with rlpx.Config.SharedHashing hash
//     together.
//   - main.go and demo.go run two nodes that talk to each other:
//
// Start it, and look:
//
//	go run . &
//	curl --retry 60 --retry-delay 1 --retry-connrefused http://127.0.0.1:9464/metrics
//
// A node does three things with a Collector: it makes its connections with the Config that
// [Collector.Instrument] returns, tracks each with [Collector.Track] until it has closed it, and
// registers the Collector.
//
// It is a module of its own, so that the library does not depend on Prometheus.
package main
