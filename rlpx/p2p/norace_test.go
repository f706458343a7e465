//go:build !race

package p2p

// flood is how many messages make one.
const flood = 200_000
