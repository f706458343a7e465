// Package measure measures what rlpx bench shows: the throughput of this library's
// transport and of go-ethereum's over connections within one process ([Load]), and the
// round trips and throughput of an echo by a peer ([Echo]).
//
// Whoever receives knows by itself which message must come next and compares every byte of it, in
// all measurements and for both implementations alike.
//
// A measurement runs in goroutines of its own, which are gone when it returns; it ends early when
// its context does.
package measure
