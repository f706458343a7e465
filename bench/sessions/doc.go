// Package sessions has the benchmarks of sessions against go-ethereum's p2p.Server. It is a module
// of its own, since that package requires a node database and much more. See bench/README.md.
package sessions
