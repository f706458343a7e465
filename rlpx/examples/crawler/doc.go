// Crawler asks nodes who they are: it dials each node of a list, 32 at a time, and prints what the
// node's Hello says, or in which way the dial failed. It shows what the errors of a dial tell, and
// is small enough to be copied.
//
//	go run ./rlpx/examples/crawler enode://...@10.0.0.1:30303 enode://...
//	go run ./rlpx/examples/crawler -file nodes.txt
//
// A file has an enode URL in each line; empty lines and those that begin with # are left aside. No
// node holds up the others for longer than twice the -timeout and the second or two that a goodbye
// may take. At the end the results are counted. Ctrl-C ends it.
package main
