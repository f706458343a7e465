// Package capturetest makes packet captures for tests: TCP connections as segments, segments as
// packets of several kinds of networks, in pcap and pcapng files, and RLPx sessions with their key
// logs to put into them.
//
// Segments are values, so that tests drop, repeat, reorder and damage them before they are written.
package capturetest
