// Package capture reads the TCP connections of a packet capture: pcap and pcapng files, gzipped or
// not, to byte streams in order.
//
// A [Reader] takes a capture packet by packet. Each TCP connection is offered to a [Handler], which
// returns a [Stream] for the ones that it wants, and the bytes of both directions go to that Stream
// in the order in which they were sent, whatever order, repetition and overlap they were captured
// in. What the capture does not hold is reported as a gap.
//
// Files are read by gopacket's pcapgo and segments put in order by its reassembly package. What is
// here is what these do not do: tell the connections that follow each other on the same ports, find
// out who opened one, notice what begins or ends in the middle, and keep to bounds.
//
// # Bounds
//
// Memory does not depend on the length of a capture, and is taken for bytes that are there, never
// for lengths that a file or a packet announces. See the constants in bounds.go.
//
// # Ownership and concurrency
//
// Bytes that a Stream gets are valid during the call. A Reader calls its Handler and Streams from
// Next and Finish, and nothing here may be used by several goroutines at once.
package capture
