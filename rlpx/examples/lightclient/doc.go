// Lightclient asks a node of Ethereum for headers: it dials the node, exchanges Status of the
// protocol eth, checks that the node is on the right network, and fetches headers, each of which it
// checks to be the child of the one before. It shows how a protocol of requests and answers goes
// over a session, and is small enough to be copied.
//
//	go run ./rlpx/examples/lightclient -from 0 -count 10 enode://...
//
// It speaks eth/68 and eth/69, whose Status differs. The networks and what their nodes say are
// found in the documents caps/eth.md of ethereum/devp2p and EIP-7642. What it learns is as true as
// the node: it checks no proof of work or stake.
package main
