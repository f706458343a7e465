// Relay is a node that passes on what its peers send: each message of the capability "relay" goes
// to all other peers. It shows what a node with many peers needs beside the library, and is small
// enough to be copied.
//
//	go run ./rlpx/examples/relay -addr 127.0.0.1:30303
//	go run ./rlpx/examples/relay -addr 127.0.0.1:30304 enode://...@127.0.0.1:30303
//
// It keeps connections to the nodes of its arguments, dials again with growing pauses, and accepts
// others up to a maximum of peers and of connections from one address. Nothing waits for a slow
// peer: what its queue has no room for is dropped and reported, and a peer whose queue stays full
// is disconnected. Ctrl-C tells all peers and ends.
package main
