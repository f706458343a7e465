//go:build race

package p2p

// flood is how many messages make one: fewer where each takes ten times as long.
const flood = 20_000
